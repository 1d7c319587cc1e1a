"""Tests of the package: of the installed one, else of the source tree's, whose library
CUFLASH_LIBRARY must name. What needs PyTorch, a GPU or the CPU simulator's library is skipped without
it; CUFLASH_REQUIRE_GPU=1 makes a missing GPU a failure, CUFLASH_REQUIRE_TORCH=1 a missing PyTorch or
compiled operators that it cannot load."""
import ctypes
import importlib.util
import os
import pathlib
import sys

import pytest

if importlib.util.find_spec("cuflash") is None:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from cuflash import capi, library  # noqa: E402, it may lie in the source tree

# torch.compile would ask the C++ compiler for seconds which vector instructions there are.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")


def missing_for_torch():
    """Why not all tests that need PyTorch can run, or ""."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed"
    from cuflash import operators  # pylint: disable=import-outside-toplevel, it needs PyTorch
    asked_for = os.environ.get("CUFLASH_OPERATORS") == "ctypes"
    return "" if asked_for else operators.backend_info()["reason"]


def missing_for_gpu():
    """Why tests cannot run on a GPU, or ""."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed"
    import torch  # pylint: disable=import-outside-toplevel
    return "" if torch.cuda.is_available() else "PyTorch finds no GPU"


def pytest_configure():
    for what, missing in ("GPU", missing_for_gpu), ("TORCH", missing_for_torch):
        variable = f"CUFLASH_REQUIRE_{what}"
        if os.environ.get(variable) == "1" and missing():
            pytest.exit(f"{variable} is 1, and {missing()}", returncode=1)


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and missing_for_gpu():
        pytest.skip(missing_for_gpu())


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Each device that tensors may be on."""
    if request.param == "cpu":
        try:
            library.on("cpu")
        except RuntimeError as error:
            pytest.skip(str(error))
    return request.param


@pytest.fixture
def calls(device, monkeypatch):
    """The calls that reach the library, as (its direction, its problem, its arguments)."""
    from cuflash import operators  # pylint: disable=import-outside-toplevel, it needs PyTorch
    seen = []
    lib, (compiled, _) = library.on(device), operators.load()
    functions = {"forward": capi.ForwardArgs, "backward": capi.BackwardArgs}

    def keep(direction, problem, args):
        seen.append((direction, *(type(x).from_buffer_copy(x) for x in (problem, args))))
    if compiled is None:
        for name in functions:
            def spy(problem, args, *rest, name=name, call=getattr(lib, name)):
                keep(name, problem, args)
                return call(problem, args, *rest)
            monkeypatch.setattr(lib, name, spy)
        yield seen
        return
    table, kept = operators.table_of(device), []
    for name, args_type in functions.items():
        signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(capi.Problem),
                                     ctypes.POINTER(args_type), ctypes.c_char_p, ctypes.c_void_p)

        def spy(problem, args, *rest, name=name, call=signature(lib.address(f"cuflash_{name}"))):
            keep(name, problem.contents, args.contents)
            return call(problem, args, *rest)
        kept.append(signature(spy))
        setattr(table, f"cuflash_{name}", ctypes.cast(kept[-1], ctypes.c_void_p).value)
    operators.use(compiled, device, table)
    yield seen
    operators.use(compiled, device, operators.table_of(device))
