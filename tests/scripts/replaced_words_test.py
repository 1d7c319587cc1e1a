#!/usr/bin/env python3
"""The recorded words of a timeline, and the late ones, leave a kernel's products and waits as they are.

    tests/scripts/replaced_words_test.py

Compiles each stage for 90a, with and without them, in f16 with head_dim 64. Needs nvcc, and
no GPU. Where cuobjdump is on the PATH it compares the machine code, too.
"""
import collections
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import builds  # noqa: E402, they lie there
import machine_code  # noqa: E402
import wgmma_registers  # noqa: E402

NO_SPILLS = ["-Xptxas=-warn-spills"]
RECORDED = [*NO_SPILLS, "-include", "device/instruments/timeline/recorded.h"]
LATE = ["-include", "device/instruments/delays.h"]
SAME = ("HGMMA", "WARPGROUP", "SYNCS", "USETMAXREG", "BAR", "UTMALDG", "UTMASTG",
        "UBLKRED")
STAGES = [file.parent for file in sorted(ROOT.glob("stages/[0-8]?_*/stage.cu"))
          if ".arch = {90, true}" in file.read_text(encoding="utf-8")]


def counts(program):
    """Of each kernel of a program, how often it has which of the instructions SAME."""
    return {name: collections.Counter(kind for i in code for kind in SAME
                                      if i.name.split(".")[0] == kind)
            for name, code in machine_code.kernels(program)}


class ReplacedWords(unittest.TestCase):
    """The stages' kernels with other words."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def compiled(self, stage, flags):
        """The stage's machine code. ptxas says nothing: it serialises no products."""
        built = self.folder / f"{stage.name}_{len(flags)}.cubin"
        self.assertEqual(builds.cubin(stage, [64], built, *flags), "")
        return built

    def test_stages(self):
        self.assertGreater(len(STAGES), 1)
        for stage in STAGES:
            with self.subTest(stage=stage.name):
                recorded, late = self.compiled(stage, RECORDED), self.compiled(stage, LATE)
                if not shutil.which("cuobjdump"):
                    continue
                plain = counts(self.compiled(stage, NO_SPILLS))
                self.assertEqual(counts(recorded), plain)
                self.assertEqual(counts(late), plain)
                for name, code in wgmma_registers.kernels(recorded):
                    self.assertEqual(wgmma_registers.faults(code), [], name)
                    stores = [i for i in code if i.name == "STG.E.128" and i.predicate]
                    self.assertGreater(len(stores), 10, name)
                for name, code in wgmma_registers.kernels(late):
                    self.assertGreater(sum(i.name == "NANOSLEEP" for i in code), 20, name)


if __name__ == "__main__":
    unittest.main()
