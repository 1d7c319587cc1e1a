#!/usr/bin/env python3
"""Makes the figures of the book.

    docs/figures/make.py [--check]

Each script beside this one has a list FIGURES. With --check nothing is written, and the exit
status says whether a committed figure differs from what its script draws.
"""

import importlib
import sys

from drawing import FOLDER

HELPERS = {"drawing", "flow", "make", "sources", "timeline"}
BY_OTHERS = {"train_char_gpt.svg"}  # scripts/maintainer/loss_curve.py draws it


def all_figures():
    """The figures of all scripts."""
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in HELPERS)
    return [figure for name in names for figure in importlib.import_module(name).FIGURES]


def main():
    """Writes or checks."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    figures, faults = all_figures(), []
    for figure in figures:
        if figure.path.exists() and figure.path.read_text(encoding="utf-8") == figure.svg():
            continue
        if check:
            faults.append(f"docs/figures/{figure.path.name} is not what its script draws")
        else:
            figure.path.write_text(figure.svg(), encoding="utf-8")
            print(f"wrote docs/figures/{figure.path.name}")
    drawn = {figure.path.name for figure in figures} | BY_OTHERS
    faults += [f"no script draws docs/figures/{path.name}"
               for path in sorted(FOLDER.glob("*.svg")) if path.name not in drawn]
    if faults:
        sys.exit("\n".join(faults) + "\nrun: docs/figures/make.py")


if __name__ == "__main__":
    main()
