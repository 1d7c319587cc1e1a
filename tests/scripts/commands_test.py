#!/usr/bin/env python3
"""The scripts' and the ladder's command lines, as a newcomer sees them: wrong options are refused
with a sentence before anything is built, tables fit the terminal, Ctrl-C leaves a clean line.

Needs the targets ladder, exercises, exercise_00_1_puppet, cuflash_tests and prologue of the preset simt.
Nothing is built here: the first `cmake` on the PATH only reports that it was called.
"""
import codecs
import fcntl
import json
import math
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import broken_runs  # noqa: E402, it lies there
import builds  # noqa: E402
from repository import copy_sources  # noqa: E402

BIN = ROOT / "build/simt/bin"
SMALL = ["--shape", "b1_h1_q40k70_d64"]
CALLED = "cmake was called"
# It has the right version; the environment sets what else it does.
CMAKE = f"""#!/bin/sh
[ "$1" = --version ] && echo cmake version 3.25.1 && exit
[ "$1" = --build ] && eval "$ON_BUILD"
echo {CALLED}
exit ${{CMAKE_STATUS:-1}}
"""
FOLDER = tempfile.TemporaryDirectory()
FAKE = pathlib.Path(FOLDER.name)
(FAKE / "cmake").write_text(CMAKE, encoding="utf-8")
(FAKE / "cmake").chmod(0o755)


def environment(**more):
    """The environment without what changes the commands, and with the `cmake` above."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "CUFLASH_SAMPLE")}
    return {**kept, "PATH": f"{FAKE}:{kept['PATH']}", **more}


def run(*command, cwd=ROOT, **more):
    """Runs a script or a program, given by its path in the repository."""
    return subprocess.run([ROOT / command[0], *command[1:]], cwd=cwd, env=environment(**more), text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False)


def copy_of_checkout(test):
    """The folder of a copy of the sources, which the test's end removes."""
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    root = pathlib.Path(folder.name)
    copy_sources(root)
    return root


class Terminal:
    """A program in its own terminal."""

    def __init__(self, *command, columns=80, **more):
        self.output = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored if tests run in the background
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.chdir(ROOT)
            os.execve(ROOT / command[0], [ROOT / command[0], *command[1:]], environment(**more))

    def read_until(self, pattern, seconds=300):
        """Reads on until the output matches; None reads to its end."""
        deadline = time.monotonic() + seconds
        while pattern is None or not re.search(pattern, self.output):
            if not select.select([self.fd], [], [], deadline - time.monotonic())[0]:
                raise AssertionError(f"no {pattern} within {seconds} s:\n{self.output}")
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # the terminal has ended
                data = b""
            if not data:
                break
            self.output += self.decoder.decode(data)

    def ended(self):
        """Reads the rest and returns the exit status."""
        self.read_until(None)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def interrupt(self):
        os.write(self.fd, b"\x03")


# What the scripts must refuse, and what the sentence says.
RUN = "scripts/run.sh"
TEST = "scripts/test.sh"
REFUSED = [
    ((RUN, "--stage", "05_wma"), 'Did you mean "05_wmma"?'),
    ((RUN, "--stage", "softmax"), 'Did you mean "03_online_softmax"?'),
    ((RUN, "--stage", "99"), "There are: 01_naive"),
    ((RUN, "5"), 'Did you mean "--stage 5"?'),
    ((RUN, "--sahpe", "x"), 'Did you mean "--shape"?'),
    ((RUN, "--anotate", "02"), 'Did you mean "--annotate"?'),
    ((RUN, "--play", "3", "--txt"), 'Did you mean "--text"?'),
    ((RUN, "--stage", "3", "--break"), "--break needs --play with one stage"),
    ((RUN, "--play", "2", "3", "--break"), "--break needs --play with one stage"),
    ((RUN, "--play", "3", "--break", "--text"), "cannot be combined"),
    ((RUN, "--stage", "3", "--against"), "--against takes a revision"),
    ((RUN, "--against", "HEAD"), "--against takes a revision"),
    ((RUN, "--stage", "3", "--against", "HEAD", "--causal"), "needs --stage and no other option"),
    ((RUN, "--stage", "3", "--against", "no-such-revision"), 'There is no revision "no-such-revision"'),
    ((RUN, "--report", "--causal"), "--report takes no other option"),
    ((RUN, "--diff", "5"), "--diff needs A B"),
    ((TEST, "05_wma"), 'Did you mean "05_wmma"?'),
    ((TEST, "exercize", "1"), 'Did you mean "exercise"?'),
    ((TEST, "1", "2"), "one stage"),
    ((TEST, "--lst"), "There is no option"),
    ((TEST, "mutations", "--tset"), "--tset"),
    ((TEST, "mutations", "--part", "2/2"), "2/2"),
    ((TEST, "mutations", "barier"), 'Did you mean "barrier"?'),
    ((TEST, "exercise"), "Usage:"),
    ((TEST, "exercise", "1", "maks"), 'Did you mean "mask"?'),
    ((TEST, "exercise", "1", "1", "--grade", "xml"), '--grade takes json, not "xml".'),
    ((TEST, "exercise", "1", "1", "--grade"), "--grade takes json.\n"),
    ((TEST, "exercise", "1", "1", "--rest"), 'Did you mean "--reset"?'),
    ((TEST, "exercise", "1", "--play"), "name its exercise"),
    (("scripts/new_stage.sh", "mine"), "--from"),
    (("scripts/new_stage.sh", "mine", "--form", "1"), 'Did you mean "--from"?'),
    (("scripts/new_stage.sh", "mine", "--from", "1_naiv"), 'Did you mean "01_naive"?'),
    (("scripts/new_stage.sh", "Mine", "--from", "1"), "lower-case"),
    (("scripts/new_stage.sh", "class", "--from", "1"), "choose another name"),
    (("scripts/new_stage.sh", "std", "--from", "1"), "choose another name"),
    (("scripts/new_stage.sh", "simt", "--from", "1"), "choose another name"),
    (("scripts/new_stage.sh", "mutations", "--from", "1"), "choose another name"),
    (("scripts/docs.sh", "html"), "--help"),
    (("scripts/prologue.sh", "sector"), 'Did you mean "sectors"?'),
    (("scripts/prologue.sh", "banks", "warps"), "one lesson"),
    (("scripts/maintainer/screens.sh", "--help"), "usage: scripts/maintainer/screens.sh FOLDER"),
]

# What the ladder must refuse, and run.sh with it, and what the sentence says.
WRONG = {"--stage": "TEXT missing", "--stage=": "TEXT missing", "--stage 1 --stage 2": "received 2",
         "--stage 1 --map 2": "excludes", "--list --annotate 2": "excludes", "--map 2 --json x": "excludes",
         "--list 5": "not expected: 5", "--causal=yes": "not expected: yes", "--text": "requires --play",
         "--stage 3 --text": "requires --play", "--dtype fp16": "fp16 not in {",
         "--pass backwards": "not in {forward,backward,both}", "--schedule random": "random:SEED",
         "--schedule Inorder": "random:SEED", "--block 1,2": "X,Y,Z", "--block 1,2,3,4": "X,Y,Z",
         "--compare 1": "2 required", "--diff 1 1": "two different stages", "--play 3 3": "two different stages",
         "--play": "TEXT missing", "--play 1 2 3": "received 3",
         "--shape b1h2q40k70d64": 'An example is b2_h4x1', "--shape b1_h2_q40_d64_left16_causal": "in this order",
         "--shape b1_h3x2_q4_d32": "not a multiple of heads_kv",
         "--input no/such/folder": "There is no folder", "--input stages": "has no q.npy",
         "--input bench/data --shape b1_h1_q4_d32": "ends in _real",
         "--timed b1_h1_q4k4_d32": "--timed needs a GPU",
         "--json no/such/x.json": 'There is no folder "', "--list --json no/such/x.json": 'There is no folder "'}
# What both must take.
GOOD = ["--stage 5", "--stage 05", "--stage wmma", "--stage 5_wmma", "--stage=05_wmma", "--dtype bf16",
        "--dtype=f32 --causal", "--pass both", "--schedule inorder", "--schedule random:7",
        "--block 0,0,0", "--compare 1 2", "--map 02", "--annotate tiled", "--list --causal",
        "--play 3", "--play 3 --text", "--play 2 3", "--play 2 3 --text",
        f"--play online_softmax --json {FAKE}/run.json --causal",
        f"--list --json {FAKE}/list.json", "--stage 5 --shape 05_wmma.forward_b1_h1_q4k4_d32_f16"]


class Refused(unittest.TestCase):
    def assert_refused(self, done, sentence=""):
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"\Acuflash: [^\n]+\n\Z")
        self.assertIn(sentence, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_before_anything_is_built(self):
        for command, sentence in REFUSED:
            with self.subTest(command):
                self.assert_refused(run(*command), sentence)

    def test_by_the_ladder(self):
        for options, sentence in WRONG.items():
            with self.subTest(options):
                self.assert_refused_by_ladder(options.split(), sentence)

    def assert_refused_by_ladder(self, options, sentence, **more):
        """run.sh ends with what the built ladder says."""
        done = run(RUN, *options, CMAKE_STATUS="0", **more)
        done.stderr = done.stderr.replace(f"{CALLED}\n", "")
        done.stdout = done.stdout if "--diff" not in options else ""
        self.assert_refused(done, sentence)

    def test_arrays_that_are_no_problem(self):
        sentences = {((1, 3, 5, 32), (1, 3, 5, 32)): "not a multiple of heads_kv",
                     ((1, 2, 7, 32), (1, 2, 8, 32)): "must have one shape",
                     ((2, 2, 5, 32), (2, 2, 5, 32)): "must have one shape",
                     ((1, 2, 5, 64), (1, 2, 5, 64)): "must have one shape",
                     ((1, 2, 0, 32), (1, 2, 0, 32)): "seq_kv is 0"}
        for (k, v), sentence in sentences.items():
            with self.subTest((k, v)), tempfile.TemporaryDirectory() as folder:
                for name, shape in (("q", (1, 2, 5, 32)), ("k", k), ("v", v)):
                    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
                    pathlib.Path(folder, f"{name}.npy").write_bytes(
                        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
                        + bytes(4 * math.prod(shape)))
                self.assert_refused(run("build/simt/bin/ladder", "--stage", "1", "--input", folder), sentence)

    def test_file_is_relative_to_the_caller(self):
        self.assert_refused_by_ladder(["--input", "data"], "stages/data", cwd=ROOT / "stages")
        self.assertIn(CALLED, run(RUN, "--input", "data", cwd=ROOT / "bench").stderr)


class Accepted(unittest.TestCase):
    def test_by_the_ladder_and_the_script_alike(self):
        for options in GOOD:
            with self.subTest(options):
                self.assertIn(CALLED, run(RUN, *options.split()).stderr)
                shape = [] if "--shape" in options else ["--shape", "b1_h1_q4_d32"]
                done = run("build/simt/bin/ladder", *shape, *options.split())
                self.assertNotEqual(done.returncode, 2, done.stderr)

    def test_facts_as_json(self):
        file = FAKE / "facts.json"
        run("build/simt/bin/ladder", "--list", "--json", file)
        facts = json.loads(file.read_text(encoding="utf-8"))
        self.assertIn(("05_wmma", "forward"), [(row["stage"], row["pass"]) for row in facts])

    def test_json_is_utf_8(self):
        file = FAKE / "commit.json"
        run("build/simt/bin/ladder", "--stage", "1", *SMALL, "--json", file, CUFLASH_COMMIT="caf\udce9")
        self.assertIn("caf\N{REPLACEMENT CHARACTER}", file.read_text(encoding="utf-8"))

    def test_same_options_as_the_ladder(self):
        of_ladder = re.findall(r"^  (?:-h,)?(--[a-z]+)", run("build/simt/bin/ladder", "--help").stdout, re.M)
        known = re.findall(r"^  (--[a-z]+) ", run(RUN, "--help").stdout, re.M)
        self.assertEqual({*known, "--help"}, {*of_ladder, "--diff", "--break", "--against", "--report"})

    def test_help(self):
        for command in ([RUN], [TEST], [TEST, "01"], [TEST, "exercise"], ["scripts/new_stage.sh"],
                        ["scripts/docs.sh"], ["scripts/prologue.sh"], ["docs/players.py"]):
            done = run(*command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            self.assertRegex(done.stdout, r"\A[Uu]sage: ", command)

    def test_lessons_of_the_prologue(self):
        lessons = run("build/simt/bin/prologue", "--list").stdout.split()
        self.assertIn(f"The lessons: {' '.join(lessons)}\n", run("scripts/prologue.sh", "--help").stdout)


class Verdicts(unittest.TestCase):
    def test_where_all_is_skipped(self):
        for options in (["--stage", "06"], ["--compare", "5", "6"]):
            done = run("build/simt/bin/ladder", *options, "--dtype", "f32", *SMALL)
            self.assertEqual(done.returncode, 1)
            self.assertIn("Nothing ran: every row was skipped.", done.stdout)
            self.assertNotIn("Next:", done.stdout)

    def test_a_stage_with_itself(self):
        done = run("build/simt/bin/ladder", "--compare", "2", "tiled", "--pass", "forward")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("\n02_tiled "), 1)
        self.assertRegex(done.stdout, r"\nquantity +committed +here, CuFlash CPU simulator")
        self.assertRegex(done.stdout, r"\nrequested bytes +14.8 MB +14.8 MB +the same\n")
        self.assertRegex(done.stdout, r"\ntime, NVIDIA H200 +[\d.]+ ms +-\n")

    def test_where_something_ran(self):
        done = run("build/simt/bin/ladder", "--stage", "5", *SMALL)
        self.assertEqual(done.returncode, 0)
        self.assertIn("Next:", done.stdout)

    def test_where_nothing_can_be_written(self):
        for command in [["ladder", *view, *SMALL] for view in Widths.VIEWS] + [["prologue", "threads"]]:
            with self.subTest(command), open("/dev/full", "wb") as full:
                done = subprocess.run([BIN / command[0], *command[1:]], stdout=full, stderr=subprocess.PIPE,
                                      text=True, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, r"cuflash: [^\n]+\n\Z")


class Exercises(unittest.TestCase):
    """What a grade says of an answer that is more than its kernel's values: PUPPET says what it does."""

    def grade(self, does, *options, program=BIN / "exercise_00_1_puppet"):
        return run("build/simt/bin/exercises", *options, "00_prologue", program, PUPPET=does)

    def program_that(self, command, compiler=b""):
        """A stand-in for an exercise: the command, and what the compiler said; none if it did not compile."""
        program = FAKE / "exercise_01_1_mask"
        program.unlink(missing_ok=True)
        program.with_suffix(".log").write_bytes(compiler)
        if command:
            program.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
            program.chmod(0o755)
        return program

    def test_warnings_of_the_compiler(self):
        wrong = '{"passed":false,"diagnoses":[{"id":"x","message":"O is wrong."}]}'
        def said(*warnings, grade=wrong):
            compiler = b"".join(b"/a/%s\n 3 | x\n   | ^\n" % warning for warning in warnings)
            return self.grade("", program=self.program_that(f"echo $1 '{grade}' >&3", compiler)).stdout

        self.assertIn("  O is wrong.\n0 of", said(b"kernel.cuh:3:1: warning: x is unused"))
        text = said(b"1_mask.cuh:3:1: warning: unsigned", b"1_mask.cuh:3:1: warning: unsigned")
        self.assertIn("  O is wrong.\n  The compiler warns:\n    | 1_mask.cuh:3:1: warning: unsigned\n"
                      "    |  3 | x\n    |    | ^\n0 of", text)
        self.assertEqual(text.count("unsigned"), 1)
        text = said(b"1_mask.cuh:3:1: warning: x is used uninitialized")
        self.assertNotIn("O is wrong", text)
        self.assertRegex(text, r"used before it is set\.(?s:.*)    \| 1_mask\.cuh:3:1: warning: x")
        right = '{"passed":true,"diagnoses":[]}'
        self.assertIn("mask: done\n1 of 1", said(b"1_mask.cuh:3:1: warning: unsigned", grade=right))

    def test_without_an_answer(self):
        program = self.program_that(None)
        program.with_suffix(".log").unlink()
        self.assertEqual(self.grade("", program=program).stdout, "exercise 1, mask: not begun\n0 of 1 done\n")
        grade, = json.loads(self.grade("", "--json", program=program).stdout)["exercises"]
        self.assertEqual(grade["diagnoses"][0]["id"], "not-begun")

    def test_tells_more_when_asked(self):
        wrong = ('{"passed":false,"diagnoses":[{"id":"x","message":"O is wrong.","more":"The stage adds.",'
                 f'"details":"{"x " * 60}"}}]}}')
        program = self.program_that(f"echo $1 '{wrong}' >&3")
        told, asked = (self.grade("", *options, program=program).stdout for options in ([], ["--more"]))
        self.assertNotIn("The stage adds.", told)
        self.assertIn("What the stage does there: scripts/test.sh exercise 00 1 --more\n", told)
        self.assertRegex(asked, r"  O is wrong\.\n(    \| .{,94}\n){2}  The stage adds\.\n")
        self.assertNotIn("--more", asked)

    def test_prints(self):
        done = self.grade("print")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?s)puppet: done\n  It printed:\n    \| .*and \d+ more lines\n1 of 1 done")
        for line in ("hello", "caf\N{REPLACEMENT CHARACTER}"):
            self.assertIn(f"    | {line}\n", done.stdout)

    def test_crashes(self):
        done = self.grade("crash")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout.replace("\n  ", " "),
                         r"crashed at problem 1 of \d+, b1_\w+: Segmentation fault\. It printed:   \| before\n")

    def test_forges_its_grade(self):
        done = self.grade("forge")
        self.assertEqual(done.returncode, 1)
        self.assertIn("before it was graded", done.stdout)
        self.assertIn("0 of 1 done", done.stdout)

    def test_json_is_utf_8(self):
        program = self.program_that(None, b"1_mask.cuh:3:1: error: caf\xe9\n")
        grade, = json.loads(self.grade("", "--json", program=program).stdout)["exercises"]
        self.assertIn("caf\N{REPLACEMENT CHARACTER}", grade["diagnoses"][0]["details"])

    def test_endless(self):
        for limit in ("XCPU", "ALRM"):
            program = self.program_that(f"echo $1 [3/7] problem 3 of 7, small >&3; kill -{limit} $$")
            done = self.grade("", program=program)
            self.assertEqual(done.returncode, 1)
            self.assertIn("[3/7]", done.stdout)
            self.assertIn("stopped at problem 3 of 7, small: a loop does not end", done.stdout)


class ExerciseFile(unittest.TestCase):
    """scripts/test.sh exercise makes the file that a student writes in, in a copy of the checkout."""

    def setUp(self):
        self.root = copy_of_checkout(self)
        self.file = self.root / "stages/03_online_softmax/exercises/1_rescaling.cuh"

    def exercise(self, *options, **environment):
        """`scripts/test.sh exercise 03 1`, which ends where it wants to build."""
        return run(self.root / TEST, "exercise", "03", *options, cwd=self.root, **environment)

    def test_is_the_kernel_with_the_stub_in_it(self):
        self.assertFalse(self.file.exists())
        done = self.exercise("1")
        self.assertIn("1_rescaling.cuh from kernel.cuh", done.stderr)
        with mock.patch("exercise_file.ANSWERS", self.root / "build/answers"):
            text = broken_runs.answer_of(self.file, self.file.parts[-3]).text
        kernel = (self.file.parent.parent / "kernel.cuh").read_text(encoding="utf-8")
        before, stub = text.split("      // ---- Exercise 1.")
        own, after = stub.split("      // ---- your lines end\n")
        self.assertTrue(kernel.startswith(before) and kernel.endswith(after))
        self.assertNotIn("finite_max", own)

    def test_shows_no_answer_to_another_exercise(self):
        self.exercise("1")
        text = self.file.read_text(encoding="utf-8")
        for answer in ("visible(seq", "kv_tiles", "inverse"):
            self.assertNotIn(answer, text)
        self.assertEqual(text.count("  // the answer to exercise "), 6)

    def test_is_not_graded_before_something_is_written(self):
        made = self.exercise("1")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertRegex(made.stderr, r"\AMade .*\. This grades them: scripts/test\.sh exercise 03 1\n\Z")
        untouched = self.exercise("1")
        self.assertEqual((untouched.returncode, untouched.stderr), (1, "cuflash: Not begun: 1_rescaling.\n"))

    def test_of_several_files_has_one_below_the_other(self):
        run(self.root / TEST, "exercise", "14", "2", cwd=self.root)
        folder = self.root / "stages/14_persistent"
        text = (folder / "exercises/2_o_by_tma.cuh").read_text(encoding="utf-8")
        producer, kernel = ((folder / name).read_text(encoding="utf-8") for name in ("producer.cuh", "kernel.cuh"))
        self.assertEqual(text[:100], producer[:100])
        self.assertIn(producer[-40:] + kernel[:100], text)
        self.assertEqual(text[-100:], kernel[-100:])
        self.assertEqual(text.count("your lines begin"), 2)

    def test_is_never_overwritten(self):
        self.file.write_text("mine\n", encoding="utf-8")
        done = self.exercise("1")
        self.assertNotIn("Made ", done.stderr)
        self.assertEqual(self.file.read_text(encoding="utf-8"), "mine\n")

    def test_reset(self):
        self.file.write_text("mine\n", encoding="utf-8")
        done = self.exercise("1", "--reset")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1_rescaling.cuh again from kernel.cuh", done.stderr)
        self.assertIn("your lines begin", self.file.read_text(encoding="utf-8"))

    def test_is_not_made_behind_a_link(self):
        elsewhere = self.root / "elsewhere"
        self.file.symlink_to(elsewhere)
        done = self.exercise("1")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"1_rescaling.cuh is a link to a file that is not there: {elsewhere}.\n", done.stderr)
        self.assertFalse(elsewhere.exists())

    def test_any_bytes(self):
        kernel = self.file.parent.parent / "kernel.cuh"
        kernel.write_bytes(kernel.read_bytes() + b"// caf\xe9\n")
        self.exercise("1")
        self.assertTrue(self.file.read_bytes().endswith(b"// caf\xe9\n"))

    def test_reset_takes_one_exercise(self):
        done = self.exercise("--reset")
        self.assertEqual(done.returncode, 2)
        self.assertIn("name that exercise", done.stderr)
        self.assertFalse(self.file.exists())

    def test_what_the_compiler_says_is_kept(self):
        programs = self.root / "build/simt/bin"
        programs.mkdir(parents=True)
        (programs / "exercises").write_text('#!/bin/sh\ncat "$2.log"\n', encoding="utf-8")
        (programs / "exercises").chmod(0o755)
        self.file.write_text("mine\n", encoding="utf-8")
        compile_once = f'''case "$*" in *exercise_03*) [ -e {programs}/exercise_03_1_rescaling ] ||
            {{ echo a warning; touch {programs}/exercise_03_1_rescaling; }};; esac'''
        for _ in range(2):
            done = self.exercise("1", CMAKE_STATUS="0", ON_BUILD=compile_once)
            self.assertIn("a warning\n", done.stdout, done.stderr)

    def test_may_be_committed(self):
        ignored = subprocess.run(["git", "check-ignore", "-q", self.file.relative_to(self.root)], cwd=ROOT,
                                 check=False)
        self.assertEqual(ignored.returncode, 1)

    def test_place_must_be_there_once(self):
        kernel = self.file.parent.parent / "kernel.cuh"
        text = kernel.read_text(encoding="utf-8")
        line = "      sP[warp + n * C::kWarps][lane] = prob;\n"
        for other in (text.replace(line, ""), text.replace(line, 2 * line)):
            kernel.write_text(other, encoding="utf-8")
            done = self.exercise("1")
            self.assertEqual(done.returncode, 1)
            self.assertIn("lines of kernel.cuh are", done.stderr)
            self.assertFalse(self.file.exists())


class Tests(unittest.TestCase):
    """scripts/test.sh, with 01 and without, with nvcc and without a GPU: these and the tests are stand-ins."""

    def setUp(self):
        self.root = copy_of_checkout(self)
        self.add("bin/nvcc", "true")
        self.add("bin/nvidia-smi", "false")

    def add(self, name, command):
        program = self.root / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
        program.chmod(0o755)

    def verdict(self, tests, on_build="[ ]", words=("01",)):
        """The result of scripts/test.sh with these commands as cuflash_tests and as a build."""
        self.add("build/simt/bin/cuflash_tests", f"echo 01_naive; {tests}")
        path = f"{self.root / 'bin'}:{environment()['PATH']}"
        return run(self.root / TEST, *words, PATH=path, CMAKE_STATUS="0", ON_BUILD=on_build)

    def test_nvcc_compiles_it(self):
        done = self.verdict("true", '[ "$*" = "--build build/release --target oldest_01_naive" ] && touch built')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.root / "built").exists())
        self.assertIn("01_naive: every test passed\nnvcc compiles 01_naive", done.stderr)

    def test_nvcc_refuses_it(self):
        done = self.verdict("true", "case $2 in build/release) echo refused; exit 1;; esac")
        self.assertEqual(done.returncode, 1)
        self.assertIn("refused\n", done.stderr)
        self.assertNotIn("nvcc compiles", done.stderr)

    def test_a_test_fails(self):
        done = self.verdict("false")
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("nvcc", done.stderr)

    def test_of_all_stages_and_of_the_rest(self):
        for tests, rest in (("true", 0), ("true", 1), ("false", 0)):
            self.add("bin/ctest", f"echo tests passed >build/simt/ctest.log; exit {rest}")
            done = self.verdict(tests, words=())
            self.assertEqual(done.returncode, int(tests == "false" or rest))
            self.assertEqual(done.stdout, "01_naive\n" * os.cpu_count() + "tests passed\n")


class BrokenStage(unittest.TestCase):
    """A local stage that does not compile, beside one that does. tests/scripts/local_stages_test.py
    builds such a tree; here `cmake` is a stand-in."""
    BROKEN = 'case "$*" in *90_broken*) echo why; exit 1;; esac'

    def setUp(self):
        self.root = copy_of_checkout(self)
        for name in ("90_broken", "91_right"):
            (self.root / "stages" / name).mkdir()
            (self.root / "stages" / name / "stage.cu").touch()
        ladder = self.root / "build/simt/bin/ladder"
        ladder.parent.mkdir(parents=True)
        ladder.symlink_to("/bin/true")

    def run_ladder(self, *options):
        return run(self.root / RUN, *options, CMAKE_STATUS="0", ON_BUILD=self.BROKEN)

    def test_others_go_on(self):
        for options in ([], ["--stage", "91"], ["--compare", "1", "right"]):
            done = self.run_ladder(*options)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            self.assertEqual(done.stderr, "90_broken does not compile and is left out; "
                             "scripts/test.sh 90 shows why.\n")

    def test_it_is_asked_for(self):
        for options in (["--stage", "90"], ["--compare", "1", "broken"], ["--annotate", "90_broken"]):
            done = self.run_ladder(*options)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, "why\ncuflash: 90_broken does not compile; see above.\n")


class Mutations(unittest.TestCase):
    def test_any_bytes(self):
        root = copy_of_checkout(self)
        with open(root / "stages/02_tiled/kernel.cuh", "ab") as kernel:
            kernel.write(b"// caf\xe9\n")
        self.assertEqual(run(root / TEST, "mutations", "--list", cwd=root).returncode, 0)

    def test_of_the_python_package_are_listed(self):
        listed = run(TEST, "mutations", "--list", "python/").stdout
        self.assertRegex(listed, r"(?m)^python/cuflash/functional\.py +scale: 0 stands for the default$")


    def test_paths_are_no_commands(self):
        with tempfile.TemporaryDirectory() as folder:
            build = builds.Build.__new__(builds.Build)
            build.folder, build.link = folder, {"ladder": "printf '%s|' x.o -o bin/ladder >words"}
            build.linked("ladder", [("x.o", "Bob's/y.o"), (None, "a b/z.o")], "a b/ladder")
            self.assertEqual(pathlib.Path(folder, "words").read_text(encoding="utf-8"),
                             "Bob's/y.o|a b/z.o|-o|a b/ladder|")
            self.assertEqual(builds.run(["printf", r"caf\351.cu"], folder, ""), "caf\udce9.cu")


class Turns(unittest.TestCase):
    WAITS = "Another script is running in this checkout: waiting until it ends.\n"

    def setUp(self):
        self.root = copy_of_checkout(self)

    def start(self, script, **more):
        """Starts a script in the copy of the checkout, with all its output on one stream."""
        process = subprocess.Popen([self.root / script], env=environment(**more), text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        return process

    def test_the_second_waits_for_the_first(self):
        begun, go_on = self.root / "begun", self.root / "go_on"
        wait = f"timeout 300 sh -c 'until [ -e {go_on} ]; do sleep 0.05; done'"
        first = self.start(RUN, CMAKE_STATUS="0", ON_BUILD=f"touch {begun}; {wait}")
        while not begun.exists():
            self.assertIsNone(first.poll())
            time.sleep(0.05)
        second = self.start(TEST)
        self.assertEqual(second.stdout.readline(), self.WAITS)
        self.assertIsNone(first.poll())
        go_on.touch()
        self.assertNotIn(self.WAITS, first.communicate()[0])
        self.assertIn(CALLED, second.communicate()[0])

    def test_what_has_the_turn_passes_it_on(self):
        ended = self.root / "ended"
        first = self.start(RUN, CMAKE_STATUS="0",
                           ON_BUILD=f"ON_BUILD= timeout 300 {self.root / TEST}; echo $? >{ended}")
        first.communicate()
        self.assertEqual(ended.read_text(encoding="utf-8"), "1\n")  # `cmake` has failed


class Surroundings(unittest.TestCase):
    def test_checkout_that_cannot_be_written_to(self):
        root = copy_of_checkout(self)
        (root / "build").touch()
        for command in ((RUN,), (TEST, "exercise", "1")):
            done = run(root / command[0], *command[1:], cwd=root)
            self.assertEqual(done.returncode, 1)
            self.assertIn("Copy it to a folder of your own", done.stderr)

    def test_cdpath(self):
        with tempfile.TemporaryDirectory() as elsewhere:
            pathlib.Path(elsewhere, "scripts").mkdir()
            for script in (RUN, TEST):
                done = subprocess.run([script, "99"], cwd=ROOT, env=environment(CDPATH=elsewhere),
                                      text=True, capture_output=True, check=False)
                self.assertRegex(done.stderr, "^cuflash: ")
                self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_all_that_is_missing_in_one_list(self):
        def machine_without(folder, *missing):
            for source in environment()["PATH"].split(":"):
                for program in pathlib.Path(source).glob("*"):
                    link = pathlib.Path(folder, program.name)
                    if program.name not in missing and not link.exists():
                        link.symlink_to(program)
        missing = ["ninja", "pkg-config", "python3", "apt-get", "nvidia-smi"]
        with tempfile.TemporaryDirectory() as folder:
            machine_without(folder, *missing)
            for command, listed in (((RUN,), "ninja-build pkg-config"),
                                    ((TEST, "mutations"), "ninja-build pkg-config python3"),
                                    ((TEST, "mutations", "--list"), "python3")):
                done = run(*command, PATH=folder)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stderr.splitlines()[0], f"Missing: {listed}")
                self.assertIn("no apt", done.stderr)


    def test_a_link_to_a_script(self):
        link = FAKE / "linked"
        link.symlink_to(ROOT / RUN)
        self.addCleanup(link.unlink)
        self.assertIn("There is no stage", run(link, "--stage", "99", cwd="/").stderr)

    @unittest.skipUnless(shutil.which("dash"), "there is no dash here")
    def test_another_shell(self):
        done = subprocess.run(["dash", RUN], cwd=ROOT, text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (2, f"cuflash: The scripts need bash: bash {RUN}\n"))

    def test_nothing_is_installed(self):
        root = copy_of_checkout(self)
        (root / "apt-get").write_text(f"#!/bin/sh\ntouch {root / 'called'}\n", encoding="utf-8")
        (root / "apt-get").chmod(0o755)
        need = 'source scripts/lib.sh; need no_such_package'
        done = subprocess.run(["bash", "-c", need], cwd=root, text=True, capture_output=True, check=False,
                              env=environment(CUFLASH_NO_INSTALL="1", PATH=f"{root}:{os.environ['PATH']}"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("To install them, run:  sudo apt-get install no_such_package", done.stderr)
        self.assertFalse((root / "called").exists())

    def test_no_temporary_files(self):
        done = run(RUN, "--list", TMPDIR="/no/such/folder")
        self.assertEqual((done.returncode, done.stderr), (
            1, "cuflash: Temporary files cannot be made in /no/such/folder; set TMPDIR to another folder.\n"))

    def test_folder_that_cmake_refuses(self):
        root = copy_of_checkout(self) / "C#"
        copy_sources(root)
        done = run(root / RUN, "--list")
        self.assertEqual((done.returncode, done.stderr), (
            1, f'cuflash: CMake cannot build in a folder with ; " # or \\ in its path: {root}\n'))

    def test_build_folder_of_another_checkout(self):
        root = copy_of_checkout(self)
        cache, old = root / "build/simt/CMakeCache.txt", root / "build/simt/old"
        anew = "build/simt was made in another folder, or is damaged: making it anew.\n"
        for text, is_kept in ((f"# CMake\n\n//\nCMAKE_HOME_DIRECTORY:INTERNAL={root}\n", True),
                              (f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n", False),
                              ("CMAKE_HOME_DIRECTORY:INTERNAL=/no/such/folder\n", False),
                              (f"CMAKE_HOME_DIRECTORY:INTERNAL={root}\nCMAKE_BUI", False), ("", False)):
            with self.subTest(text):
                cache.parent.mkdir(parents=True, exist_ok=True)
                cache.write_text(text, encoding="utf-8")
                old.touch()
                done = run(root / RUN, "--list")
                self.assertEqual((old.exists(), done.stderr.startswith(anew)), (is_kept, not is_kept))
                self.assertIn(CALLED, done.stderr)


class WithoutPyTorch(unittest.TestCase):
    SENTENCE = "There is no PyTorch here: the Python package's tests that need it do not run.\n"

    def with_python(self, status, cache=""):
        """The errors of scripts/test.sh if `python3` only exits with this status; no test runs. `cache`
        is CMake's in build/simt."""
        root = copy_of_checkout(self)
        if cache:
            (root / "build/simt").mkdir(parents=True)
            (root / "build/simt/CMakeCache.txt").write_text(
                f"CMAKE_HOME_DIRECTORY:INTERNAL={root}\n{cache}\n", encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            for name in ("python3", "ctest"):
                program = pathlib.Path(folder, name)
                program.write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
                program.chmod(0o755)
            return run(root / TEST, CMAKE_STATUS="0", PATH=f"{folder}:{environment()['PATH']}").stderr

    def test_is_said(self):
        self.assertNotIn(self.SENTENCE, self.with_python(0))
        if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True,
                          check=False).returncode:
            self.assertIn(self.SENTENCE, self.with_python(1))
            self.assertIn(self.SENTENCE, self.with_python(1, "CUFLASH_TORCH_PYTHON:UNINITIALIZED="))
        self.assertNotIn(self.SENTENCE, self.with_python(1, "CUFLASH_TORCH_PYTHON:UNINITIALIZED=/a/python"))


class Differences(unittest.TestCase):
    def test_backward_follows_another_stage(self):
        done = run(RUN, "--diff", "5", "6")
        self.assertIn("follows that of 04_register_tiles: scripts/run.sh --diff 04 06\n", done.stdout)
        self.assertNotIn("scripts/run.sh --diff", run(RUN, "--diff", "4", "6").stdout)

    def test_forward_is_repeated(self):
        root = copy_of_checkout(self)
        new = {"cuflash::": "cuflash::forward_backward", "05_": "06_forward_backward"}
        kernel = (root / "stages/05_wmma/kernel.cuh").read_text(encoding="utf-8")
        repeated = re.sub(r"\b(cuflash::|05_)wmma\b", lambda name: new[name[1]], kernel)
        (root / "stages/06_forward_backward/kernel.cuh").write_text(repeated, encoding="utf-8")
        done = run(root / RUN, "--diff", "5", "6")
        self.assertIn("kernel.cuh: 0 lines removed, 0 added\n", done.stdout)
        self.assertIn("06_forward_backward repeats the forward pass of 05_wmma.", done.stdout)


    def test_every_source_file(self):
        root = copy_of_checkout(self)
        self.assertEqual(run(root / "scripts/new_stage.sh", "mine", "--from", "3").returncode, 0)
        files = ["kernel.cuh", "kernel_bwd.cuh", "stage.cu"]
        untouched = run(root / RUN, "--diff", "3", "mine").stdout
        self.assertEqual(untouched.split("\n"), [
            line for file in files for line in ("", f"{file}: 0 lines removed, 0 added", "")] + [""])

        stage = root / "stages/90_mine"
        (stage / "kernel_bwd.cuh").unlink()
        (stage / "mask.cuh").write_text("// A mask.\n", encoding="utf-8")
        (stage / "reference.cpp").write_text("// One.\n// Two.\n", encoding="utf-8")
        with open(stage / "stage.cu", "a", encoding="utf-8") as file:
            file.write("// An end.\n")
        removed = (root / "stages/03_online_softmax/kernel_bwd.cuh").read_text("utf-8").count("\n")
        changed = run(root / RUN, "--diff", "3", "mine").stdout
        self.assertEqual(re.findall(r"(?m)^\S+: \d+ lines.*", changed), [
            "kernel.cuh: 0 lines removed, 0 added", f"kernel_bwd.cuh: {removed} lines removed, 0 added",
            "mask.cuh: 0 lines removed, 1 added", "reference.cpp: 0 lines removed, 2 added",
            "stage.cu: 0 lines removed, 1 added"])
        self.assertEqual(re.findall(r"(?m)^\+[^+].*", changed),
                         ["+// A mask.", "+// One.", "+// Two.", "+// An end."])
        self.assertIn("There is no stages/90_mine/kernel_bwd.cuh.\n", changed)
        self.assertIn("There is no stages/03_online_softmax/mask.cuh.\n", changed)

    def test_colors(self):
        for more, colored in (({}, True), ({"NO_COLOR": "1"}, False)):
            terminal = Terminal(RUN, "--diff", "1", "2", TERM="xterm", **more)
            terminal.ended()
            self.assertEqual("\x1b[3" in terminal.output, colored)

    def test_kernels_come_first(self):
        self.assertEqual(re.findall(r"(?m)^(\S+): \d+ lines", run(RUN, "--diff", "15", "16").stdout),
                         ["kernel_bwd.cuh", "pieces.cuh", "producer.cuh", "shape.cuh", "stage.cu", "storage.cuh",
                          "traffic.cu"])


class Widths(unittest.TestCase):
    VIEWS = [["--list"], ["--stage", "5"], ["--compare", "5", "6"], ["--map", "06"], ["--annotate", "02"],
             ["--play", "03", "--text"]]

    def assert_fits(self, text, columns):
        text = re.sub(r"\x1b\[[0-9;]*[mK]", "", text)
        for line in re.split(r"[\r\n]+", text):
            self.assertLessEqual(len(line), columns, line)

    def test_terminal(self):
        for columns in (60, 80, 100, 118, 160):
            for view in self.VIEWS:
                with self.subTest((columns, view)):
                    terminal = Terminal("build/simt/bin/ladder", *view, *SMALL, columns=columns)
                    self.assertEqual(terminal.ended(), 0)
                    self.assert_fits(terminal.output, columns)

    def test_file(self):
        for view in self.VIEWS:
            wide = run("build/simt/bin/ladder", *view, *SMALL)
            narrow = run("build/simt/bin/ladder", *view, *SMALL, COLUMNS="80")
            self.assert_fits(narrow.stdout, 80)
            self.assertGreater(max(map(len, wide.stdout.splitlines())), 80)

    def test_says_what_is_missing(self):
        narrow = run("build/simt/bin/ladder", "--stage", "5", *SMALL, COLUMNS="60").stdout
        self.assertIn("The terminal is too narrow for: adds, extra, predicted.", narrow)
        self.assertNotIn("too narrow", run("build/simt/bin/ladder", "--stage", "5", *SMALL).stdout)


class Progress(unittest.TestCase):
    BUILD = "echo '[3/9] Building a.o'; sleep "

    def test_file(self):
        done = run(RUN, "--list", CMAKE_STATUS="0", ON_BUILD=self.BUILD + "0")
        self.assertRegex(done.stderr, r"^(Building build/simt: 3 of 9 \(\d+ s\)\n)+$")
        self.assertEqual(done.returncode, 0)

    def test_a_line_takes_its_place(self):
        lines = "source scripts/lib.sh; printf '[1/2] a\\nwords\\n' | report_progress Work"
        terminal = Terminal("/bin/bash", "-c", lines)
        self.assertEqual(terminal.ended(), 0)
        self.assertRegex(terminal.output, r"Work: 1 of 2 \(\d+ s\)\r\x1b\[Kwords\r\n")

    def test_failure_is_shown(self):
        done = run(RUN, "--list", ON_BUILD="[ ] || echo it is broken")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.endswith("failed; see above.\n"), done.stderr)
        self.assertIn(CALLED, done.stderr)

    def test_interrupted_build(self):
        number = os.getpid()  # No other run of this test has such a build.
        terminal = Terminal(RUN, "--list", CMAKE_STATUS="0", ON_BUILD=f"{self.BUILD}999.{number}")
        self.assert_ends_cleanly(terminal, r"3 of 9 \([1-9]")  # by then it sleeps
        self.assertEqual(subprocess.run(["pgrep", "-f", f"sleep 999[.]{number}"],
                                        check=False).returncode, 1)

    def test_interrupted_ladder(self):
        terminal = Terminal("build/simt/bin/ladder", "--stage", "1", "--shape", "b9_h9_q900_d64")
        self.assert_ends_cleanly(terminal, r"Verifying .* s\)")

    def test_interrupted_tests(self):
        terminal = Terminal(TEST, "1", CMAKE_STATUS="0")
        self.assert_ends_cleanly(terminal, "Testing 01_naive")

    def assert_ends_cleanly(self, terminal, pattern):
        terminal.read_until(pattern)
        terminal.interrupt()
        self.assertEqual(terminal.ended(), 128 + signal.SIGINT, terminal.output)
        self.assertRegex(terminal.output, r"\^C\r\x1b\[K\Z")


if __name__ == "__main__":
    unittest.main()
