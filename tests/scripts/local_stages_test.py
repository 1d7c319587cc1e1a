#!/usr/bin/env python3
"""Stages that only this checkout has: made by scripts/new_stage.sh, built and tested, and removed.
Builds in build/simt, and where there is nvcc in build/release.
"""
import atexit
import pathlib
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command):
    """A script, by its path in the repository."""
    return subprocess.run([ROOT / command[0], *command[1:]], cwd=ROOT, text=True, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True)


class LocalStages(unittest.TestCase):
    def make(self, name, origin):
        """A stage of this name; its folder, which the test's end removes."""
        made = run("scripts/new_stage.sh", name, "--from", origin)
        self.assertEqual(made.returncode, 0, made.stderr)
        folder, = ROOT.glob(f"stages/9?_{name}")
        self.addCleanup(shutil.rmtree, folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # after Ctrl-C
        return folder

    def test_one_does_not_compile(self):
        broken = self.make("ci_broken", "01")
        self.make("ci_right", "01")
        kernel = broken / "kernel.cuh"
        kernel.write_text(kernel.read_text("utf-8").replace("float s = 0.f;", ""), "utf-8")

        done = run("scripts/test.sh", "ci_right")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{broken.name} does not compile and is left out", done.stderr)
        self.assertRegex(done.stderr, "9._ci_right: every test passed")

        done = run("scripts/test.sh", "ci_broken")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"kernel.cuh:\d+:\d+: error: .s. was not declared")
        self.assertTrue(done.stderr.endswith(f"{broken.name} does not compile; see above.\n"), done.stderr)

    def test_git_ignores_it(self):
        self.make("ci_ignored", "01")
        status = subprocess.run(["git", "status", "--porcelain", "stages"], cwd=ROOT, check=True,
                                capture_output=True, text=True).stdout
        self.assertNotIn("ci_ignored", status)


if __name__ == "__main__":
    unittest.main()
