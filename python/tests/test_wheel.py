"""The wheel around a library that is built already: only the operators are compiled."""
import importlib.metadata
import importlib.util
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

from cuflash import library

SOURCE = pathlib.Path(__file__).resolve().parents[1]


def run(*arguments, named_library):
    """Runs Python in the package's folder with CUFLASH_LIBRARY."""
    for module in ("pip", "scikit_build_core"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    return subprocess.run(
        [sys.executable, *arguments], cwd=SOURCE,
        env={**os.environ, "CUFLASH_LIBRARY": str(named_library)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False)


def build(folder, named_library, *options):
    """Runs pip wheel."""
    return run("-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps", "--no-cache-dir",
               "--wheel-dir", folder, SOURCE, *options, named_library=named_library)


def test_wheel_of_a_library(tmp_path):
    done = build(tmp_path, library.first().path)
    assert done.returncode == 0, done.stdout
    wheel, = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"cuflash-{library.first().version}-py3-none-linux_")
    with zipfile.ZipFile(wheel) as archive:
        packed = [name for name in archive.namelist() if not name.split("/")[0].endswith("info")]
        found = archive.read("cuflash/libcuflash_attn.so")
        licence = archive.read(f"cuflash-{library.first().version}.dist-info/licenses/LICENSE")
    assert found == pathlib.Path(library.first().path).read_bytes()
    assert licence == (SOURCE.parent / "LICENSE").read_bytes()
    sources = [f"cuflash/{path.name}" for path in (SOURCE / "cuflash").glob("*.py")]
    version = torch_version()
    operators = ["cuflash/libcuflash_operators.so",
                 f"cuflash/libcuflash_gradients_{version}.so"] if version else []
    assert sorted(packed) == sorted(["cuflash/libcuflash_attn.so", *operators, *sources])


def torch_version():
    """The version of PyTorch, if the operators can be compiled for it: from 2.10 on."""
    try:
        version = importlib.metadata.version("torch").split("+", maxsplit=1)[0]
    except importlib.metadata.PackageNotFoundError:
        return None
    return version if [int(word) for word in version.split(".")[:2]] >= [2, 10] else None


@pytest.mark.parametrize("named, words", [("/nonexistent/a.so", "there is no such file"),
                                          ("a.so", "it must be an absolute path"),
                                          (__file__, "it is not a cuflash library")])
def test_a_name_that_is_refused(tmp_path, named, words):
    done = build(tmp_path, named)
    assert done.returncode != 0
    assert f'CUFLASH_LIBRARY is "{named}": {words}' in " ".join(done.stdout.split())


def test_an_empty_name_is_none(tmp_path):
    done = build(tmp_path, "", "-C", "cmake.define.CUFLASH_BACKEND=none")  # compiling would take long
    assert done.returncode != 0
    assert "cuflash_backend_none" in done.stdout


def test_editable_mode_is_refused(tmp_path):
    hook = f"import scikit_build_core.build as b; b.build_editable({str(tmp_path)!r})"
    done = run("-c", hook, named_library=library.first().path)
    assert done.returncode != 0
    assert "cannot be installed in editable mode" in done.stdout
    assert not list(tmp_path.iterdir())
