#!/usr/bin/env python3
"""docs/how_to_change_it.md is true: each patch has as many lines as the page says, applies to today's
tree, and does what the page says. Changes of kernels go into stages that only this checkout has, built
in build/simt and removed; the others into a copy of the tree. The gradients of the autograd function
are compared in python/tests/test_changes.py.
"""
import atexit
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/maintainer"))
from repository import ROOT, copy_sources  # noqa: E402, it lies there

PATCHES = {path.stem: path for path in ROOT.glob("docs/changes/*.patch")}
PAGE = (ROOT / "docs/how_to_change_it.md").read_text("utf-8")
ROW = re.compile(r"^\| \[[^]]+\]\(#\S+\) \| `(\w+)\.patch` \| (\d+) \| (\d+) \|", re.MULTILINE)
SHAPE = "b1_h4x2_q130k206_d32_f32_causal"  # tails, seq_q < seq_kv, heads in groups, several tiles


def changed_lines(patch):
    """By file, how many lines a patch adds or replaces."""
    counts = {}
    for line in patch.read_text("utf-8").splitlines():
        if line.startswith("+++ b/"):
            file = line[len("+++ b/"):]
            counts[file] = [0, 0]
        elif line[0] in "+-" and not line.startswith("--- "):
            counts[file]["-+".index(line[0])] += 1
    assert all(added >= removed for removed, added in counts.values()), "a line is only removed"
    return {file: added for file, (_, added) in counts.items()}


def is_scaffold(file):
    """True of what is no part of the change itself: the oracle's side and the simulator's."""
    return file.startswith(("common/reference/", "common/simt/")) or file.endswith("/reference.cpp")


def run(*command, cwd=ROOT, **environment):
    """A finished command."""
    return subprocess.run(command, cwd=cwd, text=True, check=False, stdin=subprocess.DEVNULL,
                          capture_output=True, env={**os.environ, **environment})


class Changes(unittest.TestCase):
    """The page's claims."""

    def succeeds(self, *command, **options):
        """Runs a command that must succeed; what it prints."""
        done = run(*command, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def copy_of_the_tree(self):
        """A copy of the sources, which the test's end removes."""
        folder = tempfile.TemporaryDirectory(prefix="cuflash_changes_")
        self.addCleanup(folder.cleanup)
        copy_sources(pathlib.Path(folder.name))
        return pathlib.Path(folder.name)

    def stage_with(self, name):
        """A copy of 03 with a patch of this name in it; its folder, which the test's end removes."""
        self.succeeds("scripts/new_stage.sh", name, "--from", "03")
        folder, = ROOT.glob(f"stages/9?_{name}")
        self.addCleanup(shutil.rmtree, folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # after Ctrl-C
        self.succeeds("git", "apply", "-p3", f"--directory={folder.relative_to(ROOT)}", PATCHES[name])
        self.is_formatted(folder.glob("*.c*"))
        facts = folder / "stage.cu"
        facts.write_text(facts.read_text("utf-8").replace(
            "EveryType, UsualHeadDims", "TypeList<float>, IntList<32>"), "utf-8")
        return folder

    def is_formatted(self, files):
        """A long line or two statements in one would falsify the count."""
        style = f"--style=file:{ROOT}/.clang-format"
        self.succeeds("clang-format", style, "--dry-run", "--Werror", *map(str, files))

    def rows(self):
        """The ladder's rows for one problem: (stage, pass) → row."""
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            run("scripts/run.sh", "--shape", SHAPE, "--json", file.name)
            rows = json.loads(pathlib.Path(file.name).read_text("utf-8"))["rows"]
        return {(row["stage"], row["pass"]): row for row in rows if "ok" in row}

    def test_numbers_of_lines(self):
        rows = {name: (int(change), int(scaffold)) for name, change, scaffold in ROW.findall(PAGE)}
        self.assertEqual(rows.keys(), PATCHES.keys(), "the page's table")
        for name, patch in PATCHES.items():
            with self.subTest(name):
                self.assertIn(f"<!-- screen docs/changes/{name}.patch -->", PAGE)
                lines = changed_lines(patch)
                scaffold = sum(count for file, count in lines.items() if is_scaffold(file))
                self.assertEqual(rows[name], (sum(lines.values()) - scaffold, scaffold))

    def test_kernels(self):
        stages = {name: self.stage_with(name) for name in ("tile_size", "temperature", "block_sparse")}
        rows, passes = self.rows(), ("forward", "backward")
        for name, folder in stages.items():
            for each in passes:
                self.assertTrue(rows[folder.name, each]["ok"], f"{name}, {each}")

        def read(stage, each):
            return rows[stage, each]["requested_read_bytes"]
        origin = "03_online_softmax"
        self.assertGreater(read(stages["tile_size"].name, "forward"), 1.5 * read(origin, "forward"))
        for each in passes:
            self.assertLess(read(stages["block_sparse"].name, each), 0.6 * read(origin, each))

        # A mask of its own is what the stage's tests know least.
        self.succeeds("scripts/test.sh", stages["block_sparse"].name)

        # They compute something else: without references of their own they are wrong.
        different = ("temperature", "block_sparse")
        for name in different:
            (stages[name] / "reference.cpp").unlink()
        rows = self.rows()
        for name, folder in stages.items():
            for each in passes:
                self.assertEqual(rows[folder.name, each]["ok"], name not in different, (name, each))

    def test_dtype(self):
        tree = self.copy_of_the_tree()
        self.succeeds("git", "apply", PATCHES["dtype"], cwd=tree)
        self.is_formatted(tree / file for file in changed_lines(PATCHES["dtype"]))
        for facts in tree.glob("stages/*/stage.cu"):  # 03 in the new dtype alone
            types = "TypeList<__nv_fp8_e5m2>" if "/03_" in str(facts) else "TypeList<>"
            text = facts.read_text("utf-8")
            text = re.sub(r"Kernels, \w+, \w+>", f"Kernels, {types}, IntList<32>>", text)
            facts.write_text(text, "utf-8")
            (facts.parent / "traffic.cu").unlink()
        # Each library in one piece, and the host's code as it is: half the time.
        self.succeeds("cmake", "--preset", "simt", "-DCMAKE_UNITY_BUILD=ON",
                      "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0",
                      "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0", cwd=tree)
        self.succeeds("cmake", "--build", "build/simt", "--target", "cuflash_tests", cwd=tree)
        tests, wanted = tree / "build/simt/bin/cuflash_tests", "--gtest_filter=03_*_e5m2*"
        listed = self.succeeds(tests, "--gtest_list_tests", wanted)
        for word in ("forward_b", "backward_b"):
            self.assertGreater(listed.count(word), 5, "tests of the new dtype")
        self.succeeds(tests, wanted, "--gtest_brief=1")

    def test_autograd(self):
        with tempfile.TemporaryDirectory(prefix="cuflash_changes_") as folder:
            self.succeeds("git", "apply", PATCHES["autograd"], cwd=folder)
            self.succeeds("python3", "-m", "py_compile", *changed_lines(PATCHES["autograd"]), cwd=folder)


if __name__ == "__main__":
    unittest.main()
