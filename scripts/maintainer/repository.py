"""The files of this checkout, for scripts that check them or try something on a copy of them."""
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = {"forward": "kernel.cuh", "backward": "kernel_bwd.cuh"}  # a stage's file for each pass
# How a reader's source is read and written: bytes that are not UTF-8 stay what they are.
ANY_BYTES = {"encoding": "utf-8", "errors": "surrogateescape"}


def files(*patterns):
    """The files that git tracks or would track, sorted: paths from the root. With patterns, such
    as "*.md", only those that match one."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({name for name in listed if name and (ROOT / name).is_file()})


def copy_sources(to):
    """Copies all these files into the folder `to`."""
    for name in files():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)
