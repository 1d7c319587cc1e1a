#!/usr/bin/env python3
"""Grades answers that were written without a look at the grader, one after the other, as a student would.

    scripts/maintainer/grade_answers.py ANSWERS.json OUT.json

ANSWERS.json is a list of {"exercise": "stages/NN_name/exercises/K_name.md", "holes": [the lines in each hole],
"cause": what is wrong, as a teacher would say it}. OUT.json is the same list, each with its "grade": what
`scripts/test.sh exercise` printed. Whether the grade tells the cause is for a person to judge. The exercises'
working files must not be there; they are made and removed.
"""
import json
import pathlib
import subprocess
import sys

from exercise_variants import ROOT, Exercise, filled


def grade(answer):
    """What the grader prints for one answer."""
    page = ROOT / answer["exercise"]
    file = page.with_suffix(".cuh")
    if file.exists():
        sys.exit(f"{file} exists already")
    file.write_text(filled(Exercise(page), answer["holes"]), encoding="utf-8")
    try:
        command = [ROOT / "scripts/test.sh", "exercise", page.parent.parent.name, page.stem]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    finally:
        file.unlink()


def main():
    """Grades all answers of a file."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    answers = json.loads(pathlib.Path(sys.argv[1]).read_text("utf-8"))
    graded = [{**answer, "grade": grade(answer)} for answer in answers]
    pathlib.Path(sys.argv[2]).write_text(json.dumps(graded, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
