"""The files of this checkout, for scripts that check them or try something on a copy of them."""
import os
import pathlib
import re
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


def code(file, text):
    """The lines of a file's text; of C++ without comments, which decide nothing."""
    comment = r"(?!)" if file.endswith(".py") else r"\s*//.*"
    return [line for line in (re.sub(comment, "", line) for line in text.splitlines()) if line]


def sampled(names, always=()):
    """Of the names, `always` and those of the others that the sample takes: with CUFLASH_SAMPLE=N/M in the
    environment every M-th, from the N-th on, counted from 0; without it all."""
    first, step = map(int, os.environ.get("CUFLASH_SAMPLE", "0/1").split("/"))
    others = [name for name in names if name not in always][first::step]
    return [name for name in names if name in always or name in others]


def copy_sources(to):
    """Copies all these files into the folder `to`."""
    for name in files():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)
