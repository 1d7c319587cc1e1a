#!/usr/bin/env python3
"""The loops of `ceilings` contain what they claim to measure, and little else.

    tests/scripts/ceiling_loops_test.py [PROGRAM]

Reads the machine code of the program, by default build/release/bin/ceilings, with cuobjdump, of the
CUDA toolkit. Needs no GPU.
"""
import collections
import pathlib
import shutil
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import machine_code  # noqa: E402, it lies there

PROGRAM = ROOT / "build/release/bin/ceilings"
# A part of a kernel's mangled name; the instructions that count and their number in a round; how
# many others there may be. Only where both go through the scheduler in each clock, in multiply-adds,
# do the others take time from those that count.
LOOPS = [
    ("multiplyI6__halfLi0E", {"HMMA.16816.F32": 128}, 8),
    ("multiplyI6__halfLi4E", {"HMMA.16816.F32": 128, "MUFU.EX2": 32}, 8),
    ("multiplyI6__halfLi8E", {"HMMA.16816.F32": 128, "MUFU.EX2": 64}, 8),
    ("multiplyI6__halfLi16E", {"HMMA.16816.F32": 128, "MUFU.EX2": 128}, 8),
    ("multiplyI13__nv_bfloat16Li0E", {"HMMA.16816.F32.BF16": 128}, 8),
    ("I6__halfLNS0_11LeftOperandE0ELi256ELi0E", {"HGMMA.64x256x16.F32": 16}, 3 * 16),
    ("I6__halfLNS0_11LeftOperandE1ELi256ELi0E", {"HGMMA.64x256x16.F32": 16}, 3 * 16),
    ("I6__halfLNS0_11LeftOperandE0ELi64ELi0E", {"HGMMA.64x64x16.F32": 64}, 3 * 64),
    ("I6__halfLNS0_11LeftOperandE1ELi64ELi0E", {"HGMMA.64x64x16.F32": 64}, 3 * 64),
    ("LeftOperandE1ELi256ELi128E", {"HGMMA.64x256x16.F32": 16, "MUFU.EX2": 128}, 3 * 16),
    ("LeftOperandE1ELi256ELi256E", {"HGMMA.64x256x16.F32": 16, "MUFU.EX2": 256}, 3 * 16),
    ("I13__nv_bfloat16LNS0_11LeftOperandE0ELi256ELi0E", {"HGMMA.64x256x16.F32.BF16": 16}, 3 * 16),
    ("12multiply_add", {"FFMA": 512}, 5),
    ("17add_outer_product", {"FFMA": 512}, 5),
    ("9take_exp2", {"MUFU.EX2": 256}, 8),
    ("SharedLoadE0E", {"LDSM.16.M88.4": 32}, 2 * 32 + 8),
    ("SharedLoadE1E", {"LDSM.16.MT88.4": 32}, 2 * 32 + 8),
    ("SharedLoadE2E", {"LDS.128": 32}, 2 * 32 + 8),
    ("6AddOne", {"RED.E.ADD.F32.FTZ.RN.STRONG.GPU": 8}, 8 * 8),
    ("7AddFour", {"RED.E.ADD.F32x4.FTZ.RN.STRONG.GPU": 8}, 8 * 8),
]


def loops(code):
    """The instructions of each loop, from the target of a backward branch to it."""
    for end in code:
        begin = end.target()
        if begin is not None and begin < end.address:
            yield [instruction for instruction in code if begin <= instruction.address <= end.address]


@unittest.skipUnless(shutil.which("cuobjdump"), "cuobjdump, of the CUDA toolkit, is not on the PATH")
class CeilingLoops(unittest.TestCase):
    """The machine code of each loop."""

    def test_instructions(self):
        found = set()
        # Once for each architecture.
        for name, code in machine_code.kernels(sys.argv[1] if sys.argv[1:] else PROGRAM):
            for part, wanted, others in LOOPS:
                if part not in name:
                    continue
                found.add(part)
                # Two instructions have another name on some architectures.
                counts = [collections.Counter(i.name.replace("REDG", "RED").replace("LDS.U", "LDS")
                                              for i in loop)
                          for loop in loops(code)]
                with self.subTest(kernel=part):
                    self.assertTrue(
                        any(all(count[i] == n for i, n in wanted.items()) and
                            sum(count.values()) - sum(wanted.values()) <= others
                            for count in counts), [dict(count) for count in counts])
        self.assertEqual({part for part, _, _ in LOOPS}, found, "the kernels of the program")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
