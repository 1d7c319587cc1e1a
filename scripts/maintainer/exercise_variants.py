#!/usr/bin/env python3
"""Writes every answer that the check grades: for each exercise what is there at the beginning, the stage's
own lines, and the wrong answers of its list.

    scripts/maintainer/exercise_variants.py OUT [N/M | NAME]

With N/M, 0 <= N < M, only every M-th of all these, from the N-th on. With a NAME, only those of the exercises
that have it in their name, 02_5_probabilities. Every mistake that the model can make must be the
diagnosis of a wrong answer.

What a student writes goes into holes, from a line `// ---- Exercise` to a line `// ---- your lines end`.
The stage's own lines are those of its files; the page's code must equal them outside its holes.

A list of wrong answers is tests/grader/NN_name.txt:

    === 2_slots: mbarrier-parity
    -return {n % kStages, static_cast<unsigned>(n / kStages) % 2};
    +return {n % kStages, 0u};
    === 5_barriers: race-overwrite
    ---
      __syncwarp();

An entry has the exercise, the diagnosis that it must get, and hunks of a diff, as variants.py describes them,
of the stage's own lines. An answer that has little in common with these has what stands in each hole, and `---`
between two holes.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from exercise_file import ANSWER, Exercise, with_answers  # noqa: E402, F401, it lies there
from variants import ListError, change, read_hunks  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MISTAKE = re.compile(r'^CUFLASH_MISTAKE\(\w+, \w+, \w+, "([^"]+)"', re.M)
MINIMUM = 8  # wrong answers for each stage


def fail(message):
    sys.exit(f"exercises: {message}")


def check_borders(exercise, own, what):
    """Fails where lines in the places of the blocks differ from the page's code outside its holes."""
    for hole, text in zip(exercise.holes, own):
        if not hole.answers(text):
            fail(f"{exercise.page} differs from {what} outside its holes")


def marked(text):
    """Lines of a student's, as the grader knows them."""
    return f"// ---- your lines begin\n{text}// ---- your lines end\n"


def filled(exercise, answers):
    """The working file with an answer in each hole."""
    working = exercise.working_file()
    holes = len(ANSWER.findall(working))
    if len(answers) != holes:
        fail(f"{exercise.page} has {holes} holes, and an answer fills {len(answers)}")
    rest = iter(answers)
    return ANSWER.sub(lambda _: marked(next(rest)), working)


def changed(exercise, diff):
    """The stage's files with a diff of their own lines in them."""
    texts = [exercise.replaced(hole).split("\n") for hole in exercise.holes]
    try:
        change(texts, read_hunks(diff))
    except ListError as error:
        fail(f"{exercise.page.stem}: {error}")
    texts = ["\n".join(text) for text in texts]
    check_borders(exercise, texts, f"an answer\n{diff}\n")
    return exercise.filled([marked(text) for text in texts])


def wrong_answers(path):
    """[(exercise, diagnosis, text)] of a list."""
    entries = re.split(r"^=== ([^:\n]+): (.+)\n", path.read_text(), flags=re.M)[1:]
    return list(zip(entries[::3], entries[1::3], entries[2::3]))


def answer(exercise, text):
    """The working file with an answer of the list."""
    if re.search(r"^\+|^-(?!--$)", text, re.M):
        return changed(exercise, text.strip("\n"))
    return filled(exercise, re.split(r"^---\n", text, flags=re.M))


def variants():
    """(target, stage, pass, name, expected, files, text) of every answer."""
    for folder in sorted(ROOT.glob("stages/[0-8]?_*/exercises")):
        stage = folder.parent.name
        number = stage.split("_")[0]
        wrong = wrong_answers(ROOT / "tests/grader" / f"{stage}.txt")
        if len(wrong) < MINIMUM:
            fail(f"{stage} has {len(wrong)} wrong answers, and {MINIMUM} are wanted")
        pages = {page.stem: page for page in sorted(folder.glob("[0-9]*.md"))}
        limit = "at most a quarter more loads from shared memory"  # excess_shared_loads() of costs.cpp
        if number > "01" and limit not in " ".join((folder / "README.md").read_text().split()):
            fail(f"{folder}/README.md does not say: {limit}")
        unknown = {name for name, _, _ in wrong} - set(pages)
        if unknown:
            fail(f"{stage} has no exercise {', '.join(sorted(unknown))}")
        for name, page in pages.items():
            exercise = Exercise(page)
            check_borders(exercise, [exercise.replaced(hole) for hole in exercise.holes], exercise.origin)
            answers = [("shipped", "failed", exercise.working_file()),
                       ("own", "passed", "".join(exercise.lines))]
            for n, (_, diagnosis, text) in enumerate(w for w in wrong if w[0] == name):
                answers.append((f"wrong{n + 1}", diagnosis, answer(exercise, text)))
            for what, expected, text in answers:
                yield (f"answer_{number}_{name}_{what}", stage,
                       "BACKWARD" if exercise.backward else "FORWARD", f"{name} {what}", expected, exercise.files,
                       text)


def write(path, text):
    """Writes a file only if it changes, so that unchanged files are not compiled again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    mistakes = set(MISTAKE.findall((ROOT / "common/grader/mistakes.inc").read_text()))
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    part, parts = map(int, only.split("/")) if "/" in only else (0, 1)
    listing, kept, number = "", set(), 0
    for target, stage, pass_, name, expected, files, text in variants():
        mistakes.discard(expected)
        if parts == 1 and only not in target:
            continue
        number += 1
        if number % parts != part:
            continue
        write(out / f"{target}.cuh", text)
        kept.add(f"{target}.cuh")
        listing += f'cuflash_add_variant({target} {stage} {pass_} "{name}" {expected} {" ".join(files)})\n'
    if mistakes:
        fail(f"no wrong answer makes the mistakes {', '.join(sorted(mistakes))}")
    for path in out.glob("*.cuh"):
        if path.name not in kept:
            path.unlink()
    write(out / "variants.cmake", listing)
    print(f"{len(kept)} answers")


if __name__ == "__main__":
    main()
