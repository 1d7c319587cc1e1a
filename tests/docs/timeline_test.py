#!/usr/bin/env python3
"""Timelines: what the spans of made-up events are, and what of them is kept."""

import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / folder) for folder in ("bench/timeline", "docs/figures")
]
import spans  # noqa: E402, it lies there
import timeline  # noqa: E402, it lies there

LINES = {
    "10": {"code": "ptx::mbarrier_wait(&k_empty[stage], phase ^ 1);", "title": "// Produce."},
    "11": {"code": "request_tile(sK[stage], maps.k, 0, hk, b, k_full[stage]);", "title": ""},
    "12": {"code": "ptx::mbarrier_wait(&v_empty[stage], phase ^ 1);", "title": "// Produce."},
    "13": {"code": "request_tile(sV[stage], maps.v, 0, hk, b, v_full[stage]);", "title": ""},
    "20": {"code": 'mark_tile("KV tile", tile);', "title": ""},
    "21": {"code": "ptx::mbarrier_wait(&k_full[stage], phase);", "title": "// S = Q_i K_jᵀ"},
    "22": {"code": "ptx::wgmma_fence();", "title": "// [FA2 Alg.1 l.8]  S = Q_i K_jᵀ"},
    "23": {"code": "ptx::mbarrier_wait(&v_full[stage], phase);", "title": "// P V_j"},
    "24": {"code": "ptx::wgmma_fence();", "title": "// [FA2 Alg.1 l.10]  O = o_scale · O + P V_j"},
    "25": {"code": "ptx::named_barrier_sync(1, 128);", "title": "// The block returns."},
    "26": {"code": "ptx::named_barrier_sync(1, 256);", "title": "// A consumer waits for its turn."},
    "27": {"code": "ptx::named_barrier_sync(2, 256);", "title": "// All have equally many turns."},
}
TILES, TILE = 8, 1000


def consumer(begin):
    """A tile: 20 cycles of other things, wait for K 80, S 300, softmax 400, wait for V 50, P V 150."""
    events = []
    for tile in range(TILES):
        t = begin + TILE * tile
        events += [f"20 tile {t} {t} {TILES - 1 - tile}", f"21 wait {t + 20} {t + 100} {8 * (tile % 2)}",
                   f"22 fence {t + 100} {t + 100} 0", f"22 commit {t + 110} {t + 110} 0",
                   f"22 products {t + 110} {t + 400} 0",
                   f"23 wait {t + 800} {t + 850} {16 + 8 * (tile % 2)}",
                   f"24 fence {t + 850} {t + 850} 0", f"24 commit {t + 860} {t + 860} 0",
                   f"24 products {t + 860} {t + 1000} 0"]
    t = begin + TILE * TILES
    return events + [f"20 last_tile {t} {t} 0", f"25 named_barrier {t} {t + 10} 1"]


def in_turns(begin):
    """A tile: its S beside P V of the one before, in turns, and a softmax under the latter."""
    events = []
    for tile in range(TILES):
        t = begin + TILE * tile
        events += [f"20 tile {t} {t} {TILES - 1 - tile}", f"23 wait {t} {t + 50} 16",
                   f"26 named_barrier {t + 50} {t + 150} 1",
                   f"22 fence {t + 150} {t + 150} 0", f"22 commit {t + 155} {t + 155} 0",
                   f"24 fence {t + 160} {t + 160} 0", f"24 commit {t + 165} {t + 165} 0",
                   f"22 products {t + 170} {t + 400} 1", f"21 wait {t + 780} {t + 800} 8",
                   f"24 products {t + 800} {t + 900} 0"]
    t = begin + TILE * TILES
    return events + [f"20 last_tile {t} {t} 0"]


def producer(begin):
    """Requests K and V of a tile as soon as the buffers of two tiles before are empty."""
    events = []
    for tile in range(TILES):
        t = begin + TILE * max(0, tile - 2)
        for line, letter, data in ((10, "K", 8 * (tile % 2)), (12, "V", 16 + 8 * (tile % 2))):
            events += [f"{line} wait {t} {t + 410} {32 + data}",
                       f"{line + 1} request {t + 410} {t + 420} {data}"]
    return events


def made_up(blocks=(0, 400), role=consumer):
    """A result of two blocks whose consumers are in step."""
    groups = [
        {"block": n, "begin": at, "end": at + 9000, "warpgroups": [
            {"warpgroup": w, "events": does(at + 100)}
            for w, does in enumerate((producer, role, role))]}
        for n, at in enumerate(blocks)
    ]
    return {
        "provenance": {"device": "no GPU", "backend": "simt", "commit": "made up",
                       "date": "2026-01-01T00:00:00Z"},
        "stage": "12_warp_specialized",
        "timelines": [{"problem": "b1_h2_q512k512_d64_f16", "clock_ghz": 1.5,
                       "recorded_ms": 1.25, "blocks": groups}],
    }


def lanes():
    result = made_up()
    return spans.lanes_of(result["timelines"][0], LINES)


class Spans(unittest.TestCase):
    """From events to spans."""

    def test_roles(self):
        self.assertEqual([(lane.block, lane.name) for lane in lanes()],
                         [(block, name) for block in (0, 1)
                          for name in ("producer", "consumer 0", "consumer 1")])
        result = made_up()
        for block in result["timelines"][0]["blocks"]:
            block["warpgroups"] = block["warpgroups"][1:]
        self.assertEqual({lane.name for lane in spans.lanes_of(result["timelines"][0], LINES)},
                         {"warpgroup 0", "warpgroup 1"})

    def test_a_producer_has_a_file_of_its_own(self):
        kernel = {number: line for number, line in LINES.items() if number >= "20"}
        found = spans.lanes_of(made_up()["timelines"][0], kernel, LINES)
        self.assertEqual([lane.spans for lane in found], [lane.spans for lane in lanes()])

    def test_parts_of_a_tile(self):
        cycles, parts, rest = spans.parts_of(lanes()[1])
        self.assertEqual((cycles, rest), (1000, 20))
        self.assertEqual(parts, {"S": 300, "softmax": 400, "P V": 150, "wait for K": 80,
                                 "wait for V": 50, spans.FOR_A_BUFFER: 0, spans.FOR_A_TURN: 0})
        self.assertFalse(timeline.overlaps(lanes()[1].spans))

    def test_parts_of_a_tile_with_turns(self):
        # A tile: wait for V 50, turn 100, S from 150 to 400, softmax until 800 and P V until 900.
        lane = spans.lanes_of(made_up(role=in_turns)["timelines"][0], LINES)[1]
        cycles, parts, rest = spans.parts_of(lane)
        self.assertEqual((cycles, rest), (1000, 100))
        self.assertEqual(parts, {"S": 250, "softmax": 380, "P V": 740, "wait for K": 20,
                                 "wait for V": 50, spans.FOR_A_BUFFER: 0, spans.FOR_A_TURN: 100})
        self.assertTrue(timeline.overlaps(lane.spans))

    def test_a_barrier_that_is_no_turn(self):
        events = ["25 named_barrier 5 10 1", "26 named_barrier 20 30 1"]
        found = spans.spans_of(spans.events_of({"events": events}), LINES)
        self.assertEqual(found, [spans.Span("barrier", 5, 10), spans.Span(spans.FOR_A_TURN, 20, 30)])

    def test_a_wait_for_one_of_many_turns(self):
        found = spans.spans_of(spans.events_of({"events": ["27 named_barrier 5 10 2"]}), LINES)
        self.assertEqual(found, [spans.Span(spans.FOR_A_TURN, 5, 10)])

    def test_events_may_begin_between_a_fence_and_its_commit(self):
        events = ["24 commit 1 1 0", "24 products 2 100 0", "22 fence 110 110 0",
                  "22 commit 111 111 0", "22 products 112 200 0"]
        found = spans.spans_of(spans.events_of({"events": events}), LINES)
        self.assertEqual(found, [spans.Span("S", 110, 200)])

    def test_products_in_flight(self):
        # Of the first block 100 to 400 and 850 to 1000; of the second 400 later.
        self.assertAlmostEqual(spans.products_in_flight(lanes()), 0.75, places=2)
        self.assertAlmostEqual(spans.products_in_flight(lanes()[:3]), 0.45, places=2)

    def test_softmaxes_at_once(self):
        # Two from 400 to 800 of each tile of the first block; of the second 400 later.
        for share, expected in zip(spans.softmaxes_at_once(lanes()), (0.2, 0, 0.8, 0, 0), strict=True):
            self.assertAlmostEqual(share, expected, delta=0.03)

    def test_two_groups_in_flight(self):
        events = ["22 fence 0 0 0", "22 commit 1 1 0", "24 fence 10 10 0", "24 commit 11 11 0",
                  "22 products 12 100 1", "24 products 400 500 0"]
        found = spans.spans_of(spans.events_of({"events": events}), LINES)
        self.assertEqual(found, [spans.Span("S", 0, 100), spans.Span("softmax", 100, 400),
                                 spans.Span("P V", 10, 500)])

    def test_a_request_does_not_end_the_softmax(self):
        events = ["22 fence 0 0 0", "22 commit 1 1 0", "22 products 2 100 0", "10 wait 110 120 0",
                  "11 request 120 130 0", "23 wait 300 310 0"]
        found = spans.spans_of(spans.events_of({"events": events}), LINES)
        self.assertEqual([span.name for span in found],
                         ["S", "wait for a buffer", "request K", "softmax", "wait for V"])
        self.assertIn(spans.Span("softmax", 130, 300), found)

    def test_lines_of_a_kernel(self):
        lines = spans.lines_of("// Take.\n\n  wait(&k_full);  // It is there.\n// Next.\nreturn;")
        self.assertEqual(lines["3"], {"code": "wait(&k_full);  // It is there.", "title": "// Take."})
        self.assertEqual(lines["5"], {"code": "return;", "title": "// Next."})

    def test_what_it_does_not_know(self):
        with self.assertRaisesRegex(ValueError, "no known product"):
            spans.product_name("// dP = dO Vᵀ")
        with self.assertRaisesRegex(ValueError, "not one timeline"):
            spans.chosen(made_up(), 128)

    @mock.patch(f"{__name__}.TILES", 16)
    def test_blocks_that_take_turns(self):
        # The second begins when the first is half done.
        made = made_up(blocks=(0, 8000))["timelines"][0]
        lanes_of_both = spans.lanes_of(made, LINES)
        begin, end = spans.inner_of_all(lanes_of_both)
        first, length = spans.shown(lanes_of_both)
        self.assertLess(begin, first)
        self.assertLess(first + length, end)

    @mock.patch(f"{__name__}.TILES", 16)
    def test_only_what_a_figure_shows_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            events, out, ladder = (pathlib.Path(folder, name) for name in ("events", "out", "ladder"))
            result = made_up()
            events.write_text(json.dumps(result), encoding="utf-8")
            ladder.write_text(json.dumps({"rows": [{"problem": result["timelines"][0]["problem"], "ms": 1.0}]}))
            with mock.patch.object(sys, "argv", ["spans.py", *map(str, (events, out, ladder))]), \
                    mock.patch.object(spans, "lines_of", return_value=LINES):
                spans.main()
            kept = json.loads(out.read_text(encoding="utf-8"))["timelines"][0]
        self.assertEqual((kept["shown_cycles"], kept["plain_ms"]), (spans.TILES * TILE, 1.0))
        times = [time for lane in kept["lanes"] for _, *both in lane["spans"] for time in both]
        self.assertEqual((min(times), max(times)), (0, 2 * spans.TILES * TILE))


if __name__ == "__main__":
    unittest.main()
