"""What `import cuflash` needs, and which library it takes."""
import os
import pathlib
import subprocess
import sys
import types

import pytest

import cuflash
from cuflash import library

PACKAGE = pathlib.Path(cuflash.__file__).parent


def python(code):
    """What another Python prints that has the same cuflash and no PyTorch."""
    before = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); sys.modules['torch'] = None\n"
    return subprocess.run([sys.executable, "-c", before + code], capture_output=True, text=True,
                          check=False)


def test_without_torch():
    done = python("import cuflash; print(cuflash.stages()); cuflash.flash_attn_func")
    assert "01_naive" in done.stdout
    assert "ImportError: cuflash.flash_attn_func needs PyTorch 2.4 or later" in done.stderr


def test_everything_without_torch():
    done = python("from cuflash import *; print(stages()[0], 'FlashAttention' in globals())")
    assert done.stdout == "01_naive False\n", done.stderr


def test_importing_does_not_import_torch():
    done = python("del sys.modules['torch']; import cuflash, cuflash.capi; cuflash.stages(); "
                  "print('torch' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_a_torch_that_lacks_something(tmp_path):
    (tmp_path / "torch.py").write_text("import what_torch_needs\n", encoding="utf-8")
    done = python(f"del sys.modules['torch']; sys.path.insert(0, {str(tmp_path)!r}); "
                  "import cuflash; cuflash.flash_attn_func")
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'what_torch_needs'\n")


def test_an_older_torch():
    done = python("import types; sys.modules['torch'] = types.SimpleNamespace(__version__='2.3.1', "
                  "library=types.SimpleNamespace()); import cuflash; cuflash.FlashAttention")
    assert done.stderr.endswith(
        "ImportError: cuflash.FlashAttention needs PyTorch 2.4 or later; this is 2.3.1\n")


def test_names():
    assert set(cuflash.__all__) <= set(dir(cuflash))
    assert cuflash.__version__ == library.first().version
    with pytest.raises(AttributeError, match="no attribute 'flash_attn'"):
        cuflash.flash_attn  # pylint: disable=pointless-statement


def test_no_library(monkeypatch, tmp_path):
    monkeypatch.delenv("CUFLASH_LIBRARY", raising=False)
    monkeypatch.setattr(library, "_OWN", tmp_path / "libcuflash_attn.so")
    with pytest.raises(RuntimeError, match="There is no .*Install the package .*CUFLASH_LIBRARY"):
        library.first.__wrapped__()


def test_library_named_by_the_environment(monkeypatch):
    path = library.first().path
    monkeypatch.setattr(library, "_OWN", pathlib.Path("/nonexistent"))
    monkeypatch.setenv("CUFLASH_LIBRARY", path)
    assert library.first.__wrapped__().path == path


def test_folder_of_a_library_that_the_loader_finds(tmp_path):
    (tmp_path / "libcuflash_attn.so").symlink_to(pathlib.Path(library.first().path).resolve())
    code = "from cuflash import capi; print(capi.Library('libcuflash_attn.so').folder())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)},
        cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}\n"


@pytest.mark.parametrize("path, words", [
    ("/nonexistent/a.so", "/nonexistent/a.so: cannot open shared object file"),
    ("libc.so.6", "libc.so.6 lacks cuflash_forward: it is not a cuflash library, or it is older"),
])
@pytest.mark.parametrize("variable, load", [("CUFLASH_LIBRARY", "first"),
                                            ("CUFLASH_SIMT_LIBRARY", "_second")])
def test_the_environment_names_no_library(monkeypatch, variable, load, path, words):
    monkeypatch.setenv(variable, path)
    with pytest.raises(OSError, match=f"{variable} names a library that cannot be used: {words}"):
        getattr(library, load).__wrapped__()


CUDA = types.SimpleNamespace(backend="cuda", path="gpu.so")
SIMT = types.SimpleNamespace(backend="simt", path="cpu.so")


@pytest.mark.parametrize("device, first, second, found", [
    ("cuda", CUDA, None, CUDA), ("cuda", CUDA, SIMT, CUDA), ("cpu", CUDA, SIMT, SIMT),
    ("cpu", SIMT, None, SIMT),
    ("cuda", SIMT, None, "cpu.so is the CPU simulator's library.*a machine with nvcc"),
    ("cpu", CUDA, None, "gpu.so computes on cuda.*CUFLASH_SIMT_LIBRARY"),
    ("cpu", CUDA, CUDA, "CUFLASH_SIMT_LIBRARY is gpu.so, which computes on cuda"),
    ("mps", CUDA, SIMT, "on mps; cuflash computes on cuda and on cpu"),
])
def test_library_for_a_device(monkeypatch, device, first, second, found):
    monkeypatch.setattr(library, "first", lambda: first)
    monkeypatch.setattr(library, "_second", lambda: second)
    if not isinstance(found, str):
        assert library.on.__wrapped__(device) is found
        return
    with pytest.raises((RuntimeError, ValueError), match=found):
        library.on.__wrapped__(device)
