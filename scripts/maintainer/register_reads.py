#!/usr/bin/env python3
"""Counts from which banks the multiply-adds of a kernel read their registers.

    scripts/maintainer/register_reads.py SOURCE.cu KERNELS [ARCHITECTURE]

compiles the file with nvcc and reads the machine code with cuobjdump; both are in the CUDA toolkit,
and no GPU is needed. KERNELS is a regular expression for the names of kernels, such as
"attention<float", and ARCHITECTURE 90 unless another is named.

A scheduler's registers lie in two banks, those with even and those with odd numbers, and each bank
delivers one operand of a warp in a clock. Where an instruction marks an operand with .reuse, the
next one takes the register in the same place without reading it again. So a loop needs at least as
many clocks as the fuller bank is read, and as it has instructions.

It prints a row for each loop with at least 32 multiply-adds and no loop in it. The table of
stages/04_register_tiles, docs/results/nvcc/04_register_reads.txt, is the output of
    scripts/maintainer/register_reads.py stages/04_register_tiles/stage.cu "<float, (64|128)>"
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from machine_code import kernels
from repository import ROOT

OPERAND = re.compile(r"-?\|?R(\d+)(\.reuse)?")
FEWEST = 32  # multiply-adds of a loop that is shown


def loops(code):
    """The instructions of each loop, from the target of a backward branch to it."""
    for end in code:
        begin = end.target()
        if begin is not None and begin < end.address:
            yield [instruction for instruction in code if begin <= instruction.address <= end.address]


def innermost(code):
    """The loops that contain no other."""
    found = list(loops(code))
    spans = [(loop[0].address, loop[-1].address) for loop in found]
    return [loop for loop, (begin, end) in zip(found, spans)
            if not any(begin <= b and e < end for b, e in spans)]


def multiply_adds(loop):
    """The number of multiply-adds of a loop."""
    return sum(instruction.name == "FFMA" for instruction in loop)


def reads(loop):
    """How often the instructions of a loop read each of the two banks."""
    banks, kept = [0, 0], {}
    for instruction in loop:
        # The first operand is the result, except that of a store.
        first = 0 if instruction.name.startswith("ST") else 1
        places = dict(enumerate(map(OPERAND.match, instruction.operands.split(", "))))
        sources = {place: match for place, match in places.items() if match and place >= first}
        for register in {int(match[1]) for place, match in sources.items()
                         if kept.get(place) != match[1]}:
            banks[register % 2] += 1
        kept = {place: match[1] for place, match in sources.items() if match[2]}
    return banks


def clocks(loop):
    """The fewest clocks in which a scheduler can issue the loop's instructions for one warp."""
    return max(len(loop), *reads(loop))


def demangled(names):
    """{mangled name: name without namespaces and parameters}"""
    text = subprocess.run(["c++filt", *names], check=True, capture_output=True, text=True).stdout
    return {name: re.sub(r"\(.*|^void |\b\w+::", "", line)
            for name, line in zip(names, text.splitlines())}


def main():
    """Prints the table."""
    if not 3 <= len(sys.argv) <= 4:
        raise SystemExit(__doc__)
    source, wanted, architecture = (sys.argv + ["90"])[1:4]
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "code.cubin"
        subprocess.run(["nvcc", "-std=c++17", f"-arch=sm_{architecture}", "-O3", "-cubin",
                        "--expt-relaxed-constexpr", f"-I{ROOT}/common", f"-I{ROOT}/common/include",
                        "-o", cubin, source], check=True)
        found = dict(kernels(cubin))
    names = demangled(found)
    print(f"{'kernel':35}{'multiply-adds':>14}{'instructions':>14}{'even bank':>11}{'odd bank':>10}"
          f"{'clocks a multiply-add':>23}")
    for mangled, code in found.items():
        for loop in innermost(code):
            count = multiply_adds(loop)
            if count >= FEWEST and re.search(wanted, names[mangled]):
                even, odd = reads(loop)
                print(f"{names[mangled]:35}{count:14}{len(loop):14}{even:11}{odd:10}"
                      f"{clocks(loop) / count:23.2f}")
    version = subprocess.run(["nvcc", "--version"], check=True, capture_output=True, text=True).stdout
    print(f"\ncompute capability {architecture[:-1]}.{architecture[-1]}, "
          f"nvcc {re.search(r'V[0-9.]+', version)[0]}")


if __name__ == "__main__":
    main()
