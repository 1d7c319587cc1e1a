#!/usr/bin/env python3
"""Runs a compiler, and makes errors of three kinds of notes of ptxas.

    scripts/maintainer/ptxas_notes.py INJECTED SPILLED NVCC ARGUMENT...

A note of the first kind says that the code is slower than its source: the products of a warpgroup
are serialised, or setmaxnreg is ignored. None may appear. A note of the second kind says that
ptxas has injected a wait or an arrive between such products (C7517, C7519). Their number must be
INJECTED. A note of the third kind says how many bytes of registers a kernel spills; the most must be
SPILLED, or "any". stages/CMakeLists.txt states both numbers for each stage. The build uses this
program where warnings are errors, with `-Xptxas=-v`: what ptxas then says of each kernel is not
printed but written beside the object, as OBJECT.ptxas, which record.py reads.
"""
import pathlib
import re
import subprocess
import sys

SLOWER = re.compile(r".*\(C\d+\) Potential Performance Loss.*")
INJECTED = re.compile(r"\(C7517\)|\(C7519\)")
VERBOSE = re.compile(r"^(ptxas info +: (?!\(C)| +\d+ bytes stack frame).*\n", re.MULTILINE)
SPILLED = re.compile(r"(\d+) bytes spill stores")


def fault(notes, injected, spilled):
    """Why the build must fail, in a sentence, or None."""
    slower = SLOWER.search(notes)
    if slower:
        return f"This note of ptxas is an error here: {slower[0]}"
    found = len(INJECTED.findall(notes))
    if found != injected:
        return (f"ptxas has injected {found} waits and arrives between the products of warpgroups "
                f"(C7517, C7519); stages/CMakeLists.txt states {injected}.")
    most = max(map(int, SPILLED.findall(notes)), default=0)
    if spilled not in (str(most), "any"):
        return f"A kernel spills {most} bytes; stages/CMakeLists.txt states {spilled}."
    return None


def main():
    injected, spilled, *command = sys.argv[1:]
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(VERBOSE.sub("", run.stderr))
    if run.returncode != 0:
        sys.exit(run.returncode)
    made = pathlib.Path(command[command.index("-o") + 1])
    sentence = fault(run.stderr, int(injected), spilled)
    if sentence:  # Without its object, the next build compiles it again.
        made.unlink()
        sys.exit(f"cuflash: {sentence}")
    made.with_name(made.name + ".ptxas").write_text(
        "".join(line[0] for line in VERBOSE.finditer(run.stderr)), encoding="utf-8")


main()
