#!/usr/bin/env python3
"""scripts/maintainer/wgmma_registers.py, on short listings of machine code."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import machine_code  # noqa: E402, they lie there
import wgmma_registers  # noqa: E402

# S = R24 to R55, P = R88 to R95, O = R56 to R87.
QK = ["WARPGROUP.ARRIVE", "HGMMA.64x64x16.F32 R24, gdesc[UR16], RZ, !UPT",
      "HGMMA.64x64x16.F32 R24, gdesc[UR16], R24, gsb0"]
PV = ["WARPGROUP.ARRIVE", "HGMMA.64x64x16.F32.BF16 R56, R88, gdesc[UR12].tnspB, R56",
      "HGMMA.64x64x16.F32.BF16 R56, R92, gdesc[UR12].tnspB, R56, gsb0"]
WAIT = ["WARPGROUP.DEPBAR.LE gsb0, 0x0"]
WAIT_FOR_OLDER = ["WARPGROUP.DEPBAR.LE gsb0, 0x1"]


def faults(lines):
    """What the check says about these instructions, the first of which has the address 0."""
    listing = "\n".join(f"        /*{16 * n:04x}*/    {line} ;   /* 0x0 */"
                        for n, line in enumerate([*lines, "EXIT"]))
    code = machine_code.instructions(listing)
    assert len(code) == len(lines) + 1, listing
    return wgmma_registers.faults(code)


class Check(unittest.TestCase):
    """What the check finds in short listings."""

    def accepts(self, *parts):
        self.assertEqual(faults(sum(parts, [])), [])

    def finds(self, sentence, *parts):
        found = faults(sum(parts, []))
        self.assertTrue(found and all(sentence in text for text in found), found)

    def test_right_code(self):
        self.accepts(QK, WAIT, ["FMUL R24, R24, R2", "F2FP.F16.F32.PACK_AB R88, R25, R24"], PV, WAIT,
                     ["FMUL R87, R2, R87", "MOV R88, R3"])

    def test_other_registers_may_be_used(self):
        self.accepts(PV, ["MOV R55, R96", "IMAD.WIDE R54, R0, 0x4, R22", "LDS.128 R96, [R54+UR88]",
                          "R2UR UR88, R88", "STG.E.64 desc[UR56][R54.64], R96"], WAIT)

    def test_p_may_be_read(self):
        self.accepts(PV, ["FADD R0, R88, R95", "STS.128 [R2], R88", "ISETP.GE.AND P0, PT, R88, R89, PT"],
                     WAIT)

    def test_p_is_written(self):
        for line in ("F2FP.F16.F32.PACK_AB R88, R25, R24", "@P0 MOV R95, RZ", "MOV.64 R94, R0",
                     "LDS.128 R92, [R2]", "IMAD.WIDE R94, R0, 0x4, R2", "CS2R R90, SRZ",
                     "SHFL.BFLY P1, R91, R0, 0x1, 0x1f", "LDSM.16.M88.4 R86, [R2]"):
            with self.subTest(line=line):
                self.finds("before its wait", PV, [line], WAIT)

    def test_o_is_read_or_written(self):
        for line in ("FADD R0, RZ, -R56", "FMNMX R0, |R87|, R1, !PT", "MOV R60, RZ", "STS.64 [R2], R86",
                     "STG.E desc[UR4][R56.64], R0", "LDS R0, [R70+0x10]", "STS.128 [R2], R53",
                     "IMAD.WIDE R2, R0, 0x4, R56"):
            with self.subTest(line=line):
                self.finds("uses the result", PV, [line], WAIT)

    def test_between_products(self):
        self.finds("writes A of the product at 0010", PV[:2], ["MOV R88, RZ"], PV[2:], WAIT)

    def test_products_of_one_chain_only_share_a_result(self):
        shifted = ["HGMMA.64x64x16.F32 R40, gdesc[UR16], R40, gsb0"]
        self.finds("uses the result of the product at 0010", QK[:2], shifted, WAIT)
        from_result = ["HGMMA.64x64x16.F32 R56, R28, gdesc[UR12], R56, gsb0"]
        self.finds("uses the result", QK, PV[:2], from_result, WAIT)

    def test_a_result_may_not_replace_a_running_products_p(self):
        over_p = ["HGMMA.64x32x16.F32 R80, gdesc[UR16], RZ, !UPT",
                  "HGMMA.64x32x16.F32 R80, gdesc[UR16], R80, gsb0"]
        p_of_older = ["HGMMA.64x32x16.F32 R24, R88, gdesc[UR12], R24",
                      "HGMMA.64x32x16.F32 R24, R92, gdesc[UR12], R24, gsb0"]
        self.finds("writes A", p_of_older, over_p, WAIT_FOR_OLDER, WAIT)

    def test_a_wait_covers_the_older_groups(self):
        self.accepts(QK, PV, WAIT_FOR_OLDER, ["FMUL R24, R24, R2"], WAIT)
        self.finds("uses the result", QK, PV, WAIT_FOR_OLDER, ["FMUL R56, R56, R2"], WAIT)
        self.finds("writes A", QK, PV, WAIT_FOR_OLDER, ["MOV R88, R24"], WAIT)

    def test_narrow_results(self):
        product = ["HGMMA.64x64x16.F16 R24, gdesc[UR16], RZ, !UPT",
                   "HGMMA.64x64x16.F16 R24, gdesc[UR16], R24, gsb0"]
        self.accepts(product, ["MOV R40, RZ"], WAIT)
        self.finds("uses the result", product, ["MOV R39, RZ"], WAIT)

    def test_all_paths_are_followed(self):
        # 0030 jumps behind the wait at 0040, to the use at 0050.
        self.finds("0050 FADD", PV, ["@P0 BRA 0x50"], WAIT, ["FADD R0, R56, R0"])
        self.accepts(PV, ["BRA 0x50", "FADD R0, R56, R0"], WAIT)
        # The wait for a barrier between the issue and the wait is a loop.
        self.accepts(PV, ["SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R21+URZ], R20", "@!P0 BRA 0x30"], WAIT)
        # The next round of the loop writes A.
        self.finds("0000 MOV", ["MOV R88, RZ"], PV, WAIT_FOR_OLDER, ["@P0 BRA 0x0"], WAIT)
        self.accepts(QK, WAIT_FOR_OLDER, ["@P0 BRA 0x0"], WAIT)
        self.finds("never waited for", QK, ["@P0 BRA 0x0"], WAIT)

    def test_calls_and_unknown_branches(self):
        self.finds("a call", PV, ["CALL.REL.NOINC 0x10"], WAIT)
        with self.assertRaisesRegex(ValueError, "cannot follow"):
            faults([*PV, "BRX R2 -0x40", *WAIT])


if __name__ == "__main__":
    unittest.main()
