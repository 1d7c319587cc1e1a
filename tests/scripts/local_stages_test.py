#!/usr/bin/env python3
"""Stages that only this checkout has: made by scripts/new_stage.sh, built and tested, and removed.
Builds in build/simt and, if there is nvcc, in build/release.
"""
import atexit
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command):
    """Runs a script, given by its path in the repository."""
    return subprocess.run([ROOT / command[0], *command[1:]], cwd=ROOT, text=True, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True)


# The examples of CONTRIBUTING.md: capped scores, and a prefix that every query sees.
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8").replace("cuflash::mine", "cuflash::ci_other")
REFERENCE, MASK = re.findall(r"^```cpp\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
CAPPED = """
constexpr float kCap = 30.f;
__device__ __forceinline__ float capped(float s) { return kCap * tanhf(s / kCap); }
__device__ __forceinline__ float slope(float s) { return 1.f - tanhf(s / kCap) * tanhf(s / kCap); }
"""


def edit(file, *changes):
    """Replaces each old text, which must occur, by the new one."""
    text = file.read_text("utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    file.write_text(text, "utf-8")


class LocalStages(unittest.TestCase):
    def make(self, name, origin):
        """Makes a stage of this name; returns its folder, which the end of the test removes."""
        made = run("scripts/new_stage.sh", name, "--from", origin)
        self.assertEqual(made.returncode, 0, made.stderr)
        folder, = ROOT.glob(f"stages/9?_{name}")
        self.addCleanup(shutil.rmtree, folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # after Ctrl-C
        return folder

    def test_another_attention_beside_a_broken_stage(self):
        broken, stage = self.make("ci_broken", "01"), self.make("ci_other", "03")
        edit(broken / "kernel.cuh", ("float s = 0.f;", ""))
        score, tiles = "s * p.softmax_scale", '#include "device/tiles.h"\n'
        edit(stage / "kernel.cuh", ("::ci_other {\n", "::ci_other {\n" + CAPPED),
             (tiles, tiles + '#include "mask.cuh"\n'), (score + " : -INF", f"capped({score}) : -INF"))
        edit(stage / "kernel_bwd.cuh", (f"expf({score}", f"expf(capped({score})"),
             ("(dp - row_delta[n])", f"slope({score}) * (dp - row_delta[n])"),
             ("(dp - row_delta)", f"slope({score}) * (dp - row_delta)"))
        edit(stage / "stage.cu", ("EveryType, UsualHeadDims", "TypeList<float>, IntList<32>"))
        (stage / "mask.cuh").write_text(MASK, "utf-8")
        (stage / "reference.cpp").write_text(REFERENCE, "utf-8")
        edit(stage / "reference.cpp", ("reference::sees", "j < 24 || reference::sees"))

        done = run("scripts/test.sh", "ci_other")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{broken.name} does not compile and is left out", done.stderr)
        self.assertIn(f"{stage.name}: every test passed", done.stderr)

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
