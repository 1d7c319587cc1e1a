#!/usr/bin/env python3
"""scripts/run.sh --against, in a repository of its own with a CMake that the tests make up.

    tests/scripts/against_test.py

The ladder that this CMake builds counts the bytes of a stage's kernel.cuh.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE = r"""#!/bin/sh
[ "$1" = --version ] && echo "cmake version 3.31.0" && exit
[ "$1" = --preset ] && mkdir -p "build/$2/bin" && exit
cat >"$2/bin/ladder" <<'END'
#!/bin/sh
root=$(dirname "$0")/../../..
bytes=$(wc -c <"$root/stages/02_tiled/kernel.cuh")
for file; do :; done
row='"stage": "02_tiled", "pass": "forward"'
case $* in
  *--list*) echo "[{$row}]" ;;
  *) echo "{\"provenance\": {\"compiler\": \"g++\"}, \"rows\": [{$row, \"ok\": true,
            \"requested_read_bytes\": $bytes$MORE}]}" ;;
esac >"$file"
END
chmod +x "$2/bin/ladder"
"""


class Against(unittest.TestCase):
    """A repository with two commits, between which the kernel of 02_tiled grows by a byte."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("scripts", "stages/02_tiled", "common/include"):
            shutil.copytree(ROOT / name, self.root / name)
        for name in ("stages/stages.cpp", "stages/CMakeLists.txt"):
            shutil.copy2(ROOT / name, self.root / name)
        self.kernel = self.root / "stages/02_tiled/kernel.cuh"
        tools = self.root / "build/tools"
        tools.mkdir(parents=True)
        (tools / "cmake").write_text(CMAKE)
        (tools / "nvidia-smi").write_text("#!/bin/sh\n")
        for tool in tools.iterdir():
            tool.chmod(0o755)
        self.environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "MORE": ""}
        self.environment.pop("CUFLASH_TURN", None)
        (self.root / ".gitignore").write_text("/build/\n")
        self.git("init", "--quiet")
        self.commit()
        self.kernel.write_text(self.kernel.read_text() + "\n")
        self.commit()

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.root,
                       check=True)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "a change")

    def against(self, revision, **more):
        """The exit status and what is printed."""
        done = subprocess.run([self.root / "scripts/run.sh", "--stage", "02", "--against", revision],
                              env=self.environment | more, text=True, capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_nothing_changes(self):
        status, printed = self.against("HEAD")
        self.assertEqual(status, 0, printed)
        self.assertRegex(printed, r"\A02_tiled has the same counts as at HEAD, on \d+ problems\.\n\Z")

    def test_a_count_differs(self):
        size = len(self.kernel.read_bytes())
        line = f"02_tiled forward b1_h1_q128k256_d64_f16: requested_read_bytes {size - 1:,} -> {size:,}\n"
        status, printed = self.against("HEAD~1")
        self.assertEqual(status, 1)
        self.assertIn(line, printed)
        self.assertEqual(self.against("HEAD")[0], 0)  # in the same clone
        self.kernel.write_text(self.kernel.read_text() + "\n")  # not committed
        status, printed = self.against("HEAD")
        self.assertEqual(status, 1)
        self.assertIn(f"requested_read_bytes {size:,} -> {size + 1:,}\n", printed)

    def test_the_clone_has_one_stage_and_the_working_tree_all(self):
        self.against("HEAD")
        lists = "stages/stages.cpp", "stages/CMakeLists.txt"
        of_clone, of_root = ("".join((folder / name).read_text() for name in lists)
                             for folder in (self.root / "build/against", self.root))
        for text in ("CUFLASH_DECLARE_STAGE(tiled)", "&tiled::kStage,", "cuflash_add_stage(02_tiled"):
            self.assertIn(text, of_clone)
        for text in ("CUFLASH_DECLARE_STAGE(naive)", "&naive::kStage,", "cuflash_add_stage(01_naive"):
            self.assertNotIn(text, of_clone)
            self.assertIn(text, of_root)

    def test_a_folder_that_is_no_clone_is_made_anew(self):
        (self.root / "build/against").mkdir()
        self.kernel.write_text("mine")
        self.assertEqual(self.against("HEAD")[0], 1)
        self.assertEqual(self.kernel.read_text(), "mine")

    def test_a_revision_that_counts_less(self):
        self.against("HEAD")
        ladder = self.root / "build/against/build/simt/bin/ladder"
        script = [self.root / "scripts/maintainer/against.py", "simt", "02_tiled", "HEAD"]
        ladder.write_text(ladder.read_text().replace("$MORE", ""))
        done = subprocess.run(script, env=self.environment | {"MORE": ', "products": 3'}, text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("HEAD lacks some counts: products are not compared.\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
