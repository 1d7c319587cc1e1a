#!/usr/bin/env python3
"""Puts faults at random places, and checks that a test notices each.

    scripts/maintainer/random_mutations.py [--seed N] [--count N] [--out FILE] [GROUP...]

A fault is mechanical: an operator, a bound, a constant or a statement is changed in one line. Of
the groups of sources, kernels get half of the faults, words (common/device) and the simulator three
times as many as api and python. Any test for the group may notice it, on the CPU simulator, and for
a kernel the record of counts. A fault that does not compile is replaced by another. A fault that no
test notices is listed, with the reason from tests/equivalent_mutations.ini if it is known to change
no result; the exit status is 1 if one has no reason. With --out, the list is also written to that file, after every fault.
"""
import argparse
import dataclasses
import pathlib
import random
import re
import sys
import tempfile

import builds
import mutations
import record
from builds import BuildError
from repository import KERNELS, ROOT

REASONS = "tests/equivalent_mutations.ini"
GROUPS = {  # each with its share of the faults
    "kernels": (8, ["stages/*/*.cuh"]),
    "words": (3, ["common/device/*.h", "common/device/host/*.h", "common/device/ptx/*.h"]),
    "api": (1, ["common/api/*.cpp"]),
    "simulator": (3, ["common/simt/*.cpp", "common/simt/*.h"]),
    "python": (1, ["python/cuflash/*.py"]),
}
QUICK = "_*_d64_f16*"  # compiled in a fraction of the time that all of a pass takes
# The stages whose tests may notice a fault of a word.
FOR_WORDS = ("10_tma", "09_async_copy", "06_forward_backward", "04_register_tiles", "03_online_softmax",
             "02_tiled", "01_naive", "16_overlapped_backward", "15_wgmma_backward", "14_persistent",
             "12_warp_specialized")
SOUND = set()  # the tests, with their programs, that have passed without a fault
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


@dataclasses.dataclass
class Fault(mutations.PythonMutation):
    """A change of one line, identified by its number, in any language."""
    number: int = 0

    def applied_to(self, text):
        lines = text.split("\n")
        old = lines[self.number - 1]
        lines[self.number - 1] = old[: len(old) - len(old.lstrip())] + self.becomes
        return "\n".join(lines)

    def narrowed(self, text):
        """The text of stage.cu, reduced to the kernels that the tests need."""
        if self.program == "ladder":
            return text
        direction = "backward" if ".backward_" in self.tests else "forward"
        if self.tests.endswith(QUICK):
            return builds.narrowed(text, direction, ["__half"], [64], null=True)
        return builds.one_pass(text, direction)


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
    """All faults of one file."""
    file = str(path.relative_to(ROOT))
    in_text = False
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        in_text ^= line.count('"""') % 2 == 1
        line = line.strip()
        if in_text or not line or SKIPPED.match(line):
            continue
        for becomes in dict.fromkeys(changes(line, "#" if path.suffix == ".py" else "//")):
            if '"' not in line:
                yield Fault(f"{file}:{number}", file, line, becomes, "", "", number=number)


def tests_of_stage(stage, file=""):
    """Those of the passes that a stage has, or of the one whose kernel the file is; the quick ones first."""
    return [(mutations.STAGES, f"{stage}.{direction}{tests}") for tests in (QUICK, "_*")
            for direction, own in KERNELS.items()
            if (ROOT / "stages" / stage / own).exists() and (file == own or file not in KERNELS.values())]


def suites(group, fault):
    """(program, filter) of the tests that may notice a fault of this group, the quickest first."""
    if group == "kernels":
        _, stage, name = fault.file.split("/")
        return tests_of_stage(stage, name)
    if group == "words":
        device = ("device_tests", "device_sm90_tests", "device_sm90a_tests", "unit_tests")
        return [(program, "*") for program in device] + \
            [tests for stage in FOR_WORDS for tests in tests_of_stage(stage)]
    if group == "api":
        return [("unit_tests", "*")]
    return [(program, "*") for program in ("device_tests", "device_sm90_tests",
                                           "device_sm90a_tests", "simt_tests", "chip_test",
                                           "unit_tests")]


def fails(build, fault):
    """True if the fault's program fails its tests; raises BuildError if it does not compile."""
    with tempfile.TemporaryDirectory(prefix="cuflash_mutation_") as folder:
        folder = pathlib.Path(folder)
        return bool(mutations.Suite(build.program_with(fault, folder), folder).failure(fault.tests))


def changes_counts(build, fault):
    """True if a stage with the fault asks for something else, or gives a wrong result."""
    stage = fault.file.split("/")[1]
    with tempfile.TemporaryDirectory(prefix="cuflash_mutation_") as folder:
        folder = pathlib.Path(folder)
        fault = dataclasses.replace(fault, program="ladder", tests=f"{stage}.*")
        try:
            now, _ = record.counts_of(build.program_with(fault, folder), stage)
        except record.RecordError:
            return True
        return now != record.counts_of(ROOT / "build/simt/bin/ladder", stage)[0]


def noticed(build, group, fault):
    """The program that noticed the fault, or ""; raises BuildError if it does not compile."""
    if group == "python":
        return noticed_by_pytest(fault)
    tried = False
    for program, tests in suites(group, fault):
        candidate = dataclasses.replace(fault, program=program, tests=tests)
        try:
            caught = fails(build, candidate)
        except BuildError as error:
            if "is not made of" in str(error):
                continue
            raise
        tried = True
        if caught and (program, tests) not in SOUND:
            if fails(build, dataclasses.replace(candidate, becomes=candidate.line)):
                sys.exit(f"{program} fails {tests} without a fault")
            SOUND.add((program, tests))
        if caught:
            return program
    if not tried:
        raise mutations.ListError("nothing is made of it")
    return "record.py" if group == "kernels" and changes_counts(build, fault) else ""


def noticed_by_pytest(fault):
    """Runs the package's tests on a copy of the package with the fault."""
    text = fault.applied_to((ROOT / fault.file).read_text(encoding="utf-8"))
    try:
        compile(text, fault.file, "exec")
    except SyntaxError as error:
        raise mutations.ListError(str(error)) from error
    pytest = mutations.pytest_with(mutations.python_with_torch() or sys.exit("It takes PyTorch."))
    return "pytest" if dataclasses.replace(fault, tests=". -x").output(pytest) else ""


def stale_reasons():
    """The entries of the list whose line is no longer in its file."""
    return [name for name, entry in mutations.parsed(REASONS).items()
            if "line" in entry and entry["line"] not in map(
                str.strip, (ROOT / entry["file"]).read_text(encoding="utf-8").split("\n"))]


def reason_for(fault):
    """The listed reason why a fault changes no result; file, old line and new line are the key."""
    for section in mutations.parsed(REASONS).values():
        entry = dict(section)
        if (entry.get("file"), entry.get("line"), entry.get("becomes")) == \
                (fault.file, fault.line, fault.becomes):
            return entry["reason"]
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100, help="faults in all")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], metavar="GROUP")
    options = parser.parse_args()
    if stale := stale_reasons():
        sys.exit(f"{REASONS} names lines that are not there: {', '.join(stale)}")
    groups = options.groups or list(GROUPS)
    build = mutations.Build([mutations.STAGES, "ladder", "chip_test", "device_tests", "device_sm90_tests",
                             "device_sm90a_tests", "simt_tests", "unit_tests"])
    lines, unexplained = [f"# --seed {options.seed} --count {options.count} {' '.join(groups)}"], 0
    shares = sum(GROUPS[group][0] for group in groups)
    for group in groups:
        share, globs = GROUPS[group]
        paths = sorted(path for glob in globs for path in ROOT.glob(glob))
        candidates = [fault for path in paths for fault in faults_of(path)]
        random.Random(options.seed).shuffle(candidates)
        wanted = round(options.count * share / shares)
        while wanted > 0 and candidates:
            fault = candidates.pop()
            try:
                by = noticed(build, group, fault)
            except BuildError:
                continue
            wanted -= 1
            reason = "" if by else reason_for(fault)
            unexplained += not by and not reason
            verdict = f"caught by {by}" if by else f"equivalent: {reason}" if reason else "SURVIVED"
            lines.append(f"{fault.name}: {fault.line}  ->  {fault.becomes}  {verdict}")
            print(lines[-1], flush=True)
            if options.out:
                options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
