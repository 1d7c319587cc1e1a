#!/usr/bin/env python3
"""bench_stages: its names, the origin of its results, and what it prints, on the CPU simulator."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = re.compile(r"\d\d_\w+/(fwd|bwd)/(\w+)/d\d+/(full|causal)/b\d+h\d+s\d+")


def run(*options):
    """What it prints, on stdout and on stderr."""
    done = subprocess.run([ROOT / "build/simt/bin/bench_stages", *options], check=True, capture_output=True,
                          text=True, env={**os.environ, "CUFLASH_COMMIT": "0123abc"})
    return done.stdout, done.stderr


class BenchStages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "stages.json"
            cls.stdout, cls.stderr = run("--benchmark_filter=/f16/d64/", f"--benchmark_out={file}")
            cls.result = json.loads(file.read_text(encoding="utf-8"))

    def test_names(self):
        names = [row["name"] for row in self.result["benchmarks"]]
        self.assertIn("14_persistent/fwd/f16/d64/causal/b1h2s128", names)
        self.assertEqual(len(names), len(set(names)))
        for name in names:
            self.assertRegex(name, rf"\A{NAME.pattern}\Z")
        self.assertEqual({NAME.fullmatch(name)[2] for name in names}, {"f16"})

    def test_the_formula_has_the_bytes_that_are_counted(self):
        for row in self.result["benchmarks"]:
            self.assertEqual(row["read_bytes"] + row["write_bytes"], row["predicted_bytes"], row["name"])

    def test_context(self):
        context = self.result["context"]
        self.assertEqual([context[key] for key in ("device", "clocks", "commit")],
                         ["CuFlash CPU simulator", "none", "0123abc"])
        self.assertIn("device: CuFlash CPU simulator\n", self.stderr)
        self.assertIn("commit: 0123abc\n", self.stderr)
        self.assertNotIn("WARNING", self.stderr)

    def test_columns_have_a_meaning(self):
        titles, _, *rows = self.stdout.splitlines()
        self.assertEqual(titles.split(), ["Benchmark", "bank_conflicts", "predicted_bytes", "read_bytes",
                                          "write_bytes"])
        self.assertEqual({len(row.split()) for row in rows}, {5})

    def test_no_cell_that_a_stage_lacks(self):
        for name in run("--benchmark_list_tests")[0].split():
            self.assertNotRegex(name, "14_persistent/(bwd|fwd/f32)")


if __name__ == "__main__":
    unittest.main()
