#!/usr/bin/env python3
"""What scripts/maintainer/update_pages.py puts into the pages: pieces of source code, and tables; and the
results that these come from."""
import pathlib
import sys
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import history  # noqa: E402, it lies there
from update_pages import RESULTS, code, piece, table  # noqa: E402, it lies there

SOURCE = """\
// Adds one.
int add(int x) {
  int y = x;  // a brace { in a comment

  // Loop.
  for (;;) {
    y += 1;

    break;
  }
  // Print.
#pragma unroll
  puts("}");
}

struct Other {};

void print() {
  const auto next = [&] {
    return add(1);

  };
  // Print.
  puts("");
}
""".splitlines()


class Pieces(unittest.TestCase):
    """Where a piece begins and ends."""

    def check(self, name, title, first, last, count):
        """The piece with this name or title."""
        lines = piece(SOURCE, name, title).split("\n")
        self.assertEqual((lines[0], lines[-1], len(lines)), (first, last, count))

    def test_function_with_its_comment(self):
        self.check("add", "", "// Adds one.", "}", 14)

    def test_lambda_and_struct(self):
        self.check("next", "", "const auto next = [&] {", "};", 4)
        self.check("Other", "", "struct Other {};", "struct Other {};", 1)

    def test_paragraph_is_not_indented(self):
        self.check("", "Loop", "// Loop.", 'puts("}");', 9)

    def test_paragraph_of_a_function(self):
        self.assertIsNone(piece(SOURCE, "", "Print"))
        self.check("add", "Print", "// Print.", 'puts("}");', 3)

    def test_exactly_one(self):
        self.assertIsNone(piece(SOURCE, "subtract", ""))
        self.assertIsNone(piece(SOURCE, "puts", ""))
        self.assertIsNone(piece(SOURCE, "", "y = x"))
        with self.assertRaisesRegex(SystemExit, "not exactly one piece of docs/prologue"):
            code("docs/prologue/kernels.cuh", "no such words")


class Columns(unittest.TestCase):
    """The columns that a table shows."""

    KERNELS = "docs/results/nvidia-h200/kernels.json"

    def test_marker(self):
        marker = "<!-- results a.json 01_naive forward{} -->\nold\n<!-- end results -->"
        self.assertEqual(RESULTS.match(marker.format(""))[3].split(), ["01_naive", "forward"])
        named = RESULTS.match(marker.format(" : time, issue slots used"))
        self.assertEqual(named[3].split(), ["01_naive", "forward"])
        self.assertEqual(named[4], "time, issue slots used")

    def test_only_what_is_named(self):
        text = table(self.KERNELS, ["03_online_softmax"], ["passes a shared load", "time"])
        self.assertEqual(text.split("\n")[0], "| pass | kernel | time | passes a shared load |")

    def test_all_without_a_list(self):
        title = table(self.KERNELS, ["03_online_softmax"]).split("\n")[0]
        self.assertIn("| clock |", title)
        self.assertNotIn("passes a shared load", title)

    def test_unknown_column(self):
        with self.assertRaisesRegex(SystemExit, "no row has the column weight"):
            table(self.KERNELS, ["03_online_softmax"], ["weight"])


class Committed(unittest.TestCase):
    """What docs/results holds."""

    def test_less_than_600_kb(self):
        self.assertLess(sum(path.stat().st_size for path in history.RESULTS.rglob("*.*")), 600_000)

    def test_every_run_is_in_the_history(self):
        with unittest.mock.patch.object(sys, "argv", ["history.py", "--check"]):
            history.main()

    def test_a_run(self):
        rows = [{"stage": "01_naive", "pass": "forward", "problem": problem, **speed} for problem, speed in (
            ("b1_h1_q64k64_d64_f16", {"ok": True}), ("b2_h1_q64k64_d64_f16_causal", {"tflops": 1.23456}))]
        problems = ["b1_h1_q64k64_d64"]
        run = history.run_of("ladder.json", {"provenance": {"device": "a", "commit": "b", "date": "2026-01-01T0"},
                                             "rows": rows}, problems)
        self.assertEqual(problems, ["b1_h1_q64k64_d64", "b2_h1_q64k64_d64_causal"])
        self.assertEqual(run, {"device": "a", "commit": "b", "date": "2026-01-01", "file": "ladder.json",
                               "tflops": {"01_naive forward f16": [None, 1.235]}})


if __name__ == "__main__":
    unittest.main()
