#!/usr/bin/env python3
"""The loops of `ceilings` contain what they claim to measure, and little else.

    tests/scripts/ceiling_loops_test.py [PROGRAM]

Reads the machine code of the program, by default build/release/bin/ceilings, with cuobjdump, of the
CUDA toolkit. Needs no GPU.
"""
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/ceilings"
INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?(\S+?)(?:\s+(.*?))?\s*;", re.MULTILINE)
TARGET = re.compile(r"0x([0-9a-f]+)$")

# A part of a kernel's mangled name; the instructions that count and their number in a round; how
# many others there may be. Only where both go through the scheduler in each clock, in multiply_add,
# do the others take time from those that count.
LOOPS = [
    ("multiplyI6__halfLi0E", {"HMMA.16816.F32": 128}, 8),
    ("multiplyI6__halfLi4E", {"HMMA.16816.F32": 128, "MUFU.EX2": 32}, 8),
    ("multiplyI6__halfLi8E", {"HMMA.16816.F32": 128, "MUFU.EX2": 64}, 8),
    ("multiplyI6__halfLi16E", {"HMMA.16816.F32": 128, "MUFU.EX2": 128}, 8),
    ("multiplyI13__nv_bfloat16Li0E", {"HMMA.16816.F32.BF16": 128}, 8),
    ("12multiply_add", {"FFMA": 512}, 5),
    ("9take_exp2", {"MUFU.EX2": 256}, 8),
    ("SharedLoadE0E", {"LDSM.16.M88.4": 32}, 2 * 32 + 8),
    ("SharedLoadE1E", {"LDSM.16.MT88.4": 32}, 2 * 32 + 8),
    ("SharedLoadE2E", {"LDS.128": 32}, 2 * 32 + 8),
    ("6AddOne", {"RED.E.ADD.F32.FTZ.RN.STRONG.GPU": 8}, 8 * 8),
    ("7AddFour", {"RED.E.ADD.F32x4.FTZ.RN.STRONG.GPU": 8}, 8 * 8),
]


def loops(code):
    """The instructions of each loop of a kernel, from the target of a backward branch to it."""
    instructions = [(int(at, 16), name, rest or "") for at, name, rest in INSTRUCTION.findall(code)]
    for at, name, rest in instructions:
        target = TARGET.search(rest) if name.startswith("BRA") else None
        if target and int(target[1], 16) < at:
            begin = int(target[1], 16)
            yield [name for where, name, _ in instructions if begin <= where <= at]


def kernels():
    """(mangled name, code) of each kernel of the program, once for each architecture."""
    sass = subprocess.run(["cuobjdump", "-sass", sys.argv[1] if sys.argv[1:] else PROGRAM],
                          check=True, capture_output=True, text=True).stdout
    for code in sass.split("Function : ")[1:]:
        name, _, rest = code.partition("\n")
        yield name.strip(), rest


@unittest.skipUnless(shutil.which("cuobjdump"), "cuobjdump, of the CUDA toolkit, is not on the PATH")
class CeilingLoops(unittest.TestCase):
    """The machine code of each loop."""

    def test_instructions(self):
        found = collections.Counter()
        for name, code in kernels():
            for part, wanted, others in LOOPS:
                if part not in name:
                    continue
                found[part] += 1
                # Two instructions have another name on some architectures.
                counts = [collections.Counter(i.replace("REDG", "RED").replace("LDS.U", "LDS")
                                              for i in loop) for loop in loops(code)]
                with self.subTest(kernel=part):
                    self.assertTrue(
                        any(all(count[i] == n for i, n in wanted.items()) and
                            sum(count.values()) - sum(wanted.values()) <= others
                            for count in counts), [dict(count) for count in counts])
        self.assertEqual({part for part, _, _ in LOOPS}, set(found), "the kernels of the program")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
