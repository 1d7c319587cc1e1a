#!/usr/bin/env python3
"""Tests the tests: puts one fault after the other into the sources; the tests must catch each.

    scripts/test.sh mutations [--list | --tested] [--part N/M [--changed]] [WORD...]
    scripts/test.sh mutations --record

Takes the faults of stages/*/faults.ini, tests/faults.ini and, if PyTorch is installed,
python/tests/faults.ini, or those whose name or file contains one of the words. First the tests must
pass without a fault, on the CPU simulator. Then each fault must make one of its tests fail, for
the reason that the list states. The exit status is 0 if every fault is caught, 1 if not, and 2 if the
command line is wrong.

A fault goes into a copy of its file in a temporary folder; this checkout's sources stay unchanged.
If tests of stages must fail, only the stage and the pass that they name are compiled again: a fault
in common/device is in that stage alone. They are compiled for f16 and head_dim 64, unless the tests
name others (*_d96_*, *_f32*). The stage's other tests then do not exist. For another program, all
files that include the changed file are compiled.
"""
import argparse
import concurrent.futures
import configparser
import dataclasses
import difflib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import builds
from builds import BuildError
from repository import ANY_BYTES, ROOT, code

LIST = "faults.ini"
PYTHON_LIST = pathlib.Path("python/tests/faults.ini")
# A digest of each file, with its faults, as it was when all faults were tried.
RECORD = ROOT / "tests/record/faults.txt"
# Searched before those of the checkout, because they hold the fault.
HEADERS = ("common/simt/include", "common", "common/include")
STAGES = "cuflash_tests"  # the program of the stages' tests
STAGE_PROGRAMS = (STAGES, "ladder")  # In these a fault is in one stage alone.
TYPES = {"f32": "float", "f16": "__half", "bf16": "__nv_bfloat16"}
ONE_TEST = re.compile(r"\w+\.\w+")
LIMIT_S = 600  # of a run of the tests: a fault can make a kernel hang


@dataclasses.dataclass
class Mutation:
    name: str
    file: str
    line: str
    tests: str
    caught_by: str
    becomes: str = ""
    program: str = STAGES
    player: str = ""
    tour: str = ""
    listed_in: pathlib.Path = pathlib.Path()

    def stage(self):
        """The folder of the stage whose tests must fail."""
        return "stages/" + self.tests.split(".", maxsplit=1)[0]

    def narrowed(self, text):
        """The text of stage.cu, reduced to the kernels that the tests need."""
        types = [TYPES[name] for name in TYPES if f"_{name}" in self.tests] or [TYPES["f16"]]
        head_dims = re.findall(r"_d(\d+)_", self.tests) or ["64"]
        direction = "backward" if ".backward_" in self.tests else "forward"
        return builds.narrowed(text, direction, types, head_dims)

    def applied_to(self, text):
        """The file's text with the fault in it."""
        lines = text.split("\n")
        found = [n for n, line in enumerate(lines) if line.strip() == self.line]
        if len(found) != 1:
            times = f"{len(found)} times" if found else "no longer"
            raise ListError(f"[{self.name}] {self.file} holds this line {times}:\n    {self.line}\n"
                            f"  It must be there exactly once: bring {self.listed_in} up to date.")
        old = lines[found[0]]
        lines[found[0]] = old[: len(old) - len(old.lstrip())] + self.becomes
        return "\n".join(lines)


class ListError(BuildError):
    """An entry of the list is wrong. This says nothing about the tests."""


class UsageError(Exception):
    """The command line is wrong."""


class Parser(argparse.ArgumentParser):
    """Complains as the scripts do."""

    def error(self, message):
        raise UsageError(f"{message}. See {self.prog} --help.")


def parsed(path):
    """A list of faults; `path` is relative to the checkout."""
    parser = configparser.ConfigParser(delimiters="=", comment_prefixes="#", interpolation=None)
    try:
        parser.read_string((ROOT / path).read_text(encoding="utf-8"), str(path))
    except configparser.Error as error:
        raise ListError(error) from error
    return parser


def lists():
    """The lists of the stages' faults, and that of what they share: paths from the root."""
    of_stages = [path.relative_to(ROOT) for path in sorted(ROOT.glob(f"stages/*/{LIST}"))]
    return [*of_stages, pathlib.Path("tests", LIST)]


def read_list():
    """The faults of the stages, and those of what they share."""
    return [mutation for path in lists() for mutation in read_one(path)]


def entries(path):
    """(name, fields) of each fault of a list: its own, and those of the heading above it."""
    parser = parsed(path)
    folder = path.parent if path.parts[0] == "stages" else pathlib.Path()
    heading = {}
    for name in parser.sections():
        fields = dict(parser[name])
        if "line" in fields:
            fields = {**heading, **fields, "listed_in": path}
            if ONE_TEST.fullmatch(fields.get("tests", "")):
                fields.setdefault("caught_by", fields["tests"].split(".")[1])
            yield name, fields
        elif (ROOT / folder / name).is_file():
            heading = {"file": str(folder / name), **fields}
        else:
            raise ListError(f"{path}: [{name}] has no line, and there is no such file")


def read_one(path, kind=Mutation):
    """The faults of one list. A stage's names its files and tests without the stage."""
    stage = path.parent.name if path.parts[0] == "stages" else ""
    mutations = []
    for name, fields in entries(path):
        try:
            mutation = kind(name, **fields)
            if stage:
                mutation.tests = ":".join(f"{stage}.{tests}" for tests in mutation.tests.split(":"))
            mutation.applied_to((ROOT / mutation.file).read_text(**ANY_BYTES))
            re.compile(mutation.caught_by)
            if kind is Mutation and mutation.program == STAGES and not (ROOT / mutation.stage()).is_dir():
                raise ListError(f"[{name}] {mutation.tests} are no tests of {mutation.file}")
        except (TypeError, OSError, re.error) as error:
            raise ListError(f"{path}: [{name}] {error}") from error
        mutations.append(mutation)
    return mutations


class Build(builds.Build):
    """build/simt: all objects without a fault, and how they are compiled and linked."""

    def __init__(self, programs):
        super().__init__("simt", programs)

    def program_with(self, mutation, folder):
        """The program with the fault in it."""
        try:
            return self.made_with(mutation, folder)
        except BuildError as error:
            raise BuildError(f"[{mutation.name}] {error}") from error

    def made_with(self, mutation, folder):
        """program_with(), whose errors do not name the fault."""
        path = folder / mutation.file
        in_stage = mutation.program in STAGE_PROGRAMS
        if in_stage:
            shutil.copytree(ROOT / mutation.stage(), folder / mutation.stage())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(mutation.applied_to((ROOT / mutation.file).read_text(**ANY_BYTES)), **ANY_BYTES)
        if in_stage:
            objects = self.stage_with(mutation, folder)
        else:
            objects = self.objects_with(mutation, folder)
        program = folder / "tests"
        self.linked(mutation.program, objects.items(), program)
        return program

    def stage_with(self, mutation, folder):
        """The object of the stage. Only the parts that the tests name are compiled."""
        source = f"{mutation.stage()}/stage.cu"
        text = (folder / source).read_text(**ANY_BYTES)
        (folder / source).write_text(mutation.narrowed(text), **ANY_BYTES)
        return self.made_of(mutation, folder, self.objects_of(source))

    def objects_with(self, mutation, folder):
        """The objects that are made from the file."""
        return self.made_of(mutation, folder, self.made_from(mutation.file))

    def made_from(self, file):
        """The names of the objects that are made from a file."""
        return {name for name, files in self.includes.items() if str(ROOT / file) in files}

    def made_of(self, mutation, folder, names):
        """Those of the program's objects that are named, made from the sources in the folder."""
        objects = {}
        for old in set(names) & set(self.objects[mutation.program]) & set(self.compile):
            source = self.compile[old][0]
            here = folder / os.path.relpath(source, ROOT)
            if "/Unity/" in source:  # It includes several sources by their paths.
                here.parent.mkdir(parents=True, exist_ok=True)
                here.write_text(pathlib.Path(source).read_text(encoding="utf-8").replace(
                    str(ROOT / mutation.file), str(folder / mutation.file)), encoding="utf-8")
            objects[old] = folder / old.replace("/", "_")
            # A stage is compiled with -O1 in half the time of -O2. -w: a removed line may leave names
            # unused.
            flags = ["-O1", "-w"] if mutation.program in STAGE_PROGRAMS else ["-w"]
            self.compiled(old, here if here.exists() else source, objects[old], *flags,
                          headers=[folder / name for name in HEADERS])
        if not objects:
            raise ListError(f"{mutation.program} is not made of {mutation.file}")
        return objects


class Suite:
    """A test program, and a folder for its output."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder

    def has(self, tests):
        """True if the filter matches a test; GoogleTest itself accepts one that matches nothing."""
        return b"\n  " in subprocess.run([self.program, "--gtest_list_tests", f"--gtest_filter={tests}"],
                                         check=True, capture_output=True).stdout

    def failure(self, tests, wanted=""):
        """The output of a process that failed, or "": one that matches `wanted` if there is any.

        The tests are divided among one process per core; each stops at its first failure.
        """
        shards = len(os.sched_getaffinity(0))
        running, failed = [], ""
        deadline = time.monotonic() + LIMIT_S
        try:
            for shard in range(shards):
                output = open(self.folder / f"shard{shard}", "w+", encoding="utf-8", errors="replace")
                running.append((output, subprocess.Popen(
                    [self.program, "--gtest_brief=1", "--gtest_fail_fast",
                     f"--gtest_filter={tests}"],
                    env={**os.environ, "GTEST_TOTAL_SHARDS": str(shards),
                         "GTEST_SHARD_INDEX": str(shard)},
                    cwd=self.folder, stdout=output, stderr=subprocess.STDOUT)))
            waiting = list(running)
            while waiting:
                time.sleep(0.01)
                for output, process in [w for w in waiting if w[1].poll() is not None]:
                    waiting.remove((output, process))
                    if process.returncode == 0:
                        continue
                    output.seek(0)
                    # Without the tests that --gtest_fail_fast skips after the first failure.
                    failed = re.sub(r".*: Skipped\n+", "", output.read())
                    failed += f"(exit status {process.returncode})\n"
                    if re.search(wanted, failed):
                        return failed
                if time.monotonic() > deadline:
                    return f"The tests had not ended after {LIMIT_S} s.\n"
            return failed
        finally:
            for output, process in running:
                process.kill()
                process.wait()
                output.close()


def judged(mutation, output):
    """A word for the outcome of a fault, and the reason; `output` is the failed tests', or ""."""
    if reason := re.search(mutation.caught_by, output):
        return "caught", reason[0]
    if output:
        return "MISTAKEN", output[:4000]
    return "SURVIVED", f"{mutation.tests} passes"


def output_with(build, mutation):
    """What failing tests print with the fault in place, or ""."""
    with tempfile.TemporaryDirectory(prefix="cuflash_mutation_") as folder:
        folder = pathlib.Path(folder)
        suite = Suite(build.program_with(mutation, folder), folder)
        if not suite.has(mutation.tests):
            raise ListError(f"[{mutation.name}] There is no test {mutation.tests}.")
        return suite.failure(mutation.tests, mutation.caught_by)


def verdict(build, mutation):
    """The outcome of one fault: a word, the reason, and the seconds it took."""
    start = time.monotonic()
    return *judged(mutation, output_with(build, mutation)), time.monotonic() - start


def expect_right(build, mutations):
    """The tests of the list must pass without a fault."""
    with tempfile.TemporaryDirectory(prefix="cuflash_mutation_") as folder:
        for program in build.link:
            suite = Suite(build.folder / "bin" / program, pathlib.Path(folder))
            tests = dict.fromkeys(m.tests for m in mutations if m.program == program)
            output = suite.failure(":".join(tests))
            if output:
                raise ListError(f"A test fails, even without a fault:\n{output}")


def try_all(mutations, tested):
    """Prints a line for each, in the list's order. True if all were caught."""
    begin = time.monotonic()
    build = Build(sorted({mutation.program for mutation in mutations}))
    if not tested:
        print("Running the tests without a fault", file=sys.stderr)
        expect_right(build, mutations)
        print(f"passes   {time.monotonic() - begin:5.1f} s  the tests, without a fault", flush=True)

    caught = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        verdicts = pool.map(lambda mutation: verdict(build, mutation), mutations)
        try:
            for mutation, (word, said, seconds) in zip(mutations, verdicts):
                caught += word == "caught"
                print(f"{word:8} {seconds:5.1f} s  {mutation.name}  ->  {said}", flush=True)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    print(f"{caught} of {len(mutations)} caught in {time.monotonic() - begin:.0f} s")
    return caught == len(mutations)


# ---- The Python package --------------------------------------------------------------------------

class PythonMutation(Mutation):
    """A fault in the Python package; its tests are pytest's arguments."""

    def output(self, pytest):
        """The tests' output for a copy of the package with the fault, or "" if they pass."""
        with tempfile.TemporaryDirectory(prefix="cuflash_mutation_") as folder:
            shutil.copytree(ROOT / "python/cuflash", pathlib.Path(folder, "cuflash"))
            text = (ROOT / self.file).read_text(encoding="utf-8")
            pathlib.Path(folder, "cuflash", pathlib.Path(self.file).name).write_text(
                self.applied_to(text), encoding="utf-8")
            return pytest(self.tests.split(), folder)


def read_python_list():
    return read_one(PYTHON_LIST, PythonMutation)


def pytest_with(python):
    """pytest of a Python, on the library of build/simt or the one that CUFLASH_LIBRARY names."""
    library = os.environ.get("CUFLASH_LIBRARY", ROOT / "build/simt/libcuflash_attn.so")

    def pytest(arguments, package):
        for operators in ("ctypes", ""):  # the latter: the compiled ones, if they exist
            environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1",
                           "CUFLASH_LIBRARY": str(pathlib.Path(library).resolve()),
                           "CUFLASH_OPERATORS": operators}
            done = subprocess.run(
                [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
                cwd=ROOT / "python/tests", env=environment, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode:
                return done.stdout
        return ""
    return pytest


def python_with_torch():
    """The Python that can run the package's tests, or None."""
    needed = "import numpy, pytest, torch"
    cache = ROOT / "build/simt/CMakeCache.txt"
    named = re.findall(r"^CUFLASH_TORCH_PYTHON:\w+=(.+)$", cache.read_text(**ANY_BYTES),
                       re.MULTILINE) if cache.exists() else []
    return next((python for python in (*filter(os.path.exists, named), sys.executable,
                                       "/usr/bin/python3")
                 if not subprocess.run([python, "-c", needed], capture_output=True,
                                       check=False).returncode), None)


def try_in_python(mutations, tested):
    """try_all() for faults in the Python package; reports if there is no PyTorch."""
    begin = time.monotonic()
    python = python_with_torch()
    if python is None:
        print(f"There is no PyTorch here: the faults of {PYTHON_LIST} are left out.")
        return True
    pytest = pytest_with(python)
    if not tested:
        for tests in dict.fromkeys(mutation.tests for mutation in mutations):
            if output := pytest(tests.split(), ROOT / "python"):
                raise ListError(f"A test fails, even without a fault:\n{output}")
    caught = 0
    for mutation in mutations:
        start = time.monotonic()
        word, said = judged(mutation, mutation.output(pytest))
        caught += word == "caught"
        print(f"{word:8} {time.monotonic() - start:5.1f} s  {mutation.name}  ->  {said}", flush=True)
    print(f"{caught} of {len(mutations)} in Python caught in {time.monotonic() - begin:.0f} s")
    return caught == len(mutations)


def part(text):
    """For argparse: (N, M) of "N/M", 0 <= N < M."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or int(match[1]) >= int(match[2]):
        raise argparse.ArgumentTypeError(f'"{text}" is not N/M with N from 0 to M - 1')
    return int(match[1]), int(match[2])


def digests(mutations):
    """A digest of each file's code and of its faults."""
    entries = {}
    for m in mutations:
        entries.setdefault(m.file, []).append((
            m.name, code(m.file, m.line), code(m.file, m.becomes), m.tests, m.caught_by, m.program))
    return {file: hashlib.sha256(repr((code(file, (ROOT / file).read_text(**ANY_BYTES)), faults))
                                 .encode(errors="replace")).hexdigest()[:16] for file, faults in sorted(entries.items())}


def recorded():
    """The digests of the record."""
    return dict(reversed(line.split()) for line in RECORD.read_text(encoding="utf-8").splitlines())


def record(mutations):
    """Writes the record."""
    RECORD.write_text("".join(f"{digest} {file}\n" for file, digest in digests(mutations).items()),
                      encoding="utf-8")


def part_of(mutations, first, step, changed):
    """Every step-th of the faults; if `changed`, all of a file that differs from the record."""
    known = recorded() if changed else {}
    now = digests(read_list() + read_python_list()) if changed else {}
    return [m for n, m in enumerate(mutations)
            if n % step == first or known.get(m.file) != now.get(m.file)]


def chosen(words):
    """The faults that have one of the words in their name or file."""
    everything = read_list() + read_python_list()
    mutations = [m for m in everything if not words or
                 any(word in m.name or word in m.file for word in words)]
    if not mutations:
        known = {part for m in everything for part in re.findall(r"\w+", f"{m.name} {m.file}")}
        close = difflib.get_close_matches(words[0], sorted(known), 1)
        hint = f' Did you mean "{close[0]}"?' if close else ""
        raise UsageError(f"No fault has {' or '.join(words)} in its name or file.{hint}")
    return mutations


def main():
    parser = Parser(prog="scripts/test.sh mutations", description=__doc__,
                    formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--list", action="store_true", help="print the faults; build nothing")
    parser.add_argument("--tested", action="store_true",
                        help="skip the run without a fault; .ci/run has run all tests")
    parser.add_argument("--part", type=part, default=(0, 1), metavar="N/M",
                        help="only every M-th fault, from the N-th on, counted from 0")
    parser.add_argument("--changed", action="store_true",
                        help="with --part: also all faults of a file that has changed since --record")
    parser.add_argument("--record", action="store_true",
                        help="try all faults and, if all are caught, record in tests/record which files they "
                             "were tried with")
    parser.add_argument("words", nargs="*", metavar="WORD", help="part of a fault's name or file")
    try:
        options = parser.parse_args()
        if options.record and (options.words or options.part != (0, 1) or python_with_torch() is None):
            raise UsageError("--record takes all faults, and a Python with PyTorch for those of the package.")
        mutations = part_of(chosen(options.words), *options.part, options.changed)
        if options.list:
            for mutation in mutations:
                print(f"{mutation.file:41} {mutation.name}")
            return 0
        in_python = [m for m in mutations if isinstance(m, PythonMutation)]
        in_kernels = [m for m in mutations if m not in in_python]
        right = [attempt(some, options.tested) for attempt, some in
                 ((try_all, in_kernels), (try_in_python, in_python)) if some]
        if options.record and all(right):
            record(mutations)
        return 0 if all(right) else 1
    except (BuildError, UsageError) as error:
        print(f"cuflash: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")
        return 130


if __name__ == "__main__":
    sys.exit(main())
