#!/usr/bin/env python3
"""The figures of docs/figures: each is a well-formed, accessible card and stands on a page, make.py
--check reports one that differs, and the values taken from the sources are right."""

import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("docs/figures", "docs", "scripts/maintainer")]
import check_links  # noqa: E402, it lies there
import drawing  # noqa: E402
import make  # noqa: E402
import repository  # noqa: E402
import sources  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = make.all_figures()


class Figures(unittest.TestCase):
    """Properties of every figure."""

    def test_cards(self):
        self.assertGreater(len(FIGURES), 30)
        self.assertEqual(len({figure.name for figure in FIGURES}), len(FIGURES), "names differ")
        for figure in FIGURES:
            with self.subTest(figure=figure.name):
                root = ElementTree.fromstring(figure.svg())
                self.assertTrue(root.find(f"{SVG}title").text)
                self.assertGreater(len(root.find(f"{SVG}desc").text), 40)
                sheets = root.find(f"{SVG}style").text.split("@media(prefers-color-scheme:dark)")
                self.assertEqual(*[set(re.findall(r"\.([\w-]+)\{", sheet)) for sheet in sheets])
                used = {name for node in root.iter() for name in node.get("class", "").split()}
                self.assertEqual(used - set(re.findall(r"\.([\w-]+)\{", sheets[0])), set())

    def test_the_same_bytes(self):
        self.assertEqual(
            [figure.svg() for figure in make.all_figures()], [figure.svg() for figure in FIGURES]
        )

    def test_text_that_does_not_fit(self):
        figure = drawing.Figure("wide", 100, "A title", "A description")
        with self.assertRaisesRegex(ValueError, "too wide"):
            figure.text(0, 50, "m" * 100)
        with self.assertRaisesRegex(ValueError, "too small"):
            figure.text(50, 50, "word", 12)


def on_no_page(figures):
    """The figures, paths from the root, that no Markdown page shows."""
    shown = set()
    for page in repository.files("*.md"):
        images = re.findall(r"!\[[^\]]*\]\(([^()\s]+)\)", (ROOT / page).read_text(encoding="utf-8"))
        shown.update(check_links.resolve(page, image)[0] for image in images)
    return sorted(set(figures) - shown)


class Pages(unittest.TestCase):
    """Where the figures stand."""

    def test_each_figure_is_on_a_page(self):
        figures = repository.files("docs/figures/*.svg")
        self.assertGreater(len(figures), 30)
        self.assertEqual(on_no_page(figures), [])

    def test_one_on_no_page_is_reported(self):
        figures = ["docs/figures/ladder.svg", "docs/figures/nowhere.svg"]
        self.assertEqual(on_no_page(figures), ["docs/figures/nowhere.svg"])


class Check(unittest.TestCase):
    """The output of make.py --check."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for module in (drawing, make):
            patch = mock.patch.object(module, "FOLDER", self.folder)
            patch.start()
            self.addCleanup(patch.stop)
        self.figure = drawing.Figure("one", 100, "A title", "A description")

    def faults(self):
        return list(make.faults([self.figure]))

    def test_missing(self):
        self.assertEqual(self.faults(), ["docs/figures/one.svg is missing"])

    def test_another(self):
        with mock.patch("builtins.print"):
            drawing.write([self.figure])
        self.assertEqual(self.faults(), [])
        self.figure.heading("One word more")
        self.assertEqual(self.faults(), ["docs/figures/one.svg is not what its script draws"])

    def test_nobody_draws_it(self):
        with mock.patch("builtins.print"):
            drawing.write([self.figure])
        (self.folder / "old.svg").write_text("<svg/>")
        self.assertEqual(self.faults(), ["no script draws docs/figures/old.svg"])


class Sources(unittest.TestCase):
    """Constants and functions of the sources."""

    def test_constants(self):
        kernel = "stages/02_tiled/kernel.cuh"
        self.assertEqual(
            [sources.constants(kernel, "Config", bytes=size).kPad for size in (2, 4)], [2, 1]
        )
        kernel = "stages/04_register_tiles/kernel.cuh"
        tiles = [sources.constants(kernel, "Config", kHeadDim=size) for size in (64, 128)]
        self.assertEqual(
            [(tile.kBlockKV, tile.kRows, tile.kColumns, tile.kPitch) for tile in tiles],
            [(64, 4, 8, 68), (32, 4, 4, 132)],
        )
        with self.assertRaisesRegex(ValueError, "no struct"):
            sources.constants(kernel, "Nothing")

    def test_functions(self):
        kernel = "stages/04_register_tiles/kernel.cuh"
        groups = [sources.function(kernel, name) for name in ("row_group", "column_group")]
        self.assertEqual([group(6) for group in groups], [1, 2])
        self.assertEqual(len({tuple(group(lane) for group in groups) for lane in range(32)}), 32)
        with self.assertRaisesRegex(ValueError, "no function"):
            sources.function(kernel, "nothing")

    def test_mask(self):
        functions = sources.mask()
        for num_queries, num_keys in ((6, 6), (3, 7), (7, 3)):
            seq = sources.causal(num_queries, num_keys)
            for i in range(num_queries):
                seen = [j for j in range(num_keys) if functions.visible(seq, i, j)]
                self.assertEqual(
                    seen, [j for j in range(num_keys) if j <= i + num_keys - num_queries]
                )
                first, end = functions.visible_keys(seq, i, i + 1)
                self.assertEqual(list(range(first, end)), seen)
                for j in range(num_keys):
                    first, end = functions.visible_queries(seq, j, j + 1)
                    self.assertEqual(first <= i < end, functions.visible(seq, i, j))
        seq = sources.causal(128, 128)
        self.assertTrue(functions.all_visible(seq, 64, 64, 0, 64))
        self.assertFalse(functions.all_visible(seq, 64, 64, 64, 64))


if __name__ == "__main__":
    unittest.main()
