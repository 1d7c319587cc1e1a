#!/usr/bin/env python3
"""scripts/maintainer/loss_curve.py draws a result, and detects a figure of a different result."""
import importlib.util
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
from loss_curve import check, draw, stamp  # noqa: E402, it lies there


def result_in(folder):
    """A made-up result with 200 losses per run."""
    runs = [{"attention": name, "seed": seed, "losses": [4 / step for step in range(1, 201)]}
            for name, seed in (("cuflash", 1), ("sdpa", 1), ("sdpa", 2))]
    where = dict.fromkeys(("device", "driver", "cuda", "torch", "commit", "date"), "none")
    path = folder / "result.json"
    path.write_text(json.dumps({"provenance": where, "config": {"compared": 100, "steps": 200},
                                "verdict": {"difference": 0.0123, "spread": 0.1}, "runs": runs}))
    return path


class LossCurve(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.result, self.figure = result_in(self.folder), self.folder / "figure.svg"

    def test_no_files(self):
        self.assertEqual(check(self.result, self.figure), f"there is no {self.figure}")
        missing = self.folder / "missing.json"
        self.assertEqual(check(missing, self.figure), f"there is no {missing}")

    def test_another_result(self):
        self.figure.write_text(f"<svg><desc>{stamp(self.result)}</desc></svg>")
        self.assertEqual(check(self.result, self.figure), "")
        self.result.write_text(self.result.read_text() + "\n")
        self.assertIn("was not drawn from", check(self.result, self.figure))

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "Matplotlib is not installed")
    def test_drawn(self):
        again = self.folder / "again.svg"
        for figure in (self.figure, again):
            draw(self.result, figure)
            self.assertEqual(check(self.result, figure), "")
        self.assertEqual(self.figure.read_bytes(), again.read_bytes())
        for text in ("cuflash, seed 1", "SDPA, seed 2", "0.0123"):
            self.assertIn(text, self.figure.read_text())


if __name__ == "__main__":
    unittest.main()
