#!/usr/bin/env python3
"""Runs a compiler, and makes errors of two kinds of notes of ptxas.

    scripts/maintainer/ptxas_notes.py INJECTED NVCC ARGUMENT...

A note of the first kind says that the code is slower than its source: the products of a warpgroup
are serialised, or setmaxnreg is ignored. None may appear. A note of the second kind says that
ptxas has injected a wait or an arrive between such products (C7517, C7519). Their number must be
INJECTED, which stages/CMakeLists.txt states for each stage. The build uses this program where
warnings are errors.
"""
import pathlib
import re
import subprocess
import sys

SLOWER = re.compile(r".*\(C\d+\) Potential Performance Loss.*")
INJECTED = re.compile(r"\(C7517\)|\(C7519\)")


def fault(notes, injected):
    """Why the build must fail, in a sentence, or None."""
    slower = SLOWER.search(notes)
    if slower:
        return f"This note of ptxas is an error here: {slower[0]}"
    found = len(INJECTED.findall(notes))
    if found != injected:
        return (f"ptxas has injected {found} waits and arrives between the products of warpgroups "
                f"(C7517, C7519); stages/CMakeLists.txt states {injected}.")
    return None


def main():
    injected, *command = sys.argv[1:]
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(run.stderr)
    if run.returncode != 0:
        sys.exit(run.returncode)
    sentence = fault(run.stderr, int(injected))
    if sentence:  # Without its object, the next build compiles it again.
        pathlib.Path(command[command.index("-o") + 1]).unlink()
        sys.exit(f"cuflash: {sentence}")


main()
