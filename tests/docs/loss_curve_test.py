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
from loss_curve import check, draw  # noqa: E402, it lies there


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
    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "Matplotlib is not installed")
    def test_drawn(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            result, figure, again = result_in(folder), folder / "figure.svg", folder / "again.svg"
            self.assertIn("there is no", check(result, figure))
            for each in (figure, again):
                draw(result, each)
                self.assertEqual(check(result, each), "")
            self.assertEqual(figure.read_bytes(), again.read_bytes())
            for text in ("cuflash, seed 1", "SDPA, seed 2", "0.0123"):
                self.assertIn(text, figure.read_text())
            result.write_text(result.read_text() + "\n")
            self.assertIn("was not drawn from", check(result, figure))


if __name__ == "__main__":
    unittest.main()
