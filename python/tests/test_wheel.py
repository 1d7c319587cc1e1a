"""The wheel around a library that is built already: nothing is compiled."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

from cuflash import library

SOURCE = pathlib.Path(__file__).resolve().parents[1]


def build(folder, named_library):
    """Runs pip wheel with CUFLASH_LIBRARY."""
    for module in ("pip", "scikit_build_core"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    return subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps",
         "--no-cache-dir", "--wheel-dir", folder, SOURCE],
        env={**os.environ, "CUFLASH_LIBRARY": str(named_library)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False)


def test_wheel_of_a_library(tmp_path):
    done = build(tmp_path, library.first().path)
    assert done.returncode == 0, done.stdout
    wheel, = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"cuflash-{library.first().version}-py3-none-linux_")
    with zipfile.ZipFile(wheel) as archive:
        packed = [name for name in archive.namelist() if not name.split("/")[0].endswith("info")]
        found = archive.read("cuflash/libcuflash_attn.so")
    assert found == pathlib.Path(library.first().path).read_bytes()
    sources = [f"cuflash/{path.name}" for path in (SOURCE / "cuflash").glob("*.py")]
    assert sorted(packed) == sorted(["cuflash/libcuflash_attn.so", *sources])


@pytest.mark.parametrize("named, words", [("/nonexistent/a.so", "there is no such file"),
                                          ("a.so", "it must be an absolute path")])
def test_a_name_that_is_refused(tmp_path, named, words):
    done = build(tmp_path, named)
    assert done.returncode != 0
    assert f'CUFLASH_LIBRARY is "{named}": {words}' in " ".join(done.stdout.split())
