#!/usr/bin/env python3
"""scripts/maintainer/paper_lines.py finds faulty tags: in a copy of 03's kernels each tag is
dropped, moved, and misspelt."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
from paper_lines import check_stage, numbers  # noqa: E402, it lies there

STAGE = ROOT / "stages/03_online_softmax"
KERNELS = {path.name: path.read_text(encoding="utf-8") for path in STAGE.glob("*.cuh")}
PAGE = (ROOT / "docs/papers.md").read_text(encoding="utf-8")
TAG = re.compile(r"// \[FA2 Alg\.\d l\.(?P<lines>[^]]*)\](?P<half>, \w+ half)?")
RETURN = 20  # of the backward pass: the end of one of its kernels is enough
# Pairs of tags of which none needs the other.
INDEPENDENT = ("9", "4"), ("4", "3"), ("12, 14", "13, 15")


def errors(file, text):
    return check_stage(STAGE.name, {**KERNELS, file: text}, PAGE)[1]


def tags():
    """(file, match) of every tag except the two halves of a line, of which one is enough."""
    found = [(file, tag) for file, text in KERNELS.items() for tag in TAG.finditer(text)]
    return [(file, tag) for file, tag in found if not tag["half"]]


class Tags(unittest.TestCase):
    def test_as_they_are(self):
        self.assertEqual(check_stage(STAGE.name, KERNELS, PAGE), (PAGE, []))

    def test_a_tag_is_missing(self):
        for file, tag in tags():
            text = KERNELS[file][:tag.start()] + "//" + KERNELS[file][tag.end():]
            self.assertTrue(errors(file, text), f"{tag[0]} is not missed in {file}")

    def test_a_line_of_a_tag_is_missing(self):
        for file, tag in tags():
            listed = numbers(tag["lines"])
            for dropped in listed if len(listed) > 1 else ():
                if dropped == RETURN:
                    continue
                lines = ", ".join(str(line) for line in listed if line != dropped)
                text = KERNELS[file][:tag.start("lines")] + lines + KERNELS[file][tag.end("lines"):]
                self.assertTrue(errors(file, text), f"{dropped} of {tag[0]} is not missed in {file}")

    def test_neighbours_are_swapped(self):
        listed = tags()
        swapped = 0
        for (file, a), (other, b) in zip(listed, listed[1:]):
            if file != other or KERNELS[file][a.end():b.start()].count("__global__"):
                continue
            text = KERNELS[file]
            text = (text[:a.start("lines")] + b["lines"] + text[a.end("lines"):b.start("lines")] +
                    a["lines"] + text[b.end("lines"):])
            found = errors(file, text)
            swapped += 1
            if (a["lines"], b["lines"]) not in INDEPENDENT:
                self.assertTrue(any("stands before" in error for error in found), f"{a[0]} {b[0]}")
        self.assertGreater(swapped, 10)

    def test_no_tag(self):
        for wrong in ("// FA2 Alg.1 l.8", "// [FA2 Alg.3 l.8]", "// [FA2 Alg.1 8]"):
            text = KERNELS["kernel.cuh"].replace("// [FA2 Alg.1 l.8]", wrong)
            self.assertTrue(any("is no tag" in error for error in errors("kernel.cuh", text)), wrong)


if __name__ == "__main__":
    unittest.main()
