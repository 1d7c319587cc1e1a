#!/usr/bin/env python3
"""What scripts/maintainer/update_pages.py puts into the pages: pieces of source code, tables and numbers; and
the results that these come from."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import history  # noqa: E402, it lies there
from figures_in_text import loose, ms, renewed  # noqa: E402, it lies there
from repository import files  # noqa: E402, it lies there
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


class Figures(unittest.TestCase):
    """Numbers in prose beside results."""

    def test_renewed(self):
        ratio = ms("13_ping_pong") / ms("14_persistent")
        for marker, want in (('<!--= ms("13_ping_pong") /\nms("14_persistent") -->9.99 times<!---->', f"{ratio:.2f} times"),
                             ("<!--= 1e4 * sms -->5<!---->", "1,320,000"), ("<!--= 2 / 3 -->0.7 ms<!---->", "0.7 ms")):
            self.assertRegex(renewed(f"a {marker} b"), f"^a <!--= [^>]*-->{want}<!----> b$")
        for wrong in ("a <!--= weight -->1<!---->", "a <!--= 1 -->one<!---->", 'a <!--= ms("no_such") -->1<!---->',
                      "\n<!--= 1 -->1<!---->"):
            with self.assertRaises(SystemExit):
                renewed(wrong)

    def test_loose(self):
        results = "\n<!-- results x -->\n| 7 ms |\n\n8 ms.\n<!-- end results -->\n"
        text = "# A\n\n1 ms\n\n## B\n\n2 ms, 4.8 TB/s, 16 × 8, 3\n%, <!--= 4 -->4 ms<!---->, `5 ms`, 6 lanes, 7 times, 1.2 ×, 1.3 times." + results
        self.assertEqual(list(loose(text)), ["2 ms", "3 %", "1.2 ×", "1.3 times"])


class Pages(unittest.TestCase):
    """What the site's Markdown would swallow."""

    def test_no_line_begins_with_a_comment(self):
        for page in files("*.md"):
            text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
            self.assertNotRegex(text, r"(?m)^ {0,3}%", page)


class Committed(unittest.TestCase):
    """What docs/results holds."""

    def test_less_than_600_kb(self):
        self.assertLess(sum(path.stat().st_size for path in history.RESULTS.rglob("*.*")), 600_000)

    def test_every_run_is_in_the_history(self):
        self.assertTrue(history.HISTORY.read_text(encoding="utf-8") == history.renewed(),
                        "run: scripts/maintainer/history.py")


if __name__ == "__main__":
    unittest.main()
