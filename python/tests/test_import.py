"""What `import cuflash` needs, and which library it takes."""
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


def test_importing_does_not_import_torch():
    done = python("del sys.modules['torch']; import cuflash, cuflash.capi; cuflash.stages(); "
                  "print('torch' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


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
    monkeypatch.setenv("CUFLASH_LIBRARY", "/nonexistent/libcuflash_attn.so")
    with pytest.raises(OSError, match="/nonexistent/libcuflash_attn.so"):
        library.first.__wrapped__()


CUDA = types.SimpleNamespace(backend="cuda", path="gpu.so")
SIMT = types.SimpleNamespace(backend="simt", path="cpu.so")


@pytest.mark.parametrize("device, first, second, found", [
    ("cuda", CUDA, None, CUDA), ("cuda", CUDA, SIMT, CUDA), ("cpu", CUDA, SIMT, SIMT),
    ("cpu", SIMT, None, SIMT),
    ("cuda", SIMT, None, "cpu.so is the CPU machine's library.*where nvcc is"),
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
