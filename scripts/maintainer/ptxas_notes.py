#!/usr/bin/env python3
"""Runs a compiler, and makes an error of a note of ptxas that says that code is slower than its source.

    scripts/maintainer/ptxas_notes.py NVCC ARGUMENT...

Such a note says that the products of a warpgroup are serialised, that ptxas has injected a wait or an
arrive between them (C7517, C7519), or that setmaxnreg is ignored. The build uses this program where
warnings are errors, with `-Xptxas=-v`: what ptxas then says of each kernel is not printed but written
beside the object, as OBJECT.ptxas, which record.py reads.
"""
import pathlib
import re
import subprocess
import sys

SLOWER = re.compile(r".*(?:Potential Performance Loss|\(C7517\)|\(C7519\)).*")
VERBOSE = re.compile(r"^(ptxas info +: (?!\(C)| +\d+ bytes stack frame).*\n", re.MULTILINE)


def main():
    command = sys.argv[1:]
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(VERBOSE.sub("", run.stderr))
    if run.returncode != 0:
        sys.exit(run.returncode)
    made = pathlib.Path(command[command.index("-o") + 1])
    slower = SLOWER.search(run.stderr)
    if slower:  # Without its object, the next build compiles it again.
        made.unlink()
        sys.exit(f"cuflash: This note of ptxas is an error here: {slower[0]}")
    made.with_name(made.name + ".ptxas").write_text(
        "".join(line[0] for line in VERBOSE.finditer(run.stderr)), encoding="utf-8")


main()
