#!/usr/bin/env python3
"""bench/peers: what is measured, and the tables of the rows. Needs no GPU."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock
from types import SimpleNamespace

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/peers"), str(ROOT / "scripts/maintainer")]
import peers  # noqa: E402, it lies there
import tables  # noqa: E402
import update_pages  # noqa: E402

LADDER = ROOT / "build/simt/bin/ladder"
LIBRARY = SimpleNamespace(stages=lambda: ["06_forward_backward", "09_async_copy"])


def row(impl, direction, seq, tflops, head_dim=64):
    """A row of a cell without a mask."""
    return {"impl": impl, "pass": direction, "dtype": "f16", "head_dim": head_dim, "causal": False,
            "seq": seq, "ok": True, "ms": 1 / tflops, "tflops": tflops}


ROWS = [row(impl, direction, seq, speed) for impl, direction, speeds in (
    ("fa2", "forward", (200, 300)), ("cuflash:09_async_copy", "forward", (220, 300)),
    ("fa2", "backward", (100, 300)), ("cuflash:06_forward_backward", "backward", (50, 150)),
    ("cuflash:09_async_copy, deterministic", "backward", (100, 150)),
    ("cuflash:09_async_copy", "backward", (120, 270))) for seq, speed in zip((512, 1024), speeds)]


class Implementations(unittest.TestCase):
    def names(self, by_chance, **given):
        args = SimpleNamespace(**{"stages": None, "impl": ["fa2", peers.STAGES], **given})
        return peers.implementations_of(args, LIBRARY, by_chance)

    def test_a_pass_with_two_schedules_is_measured_twice(self):
        names = self.names({("09_async_copy", "backward")})
        both = ["fa2", "cuflash:06_forward_backward", "cuflash:09_async_copy"]
        self.assertEqual(names, {"forward": both,
                                 "backward": both + ["cuflash:09_async_copy, deterministic"]})

    def test_only_those_that_are_chosen(self):
        by_chance = {("09_async_copy", "backward")}
        self.assertEqual(self.names(by_chance, impl=["fa2"])["backward"], ["fa2"])
        self.assertEqual(self.names(by_chance, impl=[peers.STAGES], stages="06_forward_backward"),
                         dict.fromkeys(peers.PASSES, ["cuflash:06_forward_backward"]))
        with self.assertRaisesRegex(SystemExit, "no such stage: 99_magic; there are 06"):
            self.names(by_chance, stages="99_magic")

    def test_the_ladder_says_which_have_two(self):
        by_chance = peers.ordered_by_chance(LADDER)
        self.assertIn(("09_async_copy", "backward"), by_chance)
        self.assertNotIn(("09_async_copy", "forward"), by_chance)
        self.assertNotIn(("06_forward_backward", "backward"), by_chance)


class Cells(unittest.TestCase):
    def test_the_hidden_size_is_the_nearest_to_2048(self):
        heads = {head_dim: peers.Cell("forward", "f16", head_dim, False, 4096).shape[1]
                 for head_dim in tables.HEAD_DIMS + tables.MORE_HEAD_DIMS}
        self.assertEqual(heads, {32: 64, 64: 32, 96: 21, 128: 16, 256: 8})

    def test_work(self):
        cell = peers.Cell("forward", "f16", 96, False, 8192)
        self.assertEqual(cell.flops, 4 * 2 * 21 * 8192 ** 2 * 96)
        self.assertEqual(cell._replace(causal=True).flops, cell.flops / 2)
        self.assertEqual(cell._replace(direction="backward").flops, cell.flops * 2.5)
        self.assertEqual(cell._replace(head_dim=64).flops, cell._replace(head_dim=256).flops)

    def test_the_default_is_the_matrix(self):
        def head_dims(*words):
            with unittest.mock.patch.object(sys, "argv", ["peers.py", "--out", "x", *words]):
                return sorted({cell.head_dim for cell in peers.cells_of(peers.options())})
        self.assertEqual(head_dims(), [64, 128])
        self.assertEqual(head_dims("--head-dim", "96,256"), [96, 256])
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            head_dims("--head-dim", "80")


class Tables(unittest.TestCase):
    def test_names(self):
        self.assertEqual(tables.stage_of("cuflash:09_async_copy"), ("09_async_copy", False))
        self.assertEqual(tables.stage_of("cuflash:09_async_copy, deterministic"),
                         ("09_async_copy", True))

    def test_the_word_of_a_stage_chooses_both(self):
        word_of = tables.KINDS[-1]
        self.assertEqual([word_of(one) for one in ROWS[::2]],
                         [None, "09_async_copy", None, "06_forward_backward", "09_async_copy",
                          "09_async_copy"])

    def test_summary(self):
        self.assertEqual(tables.summary(ROWS).splitlines(), [
            "| stage | pass | dtype | × fa2 (least; cells) | causal costs |",
            "| --- | --- | --- | --- | --- |",
            "| 09_async_copy | forward | f16 | 1.06 (1.00; 2) | – |",
            "| 06_forward_backward | backward | f16 | 0.50 (0.50; 2) | – |",
            "| 09_async_copy | backward | f16 | 1.11 (0.90; 2) | – |",
            "| 09_async_copy, deterministic | backward | f16 | 0.80 (0.50; 2) | – |"])

    def test_speeds(self):
        backward = [one for one in ROWS if one["pass"] == "backward"]
        self.assertIn("| fa2 | 06_forward_backward | 09_async_copy | 09_async_copy, deterministic |",
                      tables.speeds(backward))
        self.assertIn("| 64 | no | 512 | 100 | 50 | 120 | 100 |", tables.speeds(backward))

    def test_places(self):
        rows = [row(impl, "forward", seq, speed) for impl, speeds in (
            ("cudnn", (200, 300)), ("cuflash:09_async_copy", (220, 300)))
                for seq, speed in zip((512, 1024), speeds)]
        better = {("forward", 64, False, 512): 1, ("forward", 64, False, 1024): 1.5}
        with unittest.mock.patch.object(tables, "bars", return_value=better):
            self.assertEqual(tables.places(rows).splitlines()[-1],
                             "| 09_async_copy | forward | f16 | 64 | no | 1.10 | 0.67 | 0.92 |")

    def test_every_size_of_the_matrix_has_a_bar(self):
        bars = tables.bars()
        self.assertEqual(len(bars), 48)
        self.assertTrue(all(1 <= bar < 2 for bar in bars.values()))

    def test_the_matrix_does_not_mix_with_other_head_dims(self):
        more = [row(impl, "forward", 512, speed, 256)
                for impl, speed in (("fa2", 200), ("cuflash:09_async_copy", 100))]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "peers.json"
            path.write_text(json.dumps({
                "provenance": {"device": "a", "backend": "simt", "commit": "b", "date": "2026-01-01"},
                "ceilings": {}, "rows": more + ROWS}), encoding="utf-8")
            shown = {words: update_pages.table(path, ["forward", "summary", *words])
                     for words in ((), ("d256",), ("d64", "d256"))}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertEqual(peers.report(more + ROWS), 0)
        matrix = "| 09_async_copy | forward | f16 | 1.06 (1.00; 2) | – |"
        other = "| 09_async_copy | forward | f16 | 0.50 (0.50; 1) | – |"
        self.assertIn(matrix, shown[()])
        self.assertIn(other, shown["d256",])
        self.assertIn("(0.50; 3)", shown["d64", "d256"])
        self.assertIn(matrix, printed.getvalue())
        self.assertIn(other, printed.getvalue())

    def test_some_gradients(self):
        cell = peers.Cell("backward", "f16", 64, True, 1024)._asdict()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "some_gradients.json"
            path.write_text(json.dumps({
                "provenance": {"device": "a", "backend": "simt", "commit": "b", "date": "2026-01-01"},
                "rows": [{"stage": "16_x", "cell": cell,
                          "gradients_ms": {"dQ dK dV": 2.0, "dQ": 1.5, "dV": 0.5}}]}), encoding="utf-8")
            shown = update_pages.table(path, [])
        self.assertIn("| D | causal | S | dQ dK dV | dQ | dV |", shown)
        self.assertIn("| 64 | yes | 1024 | 2 ms | 0.75 | 0.25 |", shown)
        self.assertIn("16_x, a, commit b, 2026-01-01", shown)


if __name__ == "__main__":
    unittest.main()
