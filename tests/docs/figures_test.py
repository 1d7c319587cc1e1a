#!/usr/bin/env python3
"""The figures of docs/figures: each is a well-formed, accessible card and stands on a page, and the mask
that they take from the sources is right."""

import pathlib
import re
import sys
import unittest
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("docs/figures", "docs", "scripts/maintainer")]
import check_links  # noqa: E402, it lies there
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

    def test_each_is_on_a_page(self):
        shown = set()
        for page in repository.files("*.md"):
            images = re.findall(r"!\[[^\]]*\]\(([^()\s]+)\)", (ROOT / page).read_text(encoding="utf-8"))
            shown.update(check_links.resolve(page, image)[0] for image in images)
        self.assertEqual(set(repository.files("docs/figures/*.svg")) - shown, set())


class Sources(unittest.TestCase):
    """Functions of the sources."""

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
