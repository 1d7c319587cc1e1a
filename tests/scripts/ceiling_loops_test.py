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
import machine_code  # noqa: E402, they lie there
import register_reads  # noqa: E402
import wgmma_registers  # noqa: E402

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


@unittest.skipUnless(shutil.which("cuobjdump"), "cuobjdump, of the CUDA toolkit, is not on the PATH")
class CeilingLoops(unittest.TestCase):
    """The machine code of each loop."""

    @classmethod
    def setUpClass(cls):
        program = sys.argv[1] if sys.argv[1:] else PROGRAM
        # Once for each architecture.
        cls.kernels = list(machine_code.kernels(program))
        cls.of_warpgroups = wgmma_registers.kernels(program)

    def test_instructions(self):
        found = collections.Counter()
        for name, code in self.kernels:
            for part, wanted, others in LOOPS:
                if part not in name:
                    continue
                found[part] += 1
                # Two instructions have another name on some architectures.
                counts = [collections.Counter(i.name.replace("REDG", "RED").replace("LDS.U", "LDS")
                                              for i in loop)
                          for loop in register_reads.loops(code)]
                with self.subTest(kernel=part):
                    self.assertTrue(
                        any(all(count[i] == n for i, n in wanted.items()) and
                            sum(count.values()) - sum(wanted.values()) <= others
                            for count in counts), [dict(count) for count in counts])
        self.assertEqual({part for part, _, _ in LOOPS}, set(found), "the kernels of the program")

    def test_products_of_warpgroups(self):
        """A round's products are one group. They run while the next round's are issued, and take
        their left operand from where they say."""
        for name, code in self.of_warpgroups:
            with self.subTest(kernel=name):
                self.assertEqual(wgmma_registers.faults(code), [])
                loop = max(register_reads.loops(code), key=len)
                products = list(filter(wgmma_registers.product_of, loop))
                self.assertEqual([i for i in products if "gsb0" in i.operands], products[-1:])
                self.assertEqual([i.operands for i in loop if i.name.startswith("WARPGROUP.DEPBAR")],
                                 ["gsb0, 0x1"])
                for product in map(wgmma_registers.product_of, products):
                    self.assertEqual(bool(product.a), "LeftOperandE1" in name)

    def test_registers(self):
        """The banks hold up the register tile, and not the multiply-adds with the same factors."""
        shares = collections.defaultdict(list)
        for name, code in self.kernels:
            for part in ("12multiply_add", "17add_outer_product"):
                if part in name:
                    loop = max(register_reads.loops(code), key=register_reads.multiply_adds)
                    shares[part].append(max(register_reads.reads(loop)) / 512)
        self.assertLess(max(shares["12multiply_add"]), 0.75)
        self.assertGreater(min(shares["17add_outer_product"]), 1.25)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
