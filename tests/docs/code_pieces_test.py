#!/usr/bin/env python3
"""What scripts/maintainer/update_pages.py puts into the pages: pieces of source code, and tables; and the
results that these come from."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import history  # noqa: E402, it lies there
from update_pages import code, table  # noqa: E402, it lies there


class Pieces(unittest.TestCase):
    """What no marker may ask for."""

    def test_not_exactly_one_piece(self):
        for words in ("no_such_function", "// a"):
            with self.assertRaisesRegex(SystemExit, "not exactly one piece of docs/prologue"):
                code("docs/prologue/kernels.cuh", words)

    def test_unknown_column(self):
        with self.assertRaisesRegex(SystemExit, "no row has the column weight"):
            table("docs/results/nvidia-h200/kernels.json", ["03_online_softmax"], ["weight"])


class Committed(unittest.TestCase):
    """What docs/results holds."""

    def test_less_than_600_kb(self):
        self.assertLess(sum(path.stat().st_size for path in history.RESULTS.rglob("*.*")), 600_000)

    def test_every_run_is_in_the_history(self):
        self.assertTrue(history.HISTORY.read_text(encoding="utf-8") == history.renewed(),
                        "run: scripts/maintainer/history.py")


if __name__ == "__main__":
    unittest.main()
