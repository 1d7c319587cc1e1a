#!/usr/bin/env python3
"""scripts/maintainer/record.py, with a ladder and notes of ptxas that the tests make up.

    tests/scripts/record_test.py
"""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import record  # pylint: disable=wrong-import-position

# Of each problem it writes the row that stands in the file beside it.
LADDER = """#!/usr/bin/env python3
import json, pathlib, sys
here, arguments = pathlib.Path(__file__).parent, sys.argv[1:]
written = json.loads((here / "row.json").read_text())
written = [{"stage": "07_fake", "pass": "forward", "any_order": False}] if "--list" in arguments else {
    "provenance": {"compiler": "g++ 1.2.3"},
    "rows": [written | {"stage": "07_fake", "pass": "forward", "problem": "p"},
             {"stage": "07_fake", "pass": "backward", "problem": "p", "skipped": "It has none."},
             written | {"stage": "90_mine", "pass": "forward", "problem": "p", "ok": False}]}
if "unknown" in arguments:
    sys.exit(2)
pathlib.Path(arguments[-1]).write_text(json.dumps(written))
"""
NOTES = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN7cuflash4fake9attentionI6__halfLi64EEEvi' for 'sm_90a'
ptxas info    : Function properties for _ZN7cuflash4fake9attentionI6__halfLi64EEEvi
    0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
ptxas info    : Compiling entry function '_ZN7cuflash4fake9attentionI6__halfLi64EEEvi' for 'sm_75'
ptxas info    : Used 99 registers, used 1 barriers
"""


class Record(unittest.TestCase):
    """A record in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, value in (("ROOT", self.root), ("FOLDER", self.root / "record"),
                            ("PROBLEMS", ("b1_h1_q8k8_d64_f16", "b1_h1_q9k9_d64_f16", "unknown"))):
            patched = mock.patch.object(record, name, value)
            patched.start()
            self.addCleanup(patched.stop)
        for name in ("07_fake", "08_other", "09_third"):
            self.write(f"stages/{name}/stage.cu", f'#include "kernel.cuh"\n// {name}\n')
            self.write(f"stages/{name}/kernel.cuh", '#include <cmath>\n#include "device/own.h"\n')
        self.write("stages/08_other/kernel.cuh", '#if 0\n  #include "device/shared.h"\n#endif\n')
        self.write("common/device/own.h", '#include "../device/own.h"\n')
        self.write("common/device/shared.h", "int shared;\n")
        for name in record.RULES:
            self.write(name, "cuflash_add_stage(07_fake)\ncuflash_add_stage(08_other)\n")
        patched = mock.patch.dict(os.environ, {"CUFLASH_SAMPLE": "0/1"})
        patched.start()
        self.addCleanup(patched.stop)
        self.ladder = self.root / "ladder"
        self.ladder.write_text(LADDER)
        self.ladder.chmod(0o755)

    def write(self, name, text):
        """A file with this text."""
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def notes(self, stage):
        """The file for what ptxas says of a stage, in a build."""
        return f"build/release/stages/CMakeFiles/stage_{stage}.dir/{stage}/stage.cu.o.ptxas"

    def row(self, **numbers):
        """What the ladder writes of each problem from now on."""
        row = {"ok": True, "error": 1e-3, "requested_read_bytes": 4096, "products": 3} | numbers
        (self.root / "row.json").write_text(json.dumps(row))

    def run_it(self, *words):
        """The exit status, or the sentence that it ends with, and what is printed."""
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", ["record.py", *words, "--ladder", str(self.ladder)]), \
                contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), \
                self.assertRaises(SystemExit) as ended:
            record.main()
        return ended.exception.code, printed.getvalue()

    def test_counts_that_hold(self):
        self.row()
        self.assertEqual(self.run_it("counts")[0], 0)  # There is no record yet.
        self.assertEqual(self.run_it("counts", "--accept"), (0, ""))
        self.assertEqual(self.run_it("counts"), (0, ""))
        lines = (self.root / "record/counts.txt").read_text().splitlines()
        self.assertEqual(lines, ["# g++ 1.2.3", "# requested_read_bytes products",
                                 "07_fake forward b1_h1_q8k8_d64_f16 4096 3",
                                 "07_fake forward b1_h1_q9k9_d64_f16 4096 3"])

    def test_a_count_that_differs(self):
        self.row()
        self.run_it("counts", "--accept")
        self.row(products=1234)
        status, printed = self.run_it("counts")
        self.assertEqual(status, 1)
        self.assertIn("07_fake forward b1_h1_q8k8_d64_f16: products 3 -> 1,234\n", printed)
        self.assertIn("To accept these changes: scripts/maintainer/record.py --accept", printed)
        self.run_it("counts", "--accept")
        self.assertEqual(self.run_it("counts"), (0, ""))

    def test_a_row_more_or_less(self):
        self.row()
        self.run_it("counts", "--accept")
        file = self.root / "record/counts.txt"
        *lines, last = file.read_text().splitlines()
        file.write_text("\n".join([*lines, last.replace("07_fake", "08_gone")]) + "\n")
        status, printed = self.run_it("counts")
        self.assertEqual(status, 1)
        self.assertRegex(printed, r"07_fake forward \S+: new\n08_gone forward \S+: gone\n")

    def test_another_compiler(self):
        self.row()
        self.run_it("counts", "--accept")
        file = self.root / "record/counts.txt"
        file.write_text(file.read_text().replace("1.2.3", "4.5.6").replace("4096", "4097"))
        self.assertEqual(self.run_it("counts"), (0, "record/counts.txt is not compared: it is of "
                                                    "g++ 4.5.6, not of g++ 1.2.3.\n"))

    def test_a_stage_that_is_wrong(self):
        self.row(ok=False)
        self.assertIn("07_fake is wrong. See scripts/run.sh --stage 07_fake", self.run_it("counts")[0])

    def test_machine_code(self):
        with mock.patch.object(record, "nvcc_version", lambda: "13.0.88"):
            self.assertIn("no notes of ptxas on 07_fake as it is", self.run_it("machine_code")[0])
            for name in ("07_fake", "08_other", "09_third"):
                self.write(self.notes(name), NOTES if name == "07_fake" else "")
            self.assertEqual(self.run_it("machine_code", "--accept"), (0, ""))
            self.assertEqual((self.root / "record/nvcc_13.0.88.txt").read_text(), (
                "# nvcc 13.0.88\n"
                "# registers stack_bytes spill_stores spill_loads static_shared_bytes\n"
                "07_fake 90a attention<__half,64> 168 0 4 8 0\n"))
            self.assertEqual(self.run_it("machine_code"), (0, ""))
            self.write(self.notes("07_fake"), NOTES.replace("168", "170"))
            status, printed = self.run_it("machine_code")
            self.assertEqual(status, 1)
            self.assertIn("07_fake 90a attention<__half,64>: registers 168 -> 170\n", printed)
        with mock.patch.object(record, "nvcc_version", lambda: None):
            self.assertEqual(self.run_it("machine_code"), (
                0, "There is no nvcc here: the machine code is not compared.\n"))
        with mock.patch.object(record, "nvcc_version", lambda: "13.1"):
            self.assertIn("nvcc 13.1 has no record (record/nvcc_13.1.txt). To make one: "
                          "scripts/maintainer/record.py --accept\n", self.run_it("machine_code")[1])

    def test_a_changed_source_makes_its_stages_compile(self):
        compiled = lambda: record.compiled("13.0.88")
        os.environ["CUFLASH_SAMPLE"] = "2/3"
        self.assertEqual(compiled(), ["07_fake", "08_other", "09_third"])  # There is no record yet.
        for name in compiled():
            self.write(self.notes(name), NOTES)
        with mock.patch.object(record, "nvcc_version", lambda: "13.0.88"):
            self.run_it("machine_code", "--accept")
            self.assertEqual(compiled(), ["09_third"])
            self.write(self.notes("07_fake"), "older, and not read")
            self.assertEqual(self.run_it("machine_code"), (0, ""))
            self.write("common/device/shared.h", "int shared; // a comment\n")
            self.assertEqual(compiled(), ["09_third"])
            self.write("stages/07_fake/traffic.cu", "int traffic;\n")
            self.assertEqual(compiled(), ["07_fake", "09_third"])
            (self.root / "stages/07_fake/traffic.cu").unlink()
            self.write("common/device/shared.h", "long shared;\n")
            self.assertEqual(compiled(), ["08_other", "09_third"])
            future = os.stat(self.root / self.notes("08_other")).st_mtime + 9
            os.utime(self.root / "common/device/shared.h", (future, future))
            self.assertIn("no notes of ptxas on 08_other as it is", self.run_it("machine_code")[0])
            os.utime(self.root / self.notes("08_other"), (future, future))
            self.assertIn("record/sources_13.0.88.txt differs", self.run_it("machine_code")[1])
            self.run_it("machine_code", "--accept")
            self.assertEqual(compiled(), ["09_third"])
            self.assertEqual(len(record.read(self.root / "record/nvcc_13.0.88.txt")[1]), 3)
        self.write("stages/CMakeLists.txt", "cuflash_add_stage(07_fake SPILLS)\ncuflash_add_stage(08_other)\n")
        self.assertEqual(compiled(), ["07_fake", "09_third"])
        self.write("common/device/own.h", "int own;\n")
        self.assertEqual(compiled(), ["07_fake", "09_third"])
        self.write("CMakeLists.txt", "project(other)\n")
        self.assertEqual(compiled(), ["07_fake", "08_other", "09_third"])

    def test_objects(self):
        listed = ["stages/CMakeFiles/stage_07_fake.dir/07_fake/stage.cu.o", "all",
                  "stages/CMakeFiles/traffic_07_fake.dir/07_fake/traffic.cu.o",
                  "stages/CMakeFiles/stage_09_third.dir/09_third/stage.cu.o", "a/07_fake.cpp.o"]
        done = mock.Mock(stdout="\n".join(listed))
        with mock.patch.object(record, "compiled", lambda version: ["09_third"]), \
                mock.patch.object(record, "nvcc_version", lambda: "13.0.88"), \
                mock.patch.object(record.subprocess, "run", lambda *_, **__: done):
            self.assertEqual(record.objects(self.root), listed[3:])


if __name__ == "__main__":
    unittest.main()
