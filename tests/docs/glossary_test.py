#!/usr/bin/env python3
"""Each chapter links a term of the glossary where it first uses it.

A chapter is the prologue's or a stage's README.md. The hardware words and the code's names, two
groups of docs/glossary.md, must be linked before the chapter uses them in prose without a link.
Code blocks, headings, formulas, comments, text that scripts write between markers, alternative
texts of pictures and the texts of other links are not prose. A hardware word counts in prose but
not in inline code; a name of the code counts in inline code that begins with it. `Also:` in an
entry lists words that mean the same.
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "scripts/maintainer")]
from check_links import HEADING, blocks, slug  # noqa: E402, it lies there
from repository import files  # noqa: E402

GLOSSARY = "docs/glossary.md"
WRITTEN_BY_SCRIPT = re.compile(
    r"<!-- (results|screen|code|algorithm)\b.*?-->.*?<!-- end \1 -->|<!--.*?-->", re.DOTALL)
FORMULA = re.compile(r"\$`[^`]+`\$|\$[^$\n]+(?:\n[^$\n]+)?\$")
LINK = re.compile(r"(!?)\[((?:`[^`]*`|!\[[^\]]*\]\([^)]*\)|[^\[\]])*)\]\(([^()\s]+)\)")
IN_CODE = re.compile(r"`([^`]+)`")


def blank(text):
    """Blanks in place of all characters except line breaks."""
    return re.sub(r"[^\n]", " ", text)


class Entry:
    """A heading of the glossary and what is under it."""

    def __init__(self, group, title, anchor):
        self.group, self.anchor = group, anchor
        self.words = [title.strip("`")]

    def add(self, line):
        """Takes the words behind `Also:`."""
        if "Also: " in line:
            self.words += [word.strip(" `.") for word in line.split("Also: ")[1].split(",")]


def entries():
    """The glossary's entries."""
    result, seen, group = [], {}, None
    for line in (ROOT / GLOSSARY).read_text(encoding="utf-8").split("\n"):
        heading = HEADING.match(line)
        if heading:
            anchor = slug(heading[2], seen)
            if heading[1] == "##":
                group = heading[2]
            elif heading[1] == "###":
                result.append(Entry(group, heading[2], anchor))
        elif result:
            result[-1].add(line)
    return result


ENTRIES = entries()
HARDWARE = [entry for entry in ENTRIES if entry.group == "Hardware words"]
NAMES = [entry for entry in ENTRIES if entry.group == "The code's names"]


def prose(text):
    """The page with blanks in place of everything that is not prose."""
    text = WRITTEN_BY_SCRIPT.sub(lambda m: blank(m[0]), text)
    lines = []
    for language, part in blocks(text):
        for line in part:
            is_prose = language is None and not HEADING.match(line)
            lines.append(line if is_prose else blank(line))
    return FORMULA.sub(lambda m: blank(m[0]), "\n".join(lines))


def hardware_pattern(word):
    """The word in singular or plural. The case of letters counts if it is an abbreviation."""
    flags = 0 if word.isupper() or re.match(r"L\d", word) else re.IGNORECASE
    return re.compile(rf"(?<![\w-]){re.escape(word)}(?:s|es)?(?!\w)".replace(r"\ ", r"\s+"), flags)


def missing_links(text):
    """(line number, word) of each term that the text uses before it links it."""
    text = prose(text)
    linked = {}  # anchor: where the first link begins
    for link in LINK.finditer(text):
        name, _, anchor = link[3].partition("#")
        if name.endswith("glossary.md"):
            linked.setdefault(anchor, link.start())
    text = LINK.sub(lambda m: blank(m[0]), text)
    found = []
    for entry in NAMES:
        for code in IN_CODE.finditer(text):
            if any(re.match(rf"{re.escape(word)}(?!\w)", code[1]) for word in entry.words):
                found.append((code.start(), entry, code[1]))
                break
    text = IN_CODE.sub(lambda m: blank(m[0]), text)
    # The longest words first: a bank conflict is no use of "bank".
    words = sorted(((word, entry) for entry in HARDWARE for word in entry.words),
                   key=lambda pair: -len(pair[0]))
    for word, entry in words:
        pattern = hardware_pattern(word)
        first = pattern.search(text)
        if first:
            found.append((first.start(), entry, first[0]))
        text = pattern.sub(lambda m: blank(m[0]), text)
    return sorted((text.count("\n", 0, at) + 1, word) for at, entry, word in found
                  if linked.get(entry.anchor, len(text)) > at)


def pages():
    """Every Markdown file, and which of them are chapters."""
    chapter = re.compile(r"docs/prologue/README\.md|stages/[0-8]\d_\w+/README\.md")
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in files("*.md")}
    return texts, [name for name in texts if chapter.fullmatch(name)]


class Glossary(unittest.TestCase):
    """The chapters and the glossary agree."""

    def test_terms_are_linked_before_they_are_used(self):
        texts, chapters = pages()
        self.assertGreaterEqual(len(chapters), 7)
        for name in chapters:
            with self.subTest(chapter=name):
                self.assertEqual(missing_links(texts[name]), [])

    def test_links_to_the_glossary_exist(self):
        anchors = {entry.anchor for entry in ENTRIES}
        for name, text in pages()[0].items():
            for link in LINK.finditer(prose(text)):
                file, _, anchor = link[3].partition("#")
                if file.endswith("glossary.md") and anchor:
                    with self.subTest(page=name, link=link[0]):
                        self.assertTrue((ROOT / name).parent.joinpath(file).is_file())
                        self.assertIn(anchor, anchors)

    def test_groups_are_in_alphabetical_order(self):
        for group in {entry.group for entry in ENTRIES}:
            words = [entry.words[0].lower() for entry in ENTRIES if entry.group == group]
            keys = [re.sub(r"[^a-z0-9 ]", "", word.split(":")[0]) for word in words]
            self.assertEqual(keys, sorted(keys), group)


if __name__ == "__main__":
    unittest.main()
