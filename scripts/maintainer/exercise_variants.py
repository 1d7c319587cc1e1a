#!/usr/bin/env python3
"""Writes every answer that the check grades: for each exercise the shipped lines, the stage's own
lines, and the wrong answers of its list.

    scripts/maintainer/exercise_variants.py OUT

Every mistake that the model can make must be the diagnosis of a wrong answer.

An exercise is a stage's kernel file with holes. A hole runs from a line `// ---- Exercise` to a line
`// ---- your lines end`. This script checks that the exercise equals the stage's file outside its
holes. The stage's own lines are thus in the kernel file, and are kept nowhere else.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOLE = re.compile(r"^ *// ---- Exercise.*?^ *// ---- your lines end\n", re.M | re.S)
MISTAKE = re.compile(r'\{Mistake::k\w+,\s+\w,\s+\w+,\s+"([^"]+)"')  # a row of mistakes.cpp
MINIMUM = 8  # wrong answers for each stage


def fail(message):
    sys.exit(f"exercises: {message}")


def own_lines(exercise, kernel, name):
    """The kernel file's lines for each hole."""
    parts = HOLE.split(exercise)
    if len(parts) < 2:
        fail(f"{name} has no hole")
    if not kernel.startswith(parts[0]):
        fail(f"{name} differs from the stage's kernel before its first hole")
    lines, at = [], len(parts[0])
    for n, part in enumerate(parts[1:], 2):
        last = n == len(parts)
        end = len(kernel) - len(part) if last else kernel.find(part, at)
        if end < at or not kernel.startswith(part, end):
            fail(f"{name} differs from the stage's kernel after hole {n - 1}")
        lines.append(kernel[at:end])
        at = end + len(part)
    return lines


def filled(exercise, answers, name):
    """The exercise with an answer in each hole."""
    holes = len(HOLE.findall(exercise))
    if len(answers) != holes:
        fail(f"{name} has {holes} holes, and an answer fills {len(answers)}")
    rest = iter(answers)
    return HOLE.sub(lambda _: next(rest), exercise)


def wrong_answers(path):
    """[(exercise, diagnosis, [lines of each hole])] of a list; see CONTRIBUTING.md."""
    answers = []
    for entry in re.split(r"^=== ", path.read_text(), flags=re.M)[1:]:
        head, body = entry.split("\n", 1)
        exercise, diagnosis = head.split(": ")
        answers.append((exercise, diagnosis, re.split(r"^---\n", body, flags=re.M)))
    return answers


def variants():
    """(target, stage, kernel file, pass, name, expected, text) of every answer."""
    for folder in sorted(ROOT.glob("stages/[0-8]?_*/exercises")):
        stage = folder.parent.name
        number = stage.split("_")[0]
        wrong = wrong_answers(folder / "wrong_answers.txt")
        if len(wrong) < MINIMUM:
            fail(f"{stage} has {len(wrong)} wrong answers, and {MINIMUM} are wanted")
        names = {path.stem for path in folder.glob("[0-9]*.cuh")}
        unknown = {exercise for exercise, _, _ in wrong} - names
        if unknown:
            fail(f"{stage} has no exercise {', '.join(sorted(unknown))}")
        for name in sorted(names):
            exercise = (folder / f"{name}.cuh").read_text()
            backward = name.endswith("_bwd")
            kernel = "kernel_bwd.cuh" if backward else "kernel.cuh"
            own = own_lines(exercise, (folder.parent / kernel).read_text(), f"{stage}/{name}")
            answers = [("shipped", "failed", exercise),
                       ("own", "passed", filled(exercise, own, name))]
            for n, (_, diagnosis, lines) in enumerate(w for w in wrong if w[0] == name):
                answers.append((f"wrong{n + 1}", diagnosis, filled(exercise, lines, name)))
            for what, expected, text in answers:
                yield (f"answer_{number}_{name}_{what}", stage, kernel,
                       "CUFLASH_BACKWARD" if backward else "CUFLASH_FORWARD", f"{name} {what}",
                       expected, text)


def write(path, text):
    """Writes a file only if it changes, so that unchanged files are not compiled again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    mistakes = set(MISTAKE.findall((ROOT / "common/grader/mistakes.cpp").read_text()))
    listing, kept = "", set()
    for target, stage, kernel, pass_, name, expected, text in variants():
        mistakes.discard(expected)
        write(out / f"{target}.cuh", text)
        kept.add(f"{target}.cuh")
        listing += f'cuflash_add_variant({target} {stage} {kernel} {pass_} "{name}" {expected})\n'
    if mistakes:
        fail(f"no wrong answer makes the mistakes {', '.join(sorted(mistakes))}")
    for path in out.glob("*.cuh"):
        if path.name not in kept:
            path.unlink()
    write(out / "variants.cmake", listing)
    print(f"{len(kept)} answers")


main()
