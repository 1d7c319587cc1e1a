#!/usr/bin/env python3
"""Checks that a stage which declares that it repeats another's kernels does so.

    scripts/maintainer/repeated_kernels.py

A stage may keep a pass of the stage before it, so that its directory can be read alone; its stage.cu
then says `stage.forward.repeats = true;`, and which it follows. The two kernel files must be equal
except for comments, includes, the namespace, and code that the earlier stage contains and the later
one takes from common/device.
"""
import difflib
import re
import sys

from repository import KERNELS, ROOT

STAGES = ROOT / "stages"
REPEATS = re.compile(r"stage\.(forward|backward)\.repeats = true;")
# Names that moved to common/device, as the stage that explains them spells them.
MOVED = (
    ("nvcuda::wmma::row_major", "RowMajor"),
    ("nvcuda::wmma::col_major", "ColMajor"),
    ("Accumulator factors; load_matrix_sync(factors, factor, 0, nvcuda::wmma::mem_col_major);",
     "const Accumulator factors = every_column(factor);"),
)


def statements(path):
    """The code of a file: on each line a statement, or the beginning or end of a block."""
    text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    text = re.sub(r"^#(include|pragma once).*", "", text, flags=re.M)
    text = re.sub(r"namespace cuflash::\w+", "namespace", text)
    text = re.sub(r"\s+", " ", text)
    for old, new in MOVED:
        text = text.replace(old, new)
    return [line.strip() for line in re.sub(r"([;{}])", r"\1\n", text).splitlines() if line.strip()]


def differences(repeated, original):
    """The lines in which two kernel files differ, as diff shows them."""
    shared = set(statements(ROOT / "common/device/fragments.h"))
    first = [line for line in statements(original) if line not in shared]
    second = [line for line in statements(repeated) if line not in shared]
    return list(difflib.unified_diff(first, second, str(original), str(repeated), lineterm="", n=1))


def main():
    found, wrong = 0, []
    for source in sorted(STAGES.glob("[0-8]?_*/stage.cu")):
        text = source.read_text(encoding="utf-8")
        for which in REPEATS.findall(text):
            found += 1
            original = re.search(rf'stage\.{which}\.follows = "(\w+)";', text)[1]
            file = KERNELS[which]
            wrong += differences(source.parent / file, STAGES / original / file)
    if not found:
        sys.exit("repeated_kernels: no stage declares that it repeats another's kernels")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
