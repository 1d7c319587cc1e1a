#!/usr/bin/env python3
"""Writes every answer that the check grades: for each exercise what is there at the beginning, the stage's
own lines, and the wrong answers of its list.

    scripts/maintainer/exercise_variants.py OUT [N/M]

With N/M, 0 <= N < M, only every M-th of the wrong answers, from the N-th on, and of the others what is there
at the beginning, if N is even, or the stage's own lines. Every mistake that the model can make must be the
diagnosis of a wrong answer.

What a student writes goes into holes, from a line `// ---- Exercise` to a line `// ---- your lines end`.
The stage's own lines are those of its kernel file; the page's code must equal them outside its holes.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from exercise_file import Exercise  # noqa: E402, it lies there

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOLE = re.compile(r"^ *// ---- Exercise.*?^ *// ---- your lines end\n", re.M | re.S)
MISTAKE = re.compile(r'\{Mistake::k\w+,\s+\w,\s+\w+,\s+"([^"]+)"')  # a row of mistakes.cpp
MINIMUM = 8  # wrong answers for each stage


def fail(message):
    sys.exit(f"exercises: {message}")


def check_borders(exercise):
    """Fails where a page's code differs from the kernel's lines outside its holes."""
    for hole in exercise.holes:
        parts, own, at = HOLE.split(hole.stub), exercise.replaced(hole), 0
        right = len(parts) > 1 and own.startswith(parts[0]) and own.endswith(parts[-1])
        for part in parts:
            at = own.find(part, at)
            right = right and at >= 0
            at += len(part)
        if not right:
            fail(f"{exercise.page} differs from {exercise.kernel.name} outside its holes")


def filled(exercise, answers):
    """The working file with an answer in each hole."""
    working = exercise.working_file()
    holes = len(HOLE.findall(working))
    if len(answers) != holes:
        fail(f"{exercise.page} has {holes} holes, and an answer fills {len(answers)}")
    rest = iter(answers)
    return HOLE.sub(lambda _: next(rest), working)


def wrong_answers(path):
    """[(exercise, diagnosis, [lines of each hole])] of a list; see CONTRIBUTING.md."""
    answers = []
    for entry in re.split(r"^=== ", path.read_text(), flags=re.M)[1:]:
        head, body = entry.split("\n", 1)
        exercise, diagnosis = head.split(": ")
        answers.append((exercise, diagnosis, re.split(r"^---\n", body, flags=re.M)))
    return answers


def variants():
    """(target, stage, pass, name, expected, text) of every answer."""
    for folder in sorted(ROOT.glob("stages/[0-8]?_*/exercises")):
        stage = folder.parent.name
        number = stage.split("_")[0]
        wrong = wrong_answers(ROOT / "tests/grader" / f"{stage}.txt")
        if len(wrong) < MINIMUM:
            fail(f"{stage} has {len(wrong)} wrong answers, and {MINIMUM} are wanted")
        pages = {page.stem: page for page in sorted(folder.glob("[0-9]*.md"))}
        unknown = {name for name, _, _ in wrong} - set(pages)
        if unknown:
            fail(f"{stage} has no exercise {', '.join(sorted(unknown))}")
        for name, page in pages.items():
            exercise = Exercise(page)
            check_borders(exercise)
            answers = [("shipped", "failed", exercise.working_file()),
                       ("own", "passed", "".join(exercise.lines))]
            for n, (_, diagnosis, lines) in enumerate(w for w in wrong if w[0] == name):
                answers.append((f"wrong{n + 1}", diagnosis, filled(exercise, lines)))
            for what, expected, text in answers:
                yield (f"answer_{number}_{name}_{what}", stage,
                       "BACKWARD" if exercise.backward else "FORWARD", f"{name} {what}", expected, text)


def write(path, text):
    """Writes a file only if it changes, so that unchanged files are not compiled again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    mistakes = set(MISTAKE.findall((ROOT / "common/grader/mistakes.cpp").read_text()))
    part, parts = map(int, sys.argv[2].split("/")) if len(sys.argv) > 2 else (0, 1)
    listing, kept, wrong = "", set(), 0
    for target, stage, pass_, name, expected, text in variants():
        mistakes.discard(expected)
        if expected not in ("failed", "passed"):
            wrong += 1
            if wrong % parts != part:
                continue
        elif parts > 1 and (expected == "passed") != (part % 2 == 1):
            continue
        write(out / f"{target}.cuh", text)
        kept.add(f"{target}.cuh")
        listing += f'cuflash_add_variant({target} {stage} {pass_} "{name}" {expected})\n'
    if mistakes:
        fail(f"no wrong answer makes the mistakes {', '.join(sorted(mistakes))}")
    for path in out.glob("*.cuh"):
        if path.name not in kept:
            path.unlink()
    write(out / "variants.cmake", listing)
    print(f"{len(kept)} answers")


main()
