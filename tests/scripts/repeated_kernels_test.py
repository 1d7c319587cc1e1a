#!/usr/bin/env python3
"""scripts/maintainer/repeated_kernels.py takes 06's forward kernel for 05's, but no changed one."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
from repeated_kernels import differences  # noqa: E402, it lies there

ORIGINAL = ROOT / "stages/05_wmma/kernel.cuh"
REPEATED = ROOT / "stages/06_forward_backward/kernel.cuh"
CHANGES = (
    ("kBlockQ = 64;", "kBlockQ = 128;"),
    ("    __syncthreads();  // sQ, sK and sV are written before any warp reads them.\n", ""),
    ("row_sum * o_scale + sum", "row_sum + sum"),
)


class RepeatedKernels(unittest.TestCase):
    def test_equal_but_for_names(self):
        self.assertEqual(differences(REPEATED, ORIGINAL), [])

    def test_a_change_is_seen(self):
        text = REPEATED.read_text(encoding="utf-8")
        for old, new in CHANGES:
            with self.subTest(old=old), tempfile.TemporaryDirectory() as folder:
                self.assertEqual(text.count(old), 1)
                changed = pathlib.Path(folder) / "kernel.cuh"
                changed.write_text(text.replace(old, new), encoding="utf-8")
                self.assertNotEqual(differences(changed, ORIGINAL), [])


if __name__ == "__main__":
    unittest.main()
