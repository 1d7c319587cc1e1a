#!/usr/bin/env python3
"""Makes the working files of exercises: each a file of the stage, with the exercise's stubs in it.

    scripts/exercise_file.py [--reset] stages/03_online_softmax/exercises/1_rescaling.md...

An exercise is a page, K_name.md, of a stage's `kernel.cuh`; K_name_bwd.md is one of `kernel_bwd.cuh`. A line
of the page names other files, if the holes are there. Several follow each other in the working file, a file
after those that it includes:

    <!-- files producer.cuh kernel.cuh -->

Before each ```cuda block of the page stands its place, in a comment that a reader does not see:

    <!-- place
    the first line of the file that the block replaces
    the last one
    -->

Each of the two occurs once in these files. The result is K_name.cuh, beside the page. Where its lines answer
another exercise of the stage, it includes them from build/answers, so that they are compiled and not shown; those
that overlap with this exercise's own places stay. An existing file is kept, unless with --reset. For each page one
line is printed: "made K_name", "begun K_name" or, where the file is still as it was made, "untouched K_name".
"""
import os
import pathlib
import re
import sys
from typing import NamedTuple

# Bytes of a reader's that are not UTF-8 stay what they are.
ANY_BYTES = {"encoding": "utf-8", "errors": "surrogateescape"}
ANSWERS = pathlib.Path(__file__).resolve().parents[1] / "build/answers"
INCLUDED = re.compile(r'^#include "(\S+)"  // the answer to exercise \d\n', re.M)
FILES = re.compile(r"^<!-- files (.+) -->$", re.M)
BLOCK = re.compile(r"^<!-- place\n(?P<first>[^\n]+)\n(?P<last>[^\n]+)\n-->\n+"
                   r"```cuda\n(?P<stub>.*?)^```$", re.M | re.S)
ANSWER = re.compile(r"^ *// ---- Exercise.*?^ *// ---- your lines end\n", re.M | re.S)


class Hole(NamedTuple):
    """The lines from `begin` up to `end`, and the stub in their place."""
    begin: int
    end: int
    stub: str

    def answers(self, text):
        """What a text has in each place of a student's; None if it differs from the stub elsewhere."""
        match = re.fullmatch("(.*?)".join(map(re.escape, ANSWER.split(self.stub))), text, re.S)
        return match and match.groups()


class Exercise:
    """An exercise's page, and the files of the stage that it is about."""

    def __init__(self, page):
        self.page = page
        self.backward = page.stem.endswith("_bwd")
        text = page.read_text(encoding="utf-8")
        named = FILES.search(text)
        self.files = named[1].split() if named else ["kernel_bwd.cuh" if self.backward else "kernel.cuh"]
        self.origin = " and ".join(self.files)
        self.lines = [line for name in self.files for line in
                      (page.parent.parent / name).read_text(**ANY_BYTES).splitlines(keepends=True)]
        self.holes = [Hole(self._line(match["first"]), self._line(match["last"]) + 1, match["stub"])
                      for match in BLOCK.finditer(text)]
        if not self.holes or len(self.holes) != text.count("```cuda"):
            raise SystemExit(f"{page}: there must be at least one ```cuda block, each after its place")
        ends = [0] + [hole.end for hole in self.holes]
        if any(hole.begin < end or hole.begin >= hole.end for hole, end in zip(self.holes, ends)):
            raise SystemExit(f"{page}: the places are not in the order of {self.origin}")

    def _line(self, text):
        """The number of the one line that has this text."""
        found = [n for n, line in enumerate(self.lines) if line.rstrip("\n") == text]
        if len(found) != 1:
            raise SystemExit(f"{self.page}: {len(found)} lines of {self.origin} are\n{text}")
        return found[0]

    def replaced(self, hole):
        """The stage's own lines in the place of a hole."""
        return "".join(self.lines[hole.begin:hole.end])

    def hidden(self, hole):
        """The stage's own lines in the place of a hole, with an include for each answer, which is written, too."""
        text, *parts = ANSWER.split(hole.stub)
        answers = hole.answers(self.replaced(hole))
        if answers is None:  # Of a stage that its reader has changed.
            return self.replaced(hole)
        for n, (answer, part) in enumerate(zip(answers, parts)):
            name = f"{self.page.parts[-3]}/{self.page.stem}_{self.holes.index(hole)}_{n}.cuh"
            file = ANSWERS / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists() or file.read_text(**ANY_BYTES) != answer:  # Else it would be compiled again.
                file.write_text(answer, **ANY_BYTES)
            text += f'#include "{name}"  // the answer to exercise {self.page.stem[0]}\n' + part
        return text

    def filled(self, texts):
        """The stage's files with a text in the place of each hole."""
        parts, at = [], 0
        for hole, text in zip(self.holes, texts):
            parts += self.lines[at:hole.begin] + [text]
            at = hole.end
        return "".join(parts + self.lines[at:])

    def working_file(self):
        """The stage's files with the stubs."""
        return self.filled([hole.stub for hole in self.holes])

    def students_file(self):
        """What a student begins with: the same without the answers to the other exercises."""
        text = self.working_file()
        for other in map(Exercise, sorted(set(self.page.parent.glob("[0-9]*.md")) - {self.page})):
            for hole in other.holes:
                text = text.replace(other.replaced(hole), other.hidden(hole), 1)
        return text


def with_answers(text):
    """A student's file with the answers in the place of their includes."""
    return INCLUDED.sub(lambda match: (ANSWERS / match[1]).read_text(**ANY_BYTES), text)


def prepare(page, reset):
    """Makes the file of a page, if it is not there, and says so; returns in which state it is."""
    exercise = Exercise(page)
    file = page.with_suffix(".cuh")
    if file.is_symlink() and not file.exists():
        raise SystemExit(f"cuflash: {file} is a link to a file that is not there: {os.readlink(file)}.")
    begin = exercise.students_file()
    if file.exists() and not reset:
        return "untouched" if file.read_text(**ANY_BYTES) == begin else "begun"
    again = " again" if file.exists() else ""
    file.write_text(begin, **ANY_BYTES)
    command = f"scripts/test.sh exercise {page.parts[-3][:2]} {page.stem.split('_')[0]}"
    print(f"Made {file}{again} from {exercise.origin}. Write your lines there, between \"your lines begin\" and "
          f"\"your lines end\". This grades them: {command}", file=sys.stderr)
    return "made"


def main():
    """Prepares the files of all pages."""
    reset = sys.argv[1:2] == ["--reset"]
    for page in map(pathlib.Path, sys.argv[1 + reset:]):
        print(prepare(page, reset), page.stem)


if __name__ == "__main__":
    main()
