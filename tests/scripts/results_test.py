#!/usr/bin/env python3
"""Each committed result and figure belongs to a step that makes it, and a list of steps goes on where it ended."""
import fnmatch
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU, REST = "scripts/maintainer/gpu.sh", "scripts/maintainer/regenerate.sh"


def bash(*words):
    return subprocess.run(["bash", *words], cwd=ROOT, text=True, capture_output=True, check=False)


def listed(script):
    """(name, seconds, patterns of files) of each line that --list prints."""
    lines = bash(script, "--list").stdout.splitlines()
    return [(name, int(seconds), files.split()) for name, seconds, files in
            (re.fullmatch(r"(\S+) +(\d+) s *(.*)", line).groups() for line in lines)]


def is_of(path, lines):
    """True if a file is in such lines: those of a GPU by their names alone."""
    name = path.name if path.parent.name.startswith("nvidia-") else str(path.relative_to("docs"))
    return any(fnmatch.fnmatchcase(name, pattern) for _, _, patterns in lines for pattern in patterns)


class Lists(unittest.TestCase):
    LINES = listed(GPU) + listed(REST)
    FILES = [pathlib.Path(name) for name in subprocess.run(
        ["git", "ls-files", "docs/results", "docs/figures/*.svg", "docs/figures/*.png"], cwd=ROOT, text=True,
        capture_output=True, check=True).stdout.split()]

    def test_each_file_belongs_to_a_step(self):
        self.assertGreater(len(self.FILES), 100)
        self.assertEqual([str(path) for path in self.FILES if not is_of(path, self.LINES)], [])

    def test_a_step_on_a_gpu_takes_less_than_nine_minutes(self):
        for name, seconds, _ in listed(GPU):
            self.assertTrue(0 < seconds < 540, name)


class Steps(unittest.TestCase):
    STEPS = """source scripts/maintainer/steps.sh; twice() { echo "$1" >>"$OUT/ran"; [[ -e $OUT/good ]]; }; export OUT=$0
        step first_a 1 "" 'twice a; true'; step first_b 1 "" 'twice b; echo not reached'; step slow 1 "" 'sleep 60'
        step first 1 "" 'twice c; true'; check_steps "${@:2}"; run_steps "$1" "$OUT/logs" "${@:2}" """

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def run_steps(self, *words, limit="0"):
        done = bash("-c", self.STEPS, self.out, limit, *words)
        ran = self.out / "ran"
        return done.returncode, ran.read_text().split() if ran.exists() else [], done.stdout + done.stderr

    def test_it_goes_on(self):
        status, ran, said = self.run_steps("first")
        self.assertEqual((status, ran), (1, ["a", "b", "c"]))
        self.assertIn("first_b: FAILED (exit 1)", said)
        self.assertNotIn("not reached", said)
        (self.out / "good").touch()
        self.assertEqual(self.run_steps("first")[:2], (0, ["a", "b", "c", "a", "b", "c"]))
        self.assertEqual(self.run_steps("first_a", "first_b")[:2], (0, ["a", "b", "c", "a", "b", "c"]))

    def test_a_step_that_takes_too_long_fails(self):
        status, _, said = self.run_steps("slow", limit="1")
        self.assertEqual(status, 1)
        self.assertIn("slow: FAILED (exit 124)", said)

    def test_no_such_step(self):
        status, ran, said = self.run_steps("fir")
        self.assertEqual((status, ran), (2, []))
        self.assertIn('There is no step "fir".', said)


if __name__ == "__main__":
    unittest.main()
