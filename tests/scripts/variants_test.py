#!/usr/bin/env python3
"""scripts/maintainer/variants.py: its lists, what becomes of each kind of variant on the CPU simulator,
and the table of the results. Needs the preset simt."""
import contextlib
import io
import pathlib
import sys
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import variants  # noqa: E402, it lies there
from variants_table import markdown  # noqa: E402

LINE = "S[n] = s * p.softmax_scale;"


def one(new, name="another line"):
    """A list with a variant of 01_naive that has other lines in the place of LINE."""
    return f"[{name}]\nhead_dims 32\n-{LINE}\n" + "".join(f"+{line}\n" for line in new.split("\n"))


class Lists(unittest.TestCase):
    """What a list may say."""

    def read(self, text):
        """The variants of a list of 01_naive's."""
        return variants.variants_of("01_naive", text)

    def test_hunks(self):
        variant, = self.read(
            "# A comment.\n" + one("S[n] = 1;\nS[n] += 2;") +
            "\n float s = 0.f;\n+int none;\n\n")
        self.assertEqual((variant.name, variant.head_dims), ("another line", [32]))
        kernel = variant.sources()["kernel.cuh"]
        self.assertNotIn(LINE, kernel)
        self.assertIn("  S[n] = 1;\n  S[n] += 2;\n", kernel)
        self.assertIn("float s = 0.f;\n  int none;\n", kernel)

    def test_several(self):
        names = [variant.name for variant in self.read(one("a", "A") + "\n# Between.\n" + one("b", "B"))]
        self.assertEqual(names, ["A", "B"])

    def test_gpu_only(self):
        text = one("a", "A").replace("head_dims 32\n", "head_dims 32\ngpu_only\n")
        self.assertEqual([variant.gpu_only for variant in self.read(text + "\n" + one("b", "B"))], [True, False])

    def test_refused(self):
        for text, said in (
                (one("").replace(LINE, "S[n] = 0;"), r"\[another line\] .* 0 times:\n    S\[n\] = 0;"),
                (one("").replace(LINE, "}"), r"sources \d+ times"),
                (one("").replace("head_dims 32\n", ""), "begins with"),
                (one(LINE), "changes lines that the stage has"),
                ("[none]\nhead_dims 32\n+int added;\n", "changes lines that the stage has"),
                (one("") + "S[n] = 0;\n", "a line begins with")):
            with self.subTest(text), self.assertRaisesRegex(variants.ListError, said):
                self.read(text)


class Ruler(unittest.TestCase):
    """The stage stands twice among its variants."""

    def test_same_again(self):
        original, again, _ = variants.with_original(variants.variants_of("01_naive", one("")))
        self.assertEqual((again.name, again.head_dims, again.sources()),
                         (variants.AGAIN, original.head_dims, original.sources()))


class Outcomes(unittest.TestCase):
    """What becomes of variants on the simulator."""

    def test_all_kinds(self):
        lists = "\n".join((
            one("S[n] = p.softmax_scale * s;", "right"), one("S[n] = ;", "broken"),
            one("S[n] = s;", "wrong"), one("for (volatile int wait = 1; wait;) {\n}", "waiting"),
            one("__builtin_trap();", "trapped")))
        tried = [variant for variant in variants.with_original(variants.variants_of("01_naive", lists))
                 if not variant.gpu_only]
        with contextlib.redirect_stderr(io.StringIO()) as said, \
                unittest.mock.patch.object(variants, "CELLS", variants.CELLS[:1]):
            (ROOT / "build/simt/variants/made.json").unlink(missing_ok=True)  # of this test, run before
            program = variants.Program("simt", tried)
            program.limit = (1, 2)  # Those that end compute for less than a second.
            rows = variants.measured(program, tried)["rows"]
        outcomes = {row["variant"]: row.get("failed") for row in rows}
        self.assertEqual(len(rows), 6)
        self.assertIsNone(outcomes[variants.AS_IT_IS])
        self.assertIsNone(outcomes["right"])
        self.assertEqual(outcomes["broken"], "does not compile")
        self.assertEqual(outcomes["wrong"], "wrong results")
        self.assertEqual(outcomes["waiting"], "hangs")
        self.assertRegex(outcomes["trapped"], "crashes: exit status -4")
        self.assertIn("[broken]", said.getvalue())
        self.assertIn("was expected", said.getvalue())


class Table(unittest.TestCase):
    """The table in a page."""
    SMALL, CAUSAL, WIDE = ("b4_h32_q4096k4096_d64_f16", "b16_h32_q1024k1024_d64_f16_causal_bshd",
                           "b4_h16_q4096k4096_d128_f16_bshd_deterministic")
    ROWS = [
        {"variant": "the stage as it is", "problem": SMALL, "tflops": 300.4},
        {"variant": "the stage as it is", "problem": CAUSAL, "tflops": 200.0},
        {"variant": "shifted", "problem": SMALL, "tflops": 150.2},
        {"variant": "shifted", "problem": CAUSAL, "failed": "wrong results"},
        {"variant": "the stage as it is", "problem": WIDE, "tflops": 400.0},
        {"variant": "wider", "problem": WIDE, "tflops": 404.0, "notes": ["spills 8 bytes"]},
    ]

    def test_speeds(self):
        self.assertEqual(markdown(self.ROWS, ["d64"]).split("\n"), [
            "| variant, TFLOP/s | D 64, S 4,096 | D 64, S 1,024, causal, [B, S, H, D] |",
            "| --- | --- | --- |",
            "| the stage as it is | 300 | 200 |",
            "| shifted | 150 | wrong results |"])

        self.assertTrue(markdown(self.ROWS, ["d128"]).startswith(
            "| variant, TFLOP/s | D 128, S 4,096, [B, S, H, D], deterministic |"))

    def test_notes(self):
        self.assertEqual(markdown(self.ROWS, []).split("\n")[-1],
                         "| wider (D 128: spills 8 bytes) |  |  | 404 |")

    def test_pairs(self):
        """Speeds with the half of their intervals, of times that were measured in pairs."""
        rows = [self.ROWS[0],
                {"variant": "the same again", "problem": self.SMALL, "tflops": 300.1,
                 "ratio": 1.0004, "spread": 0.0012},
                {"variant": "faster", "problem": self.SMALL, "tflops": 375.2, "ratio": 0.8,
                 "spread": 0.0064}]
        self.assertEqual(markdown(rows, []).split("\n")[2:], [
            "| the stage as it is | 300 |",
            "| the same again | 300 (1.000 ×) |",
            "| faster | 375 (1.250 ± 0.010 ×) |"])
        self.assertEqual(markdown(rows, ["relative"]).split("\n")[2:], [
            "| the stage as it is, in TFLOP/s | 300 |",
            "| the same again | 1.000 × |",
            "| faster | 1.250 ± 0.010 × |"])

    def test_unknown_head_dim(self):
        with self.assertRaisesRegex(SystemExit, "timed with d96"):
            markdown(self.ROWS, ["d64", "d96"])


if __name__ == "__main__":
    unittest.main()
