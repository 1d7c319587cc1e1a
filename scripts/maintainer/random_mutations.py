#!/usr/bin/env python3
"""Puts faults at random places, and checks that a test notices each.

    scripts/maintainer/random_mutations.py [--seed N] [--count N] [GROUP...]

A fault is mechanical: an operator, a bound, a constant or a statement is changed in one line. Of the
groups of sources, kernels get half of the faults, words (common/device) and the simulator three times as
many as api and python. Any test of what is made from the file may notice it, on the CPU simulator, and
for a kernel the record of counts. Without a fault all of them must pass. A fault that does not compile is
replaced by another. One that no test notices is printed as SURVIVED, and the exit status is then 1: it
needs a test, unless it changes no result.
"""
import argparse
import dataclasses
import pathlib
import random
import re
import sys
import tempfile

import mutations
import record
from builds import BuildError
from repository import KERNELS, ROOT

GROUPS = {  # each with its share of the faults
    "kernels": (8, ["stages/*/*.cuh"]),
    "words": (3, ["common/device/*.h", "common/device/host/*.h", "common/device/ptx/*.h"]),
    "api": (1, ["common/api/*.cpp"]),
    "simulator": (3, ["common/simt/*.cpp", "common/simt/*.h"]),
    "python": (1, ["python/cuflash/*.py"]),
}
PROGRAMS = ("unit_tests", "device_tests", "device_sm90_tests", "device_sm90a_tests", "simt_tests", "chip_test")
SWAPS = [("<=", "<"), (">=", ">"), ("<", "<="), (">", ">="), ("==", "!="), ("!=", "=="),
         ("+", "-"), ("-", "+"), ("*", "+"), ("/", "*"), ("%", "/"), ("&&", "||"), ("||", "&&"),
         ("and", "or"), ("or", "and"), ("min", "max"), ("max", "min"), ("true", "false"),
         ("false", "true"), ("True", "False"), ("False", "True")]
# An operator has blanks on both sides, so that a template's bracket is not taken for one.
OPERATORS = [(re.compile(rf"(?<= ){re.escape(old)}(?= )" if not old.isalpha() else rf"\b{old}\b"),
              new) for old, new in SWAPS]
NUMBER = re.compile(r"(?<![\w.'\"])\d+(?![\w.'])")
STATEMENT = re.compile(r"(?!return|break|continue|using|case|throw)[\w.\[\]>*+-]+(\(| [-+*/|&]?= |\+\+).*;")
# Lines in which a change means nothing: text for people, and text for the compiler alone.
SKIPPED = re.compile(r"(//|/\*|\*|#|\"\"\"|@|import |from |namespace|static_assert|template|using|"
                     r"report_|say\(|refuse\(|raise |EXPECT|assert)")


class Whole(mutations.Mutation):
    """A fault in a stage of which all is compiled."""

    def narrowed(self, text):
        return text


def changes(line, comment):
    """The changes of a line; `comment` is the token that begins a comment."""
    code = line.split(comment)[0].rstrip()
    for pattern, new in OPERATORS:
        for match in pattern.finditer(code):
            yield code[: match.start()] + new + code[match.end():]
    for match in NUMBER.finditer(code):
        yield code[: match.start()] + str(int(match[0]) + 1) + code[match.end():]
    if STATEMENT.fullmatch(code):
        yield ";"


def faults_of(path):
    """All faults of one file, in lines that it holds once."""
    file, in_text = str(path.relative_to(ROOT)), False
    lines = [line.strip() for line in path.read_text(encoding="utf-8").split("\n")]
    for line in lines:
        in_text ^= line.count('"""') % 2 == 1
        if in_text or '"' in line or lines.count(line) > 1 or SKIPPED.match(line):
            continue
        for becomes in dict.fromkeys(changes(line, "#" if path.suffix == ".py" else "//")):
            yield mutations.PythonMutation(file, file, line, "*", "", becomes)


def attempts(build, fault):
    """The fault, for each program and its tests that may notice it, the quickest first."""
    made, path = build.made_from(fault.file), pathlib.Path(fault.file)
    for program in PROGRAMS:
        if made & set(build.objects[program]):
            yield dataclasses.replace(fault, program=program)
    if path.parts[0] == "stages" or path.is_relative_to("common/device"):
        tests = [f"{source.parent.name}.{direction}_*" for source in sorted(ROOT.glob("stages/*/stage.cu"))
                 if made & set(build.objects_of(source.relative_to(ROOT)))
                 for direction, own in KERNELS.items()
                 if (source.parent / own).exists() and path.name not in set(KERNELS.values()) - {own}]
        for kind in (mutations.Mutation, Whole):
            yield from (kind(**{**vars(fault), "tests": names}) for names in tests)


def changes_counts(build, fault):
    """True if a stage with the fault asks for something else, or gives a wrong result."""
    stage = fault.file.split("/")[1]
    with tempfile.TemporaryDirectory(prefix="cuflash_mutation_") as folder:
        whole = Whole(**{**vars(fault), "program": "ladder", "tests": f"{stage}.*"})
        try:
            now, _ = record.counts_of(build.program_with(whole, pathlib.Path(folder)), stage)
        except record.RecordError:
            return True
        return now != record.counts_of(ROOT / "build/simt/bin/ladder", stage)[0]


def noticed(build, fault):
    """The program that notices the fault, or ""; raises BuildError or SyntaxError if it does not compile."""
    if fault.file.endswith(".py"):
        compile(fault.applied_to((ROOT / fault.file).read_text(encoding="utf-8")), fault.file, "exec")
        pytest = mutations.pytest_with(mutations.python_with_torch() or sys.exit("PyTorch is needed."))
        return "pytest" if dataclasses.replace(fault, tests=". -x").output(pytest) else ""
    tried = list(attempts(build, fault))
    if not tried:
        raise BuildError("nothing is made of it")
    for attempt in tried:
        if mutations.output_with(build, attempt):
            return attempt.program
    return "record.py" if fault.file.startswith("stages/") and changes_counts(build, fault) else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100, help="faults in all")
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], metavar="GROUP")
    options = parser.parse_args()
    groups = options.groups or list(GROUPS)
    build = mutations.Build([mutations.STAGES, "ladder", *PROGRAMS])
    shares, survived = sum(GROUPS[group][0] for group in groups), 0
    for group in groups:
        share, globs = GROUPS[group]
        candidates = [fault for pattern in globs for path in sorted(ROOT.glob(pattern)) for fault in faults_of(path)]
        random.Random(options.seed).shuffle(candidates)
        wanted = round(options.count * share / shares)
        while wanted > 0 and candidates:
            fault = candidates.pop()
            try:
                by = noticed(build, fault)
            except (BuildError, SyntaxError):
                continue
            wanted -= 1
            survived += not by
            print(f"{fault.file}: {fault.line}  ->  {fault.becomes}  "
                  f"{f'caught by {by}' if by else 'SURVIVED'}", flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
