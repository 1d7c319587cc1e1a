#!/usr/bin/env python3
"""The run that `ladder --play` records, for every stage: it is the same under every schedule, its
requests add up to the bytes that the CPU simulator counts, and its steps hold each event once.

Needs the target ladder of the preset simt.
"""
import json
import math
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LADDER = ROOT / "build/simt/bin/ladder"
FOLDER = tempfile.TemporaryDirectory()
MOST_BYTES = 2_800_000  # so that a page stays below 3 MB
# Where an event has what; docs/player/README.md.
KIND, PLACE, ARRAY, SHARED, BYTES, SECTORS, WAVEFRONTS, CONFLICTS, LANE_BYTES, LANES, VALUES = range(11)


def ladder(*options, columns="100"):
    """What the ladder prints."""
    done = subprocess.run([LADDER, *options], env={**os.environ, "COLUMNS": columns}, text=True,
                          capture_output=True, check=True)
    return done.stdout


def written(stage, *options):
    """The file that --play writes, and what it prints."""
    file = pathlib.Path(FOLDER.name) / "run.json"
    text = ladder("--play", stage, "--text", "--json", file, *options)
    return file.read_text(encoding="utf-8"), text


def stages():
    file = pathlib.Path(FOLDER.name) / "stages.json"
    ladder("--list", "--json", file)
    return list(dict.fromkeys(row["stage"] for row in json.loads(file.read_text(encoding="utf-8"))))


STAGES = stages()
IN_ORDER = {stage: written(stage) for stage in STAGES}
RUNS = {(stage, run["pass"]): run for stage in STAGES for run in json.loads(IN_ORDER[stage][0])["runs"]}
KINDS = json.loads(IN_ORDER[STAGES[0]][0])["kinds"]


def launches():
    for name, run in RUNS.items():
        for launch in run["launches"]:
            yield (*name, launch["kernel"]), launch


def requests(launch):
    return [event for warp in launch["warps"] for event in warp if len(event) > LANES]


class Recorded(unittest.TestCase):
    def test_every_stage_has_its_passes(self):
        self.assertIn(("03_online_softmax", "forward"), RUNS)
        self.assertIn(("03_online_softmax", "backward"), RUNS)
        self.assertGreater(len(RUNS), len(STAGES))

    def test_schedule_does_not_matter(self):
        for stage in STAGES:
            for schedule in ("reversed", "random:7"):
                with self.subTest((stage, schedule)):
                    self.assertEqual(written(stage, "--schedule", schedule), IN_ORDER[stage])

    def test_small(self):
        for stage in STAGES:
            self.assertLess(len(IN_ORDER[stage][0].encode()), MOST_BYTES, stage)

    def test_two_whole_tiles_and_a_ragged_one(self):
        for name, run in RUNS.items():
            tiles = [{step["tile"] for step in launch["steps"] if "tile" in step} for launch in run["launches"]]
            # From 20 on, blocks share the keys of a sequence: the first one has four whole tiles.
            number = 3 if name[0] < "20" else 4
            with self.subTest(name):
                for names in tiles:
                    kinds = {tile.rsplit(" ", 1)[0] for tile in names}
                    self.assertEqual(names, {f"{kind} {n}" for kind in kinds for n in range(number)})
        self.assertEqual(RUNS["03_online_softmax", "forward"]["problem"], "b1_h1_q32k72_d32_f16")

    def test_no_findings(self):
        for name, run in RUNS.items():
            self.assertEqual(run["findings"], [], name)


class Page(unittest.TestCase):
    """Of a file that --play --json has written."""

    def page_of(self, name):
        return subprocess.run([LADDER, "--play", name], cwd=FOLDER.name, text=True,
                              capture_output=True, check=False)

    def test_its_path_holds_in_every_folder(self):
        pathlib.Path(FOLDER.name, "tiled.json").write_text(IN_ORDER["02_tiled"][0], encoding="utf-8")
        page = pathlib.Path(FOLDER.name, "tiled.html").resolve()
        self.assertIn(f"Wrote {page}. Open it in a browser.\n", self.page_of("tiled.json").stdout)
        self.assertTrue(page.exists())

    def test_of_another_file(self):
        pathlib.Path(FOLDER.name, "folder.json").mkdir()
        for name, text in (("broken", "{"), ("deep", "[" * 1_000_000), ("no_run", '{"format": 1}'),
                           ("later", '{"format": "cuflash-run", "version": 2}'), ("folder", None)):
            if text is not None:
                pathlib.Path(FOLDER.name, f"{name}.json").write_text(text, encoding="utf-8")
            done = self.page_of(f"{name}.json")
            self.assertEqual(done.returncode, 1, name)
            self.assertEqual(done.stderr, f"cuflash: {name}.json: not a file that --play --json wrote\n")
            self.assertFalse(pathlib.Path(FOLDER.name, f"{name}.html").exists())


class AddsUp(unittest.TestCase):
    def test_to_the_counts_of_the_block(self):
        for name, launch in launches():
            counts, events = launch["counts"], requests(launch)
            of = lambda shared, at: sum(event[at] for event in events if event[SHARED] == shared)
            with self.subTest(name):
                self.assertEqual(of(0, BYTES), counts["global_read_bytes"] + counts["global_write_bytes"] -
                                 atomics(launch, 0))
                self.assertEqual(of(1, BYTES), counts["shared_read_bytes"] + counts["shared_write_bytes"] -
                                 atomics(launch, 1))
                self.assertEqual(of(1, WAVEFRONTS), counts["shared_wavefronts"])
                self.assertEqual(of(1, CONFLICTS), counts["bank_conflicts"])

    def test_to_what_the_ladder_counts(self):
        """A pass whose grids have one block: its bytes are those of the ladder's table."""
        compared = 0
        for (stage, name), run in RUNS.items():
            if any(launch["blocks"] > 1 for launch in run["launches"]):
                continue
            file = pathlib.Path(FOLDER.name) / "table.json"
            ladder("--stage", stage, "--pass", name, "--shape", run["problem"], "--json", file)
            row = json.loads(file.read_text(encoding="utf-8"))["rows"][0]
            for which in ("read", "write"):
                self.assertEqual(sum(launch["counts"][f"global_{which}_bytes"] for launch in run["launches"]),
                                 row[f"requested_{which}_bytes"], (stage, name))
            compared += 1
        self.assertGreater(compared, 5)

    def test_lanes_and_values(self):
        for name, launch in launches():
            for event in requests(launch):
                spans = list(zip(*[iter(event[LANES])] * 4))
                lanes = [first + n for first, count, _, _ in spans for n in range(count)]
                self.assertEqual(lanes, sorted(set(lanes)), name)
                if KINDS[event[KIND]] in ("box copy", "box store", "box add"):
                    self.assertEqual(event[LANE_BYTES], 16)
                    if event[SHARED] == 0:
                        self.assertEqual(len(lanes) * 16, event[BYTES], name)
                    continue
                self.assertLess(lanes[-1], 32)
                self.assertEqual(len(lanes) * event[LANE_BYTES], event[BYTES], name)
                if KINDS[event[KIND]] != "store":
                    self.assertEqual(len(event), VALUES)


    def test_copies_reach_both_memories(self):
        """cp.async in 09, boxes in 10 and stores of boxes in 14."""
        for stage, kinds in (("09_async_copy", ("copy load", "copy store")), ("10_tma", ("box copy",) * 2),
                             ("14_persistent", ("box store",) * 2)):
            launch = RUNS[stage, "forward"]["launches"][-1]
            for shared in (0, 1):
                copies = [event for event in requests(launch)
                          if KINDS[event[KIND]] == kinds[shared] and event[SHARED] == shared]
                self.assertTrue(copies, (stage, kinds[shared]))
                self.assertEqual({launch["arrays"][event[ARRAY]]["shared"] for event in copies}, {shared == 1})


class InFlight(unittest.TestCase):
    def at_barriers(self, launch, *kinds):
        """The events of these kinds: (step, barrier, phase)."""
        for number, step in enumerate(launch["steps"]):
            for part in step["parts"]:
                for warp, first, end in part["warps"]:
                    for event in launch["warps"][warp][first:end]:
                        if KINDS[event[KIND]] in kinds:
                            yield number, *event[2:4]

    def test_a_wait_comes_after_what_it_waits_for(self):
        checked = 0
        for name, launch in launches():
            arrived = {}
            for step, barrier, phase in self.at_barriers(launch, "arrive"):
                arrived[barrier, phase] = max(step, arrived.get((barrier, phase), 0))
            for step, *phase in self.at_barriers(launch, "wait"):
                if tuple(phase) in arrived:
                    self.assertGreater(step, arrived[tuple(phase)], name)
                    checked += 1
        self.assertGreater(checked, 500)

    def test_phases_of_barriers(self):
        for stage in ("10_tma", "11_wgmma", "12_warp_specialized", "13_ping_pong", "14_persistent"):
            launch = RUNS[stage, "forward"]["launches"][-1]
            names = [barrier["name"] for barrier in launch["barriers"]]
            self.assertIn("k_full[0]", names)
            for barrier in launch["barriers"]:
                with self.subTest((stage, barrier["name"])):
                    self.assertEqual(barrier["ends"], sorted(barrier["ends"]))
            three_tiles = sum(len(barrier["ends"]) for barrier in launch["barriers"]
                              if barrier["name"].startswith("k_full"))
            self.assertEqual(three_tiles, 3)
        self.assertEqual(RUNS["03_online_softmax", "forward"]["launches"][0]["barriers"], [])

    def test_from_issue_to_wait(self):
        for name, launch in launches():
            for kind, warp, begin, end, array in launch["flights"]:
                with self.subTest(name):
                    self.assertLess(begin, end)
                    self.assertIn(KINDS[kind], ("copy store", "box copy", "box store", "box add", "product"))
                    self.assertEqual(array < 0, KINDS[kind] == "product")
        copied = lambda stage, kind: {
            launch["arrays"][flight[4]]["name"] for launch in RUNS[stage, "forward"]["launches"]
            for flight in launch["flights"] if KINDS[flight[0]] == kind}
        self.assertEqual(copied("09_async_copy", "copy store"), {"sQ", "sK", "sV"})
        self.assertEqual(copied("10_tma", "box copy"), {"sQ", "sK", "sV"})
        self.assertEqual(copied("08_swizzle", "copy store"), set())
        products = [flight for flight in RUNS["11_wgmma", "forward"]["launches"][-1]["flights"]
                    if KINDS[flight[0]] == "product"]
        self.assertTrue(products)


class Rows(unittest.TestCase):
    def test_after_each_tile(self):
        """The rows of the last tile are what the stage stores: LSE = row_max + ln(row_sum)."""
        checked = 0
        for (stage, name), run in RUNS.items():
            for launch in run["launches"]:
                if "rows" not in launch:
                    continue
                lse = [n for n, array in enumerate(launch["arrays"]) if array["name"] == "LSE"][0]
                stored = {offset // 4: value for event in requests(launch)
                          if event[ARRAY] == lse and KINDS[event[KIND]] == "store"
                          for offset, value in zip(offsets(event), event[VALUES])}
                last = launch["rows"][-1]
                self.assertGreater(len(stored), 20, stage)
                for row, value in stored.items():
                    self.assertAlmostEqual(last["row_max"][row] + math.log(last["row_sum"][row]), value,
                                           delta=0.01, msg=(stage, row))
                self.assertEqual([rows["tile"] for rows in launch["rows"]], list(dict.fromkeys(
                    step["tile"] for step in launch["steps"] if step.get("tile", "").startswith("KV"))))
                checked += 1
        self.assertGreater(checked, 8)

    def test_rescaling(self):
        first, *later = RUNS["03_online_softmax", "forward"]["launches"][0]["rows"]
        self.assertEqual(set(first["o_scale"]), {0})
        before = first
        for rows in later:
            for n, o_scale in enumerate(rows["o_scale"]):
                self.assertAlmostEqual(o_scale, math.exp(before["row_max"][n] - rows["row_max"][n]), delta=0.01)
            before = rows


def offsets(event):
    """Of each lane, in the array."""
    return [offset + n * stride for _, count, offset, stride in zip(*[iter(event[LANES])] * 4)
            for n in range(count)]


def atomics(launch, shared):
    """An atomic operation counts as a read and as a write."""
    return sum(event[BYTES] for event in requests(launch)
               if event[SHARED] == shared and KINDS[event[KIND]] in ("atomic", "box add"))


class Steps(unittest.TestCase):
    def test_hold_each_event_once_in_its_order(self):
        for name, launch in launches():
            at = [0] * len(launch["warps"])
            with self.subTest(name):
                for step in launch["steps"]:
                    for part in step["parts"]:
                        places = set(part["places"])
                        for warp, first, end in part["warps"]:
                            self.assertEqual(first, at[warp])
                            self.assertLessEqual({event[PLACE] for event in launch["warps"][warp][first:end]},
                                                 places)
                            at[warp] = end
                self.assertEqual(at, [len(warp) for warp in launch["warps"]])

    def test_barriers_end_intervals(self):
        for name, launch in launches():
            barrier = KINDS.index("barrier")
            for warp in range(len(launch["warps"])):
                passed = 0
                for step in launch["steps"]:
                    self.assertGreaterEqual(step["interval"], passed, name)
                    for part in step["parts"]:
                        for one, first, end in part["warps"]:
                            if one == warp and step["interval"] > passed:
                                passed = step["interval"]
                            kinds = [event[KIND] for event in launch["warps"][one][first:end]]
                            if barrier in kinds:
                                self.assertEqual(kinds, [barrier], name)
            # Nothing need follow the last barrier.
            self.assertIn(launch["intervals"] - 1 - launch["steps"][-1]["interval"], (0, 1), name)

    def test_a_few_hundred(self):
        for name, launch in launches():
            self.assertLess(len(launch["steps"]), 500, name)

    def test_the_papers_lines(self):
        steps = RUNS["03_online_softmax", "forward"]["launches"][0]["steps"]
        lines = [re.search(r"l\.([\d-]+)", step.get("paper", "l.0"))[1] for step in steps if
                 step.get("tile") == "KV tile 1"]
        self.assertEqual(list(dict.fromkeys(lines)), ["7", "8", "9", "10"])


class Text(unittest.TestCase):
    def test_a_line_a_step(self):
        for stage in STAGES:
            text = IN_ORDER[stage][1]
            runs = json.loads(IN_ORDER[stage][0])["runs"]
            for run in runs:
                count = sum(len(launch["steps"]) for launch in run["launches"])
                self.assertGreater(count, 5)
                self.assertRegex(text, rf"(?m)^ *{count - 1} +\d+ ")
            for line in text.splitlines():
                self.assertLessEqual(len(line), 100, stage)

    def test_what_a_step_does(self):
        text = IN_ORDER["03_online_softmax"][1]
        self.assertRegex(text, r"KV tile 0 · \[FA2 Alg\.1 l\.7\]  load K_j, V_j\n +\d+ +\d+ 0-7 +K → sK ")
        self.assertRegex(text, r" 0-7 +barrier +│ __syncthreads\(\);")
        self.assertRegex(text, r" 0-7 +sQ sK → .* 0 │ s \+= float\(sQ")
        self.assertIn("nothing here is a time", text.replace("\n", " "))

    def test_of_the_problem_that_is_named(self):
        text = ladder("--play", "05", "--text", "--shape", "b1_h2_q70k33_d64_causal", "--block", "1,0,0")
        self.assertIn("Forward · b1_h2_q70k33_d64_f16_causal", text)
        self.assertIn("block (1,0,0) of 4", text)

    def test_of_another_type_and_mask(self):
        text = ladder("--play", "03", "--text", "--pass", "forward", "--dtype", "f32", "--causal")
        self.assertIn("Forward · b1_h1_q32k72_d32_f32_causal", text)

    def test_narrow(self):
        text = ladder("--play", "03", "--text", "--pass", "forward", columns="60")
        self.assertLessEqual(max(map(len, text.splitlines())), 60)
        self.assertIn("K → sK", text)


if __name__ == "__main__":
    unittest.main()
