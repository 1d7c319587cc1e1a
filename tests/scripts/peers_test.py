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
import standard  # noqa: E402
import tables  # noqa: E402
import update_pages  # noqa: E402

LADDER = ROOT / "build/simt/bin/ladder"


def cell(direction, seq, speeds, head_dim=64, **not_run):
    """A row for a cell without a mask."""
    return {"pass": direction, "dtype": "f16", "head_dim": head_dim, "causal": False, "seq": seq,
            "tflops": {name: [speed, 0.01] for name, speed in speeds.items()}, "not_run": not_run}


CELLS = [
    cell("forward", 512, {"fa2": 200, "09_async_copy": 220}),
    cell("forward", 1024, {"fa2": 300, "09_async_copy": 300}),
    cell("backward", 512, {"fa2": 100, "06_forward_backward": 50, "09_async_copy, deterministic": 100,
                           "09_async_copy": 120}),
    cell("backward", 1024, {"fa2": 300, "06_forward_backward": 150, "09_async_copy, deterministic": 150,
                            "09_async_copy": 270}, math="math keeps S")]
ROWS = tables.rows_of({"rows": CELLS})


class Implementations(unittest.TestCase):
    def names(self, direction, dtype="f16", **given):
        args = SimpleNamespace(**{"stages": None, "impl": ["fa2", peers.STAGES], "ladder": LADDER, **given})
        return peers.implementations_of(peers.Cell(direction, dtype, 64, False, 512), args,
                                        peers.passes_of(args))

    def test_a_pass_with_two_schedules_is_measured_twice(self):
        stages = "06_forward_backward,09_async_copy"
        both = ["fa2", "06_forward_backward", "09_async_copy"]
        self.assertEqual(self.names("forward", stages=stages), both)
        self.assertEqual(self.names("backward", stages=stages), both + ["09_async_copy, deterministic"])

    def test_only_what_a_stage_has(self):
        self.assertNotIn("17_persistent_backward", self.names("forward"))
        self.assertEqual(self.names("forward", "f32", stages="04_register_tiles,05_wmma"),
                         ["fa2", "04_register_tiles"])

    def test_only_peers_that_are_installed(self):
        def runs(package, direction, dtype):
            with unittest.mock.patch("importlib.util.find_spec", lambda name: name == package or None):
                return self.names(direction, dtype, impl=["fa3", "fa4"])
        self.assertEqual(runs("fa3_fwd_interface", "forward", "bf16"), ["fa3"])
        self.assertEqual(runs("fa3_fwd_interface", "forward", "f16"), [])
        self.assertEqual(runs("dew_flash_attn", "forward", "f16"), ["fa3"])
        self.assertEqual(runs("dew_flash_attn", "backward", "bf16"), ["fa3"])
        self.assertEqual(runs("flash_attn.cute", "backward", "f16"), ["fa4"])

    def test_versions(self):
        installed = [SimpleNamespace(name=name, version="1") for name in ("numpy", "fa3_fwd", "fa3_fwd")]
        with unittest.mock.patch("importlib.metadata.distributions", return_value=installed):
            self.assertEqual(peers.versions(), ["fa3_fwd 1"])

    def test_only_those_that_are_chosen(self):
        self.assertEqual(self.names("backward", impl=["fa2"]), ["fa2"])
        self.assertEqual(self.names("backward", impl=[peers.STAGES], stages="06_forward_backward"),
                         ["06_forward_backward"])
        with self.assertRaisesRegex(SystemExit, "no such stage: 99_magic; there are 01"):
            self.names("backward", stages="99_magic")


class Result(unittest.TestCase):
    CELL = peers.Cell("forward", "f16", 64, False, 512)

    def test_a_row_has_medians_and_spread(self):
        fast = SimpleNamespace(name="fa2", times=[0.2, 0.25, 0.24], reason="")
        math = SimpleNamespace(name="math", times=[], reason="math keeps S")
        row = peers.row_of(self.CELL, [fast, math])
        self.assertEqual(row, {**self.CELL.keys(), "not_run": {"math": "math keeps S"},
                               "tflops": {"fa2": (self.CELL.flops / 0.24 * 1e-9, 0.2083)}})

    def test_a_row_has_a_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "peers.json"
            peers.save(path, {"provenance": {"date": "today"}, "rows": [{"a": 1 / 3, "b": [2]}, {"c": "É"}]})
            self.assertEqual(path.read_text(encoding="utf-8"), """{
"provenance":{
"date":"today"
},
"rows":[
{"a":0.3333333,"b":[2]},
{"c":"É"}
]
}
""")

    def test_wrong_outputs_are_reported(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = peers.report({"rows": [*CELLS, cell("forward", 2048, {}, fa2="wrong: O is off by 1")]})
        self.assertEqual(status, 1)
        self.assertEqual(printed.getvalue().splitlines()[-1],
                         "fa2, forward f16 D 64 S 2048: wrong: O is off by 1")


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

    def test_standard_attention_has_its_own_batches(self):
        cell = standard.cell_of(32, 1024)
        self.assertEqual(cell.shape, (32, 8, 1024, 64))
        self.assertEqual(cell.flops, 2 * 32 * 8 * 1024 ** 2 * 64)

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
        self.assertEqual(tables.stage_of("09_async_copy"), ("09_async_copy", False))
        self.assertEqual(tables.stage_of("09_async_copy, deterministic"), ("09_async_copy", True))

    def test_the_word_of_a_stage_chooses_both(self):
        word_of = tables.KINDS[-1]
        self.assertEqual([word_of(one) for one in ROWS[4:8]],
                         [None, "06_forward_backward", "09_async_copy", "09_async_copy"])

    def test_summary(self):
        self.assertEqual(tables.summary(ROWS).splitlines(), [
            "| stage | pass | dtype | × fa2 (minimum; cells) | causal cost |",
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
        rows = tables.rows_of({"rows": [
            cell("forward", 512, {"fa3": 100, "cudnn": 200, "09_async_copy": 220}),
            cell("forward", 1024, {"fa3": 450, "cudnn": 300, "09_async_copy": 300}),
            cell("forward", 2048, {"09_async_copy": 300})]})
        lines = tables.places(rows).splitlines()
        self.assertEqual(lines[0], "Speed relative to the best of fa3, cudnn:")
        self.assertEqual(lines[-1], "| 09_async_copy | forward | f16 | 64 | no | 1.10 | 0.67 | – | 0.92 |")

    def test_the_matrix_does_not_mix_with_other_head_dims(self):
        more = cell("forward", 512, {"fa2": 200, "09_async_copy": 100}, 256)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "peers.json"
            path.write_text(json.dumps({
                "provenance": {"device": "a", "backend": "simt", "packages": ["fa3_fwd 1"], "commit": "b",
                               "date": "2026-01-01"},
                "ceilings": {}, "rows": [more, *CELLS]}), encoding="utf-8")
            shown = {words: update_pages.table(path, ["forward", "summary", *words])
                     for words in ((), ("d256",), ("d64", "d256"))}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertEqual(peers.report({"rows": [more, *CELLS]}), 0)
        matrix = "| 09_async_copy | forward | f16 | 1.06 (1.00; 2) | – |"
        other = "| 09_async_copy | forward | f16 | 0.50 (0.50; 1) | – |"
        self.assertIn(matrix, shown[()])
        self.assertIn("a, fa3_fwd 1, commit b", shown[()])
        self.assertIn(other, shown["d256",])
        self.assertIn("(0.50; 3)", shown["d64", "d256"])
        self.assertIn(matrix, printed.getvalue())
        self.assertIn(other, printed.getvalue())

    def test_standard_attention(self):
        row = {"batch": 8, "tflops": {"standard": [30, 0.01], "math": [15, 0.01], "14_persistent": [240, 0.01]},
               "not_run": {}}
        long = {"seq": 16384, "extra_bytes": {"14_persistent": 524288},
                "not_run": {"standard": "out of device memory"}}
        result = {"rows": [row], "memory": [{**long, "seq": 1024, "extra_bytes": {"standard": 33554432}, "not_run": {
            "14_persistent": "no"}}, long]}
        self.assertEqual(tables.standard_speeds(result).splitlines()[::2], [
            "| batch | standard | math | 14_persistent | × standard | × math |", "| 8 | 30 | 15 | 240 | 8.0 | 16.0 |"])
        self.assertEqual(tables.standard_memory(result).splitlines()[2:], [
            "| 1,024 | 33.6 MB | no |", "| 16,384 | out of device memory | 0.524 MB |"])


if __name__ == "__main__":
    unittest.main()
