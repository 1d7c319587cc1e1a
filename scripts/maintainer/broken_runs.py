#!/usr/bin/env python3
"""The recorded run of a stage, and of the stage with one fault after the other.

    scripts/maintainer/broken_runs.py --play STAGE [--json FILE] [--answer FILE] [OPTION...]

Takes the ladder's options. Writes to FILE, by default build/play/STAGE.json, what the ladder would, and
behind it a run for each fault of the stage that is marked for the player: of the same problem, with the
fault in the source. Such a run has two kinds of findings that the simulator does not have: a
stored value that is not that of the sound run, and a line that meets more bank conflicts. With --answer
there is one such run: of a reader's answer to an exercise in the place of the stage's own lines. docs/player/README.md describes
the file.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import mutations
from builds import BuildError
from exercise_variants import Exercise, with_answers
from repository import ANY_BYTES, ROOT

STORE = "store"
OUTPUTS = ("O", "dQ", "dK", "dV", "LSE")
# Where an event has what; docs/player/README.md.
KIND, PLACE, ARRAY, CONFLICTS, LANE_BYTES, LANES, VALUES = 0, 1, 2, 7, 8, 9, 10


def written(ladder, folder, *options):
    """The JSON that this ladder writes."""
    file = folder / "written.json"
    done = subprocess.run([ladder, *options, "--json", file], cwd=ROOT, text=True, check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise BuildError(done.stderr.strip().removeprefix("cuflash: "))
    return json.loads(file.read_text(encoding="utf-8"))


# ---- What a fault changes --------------------------------------------------------------------------

def events(run):
    """Each event with where it is: its launch, the step's number in the run, the warp, and the request's
    number in that step."""
    step = 0
    for launch in run["launches"]:
        for parts in (one["parts"] for one in launch["steps"]):
            for warp, first, end in (warp for part in parts for warp in part["warps"]):
                for request, event in enumerate(launch["warps"][warp][first:end]):
                    yield (launch, step, warp, request), event
            step += 1


def in_steps(launch, warp, place, turn=None, step=None):
    """Of a warp's events at a place "kernel.cuh:45": the turn of the first in a step, or the step of one
    with a turn, counted from 0."""
    turns = itertools.count()
    for number, parts in enumerate(one["parts"] for one in launch["steps"]):
        for first, end in ((first, end) for part in parts for one, first, end in part["warps"] if one == warp):
            for event in launch["warps"][warp][first:end]:
                if launch["places"][event[PLACE]][:2] == place:
                    now = next(turns)
                    if now == turn or number == step:
                        return now if turn is None else number
    return None


def drop_harmless_orders(sound, broken):
    """An order in which a race happens differs from the sound run's. Where the clock itself shows the race,
    because a wait is missing, the ladder has found the order of the sound run: it is dropped."""
    for found in (one for one in broken["findings"] if "order" in one):
        order, steps = found["order"], []
        launch = broken["launches"][order["launch"]]
        for (warp, _, location, _), at in zip(found["accesses"], order["at"]):
            name, line = location.split(":")
            place = [next(n for n, file in enumerate(broken["files"]) if file["path"].endswith(f"/{name}")), int(line)]
            turn = in_steps(launch | {"steps": order["steps"]}, warp, place, step=at)
            place[0] = next(n for n, file in enumerate(sound["files"]) if file["path"].endswith(f"/{name}"))
            steps.append(in_steps(sound["launches"][order["launch"]], warp, place, turn=turn))
        if None in steps or (steps[0] < steps[1]) == (order["at"][0] < order["at"][1]):
            del found["order"]


def lanes(event):
    """The lanes of a request, and their offsets in the array."""
    for first, count, offset, stride in zip(*[iter(event[LANES])] * 4):
        for n in range(count):
            yield first + n, offset + n * stride


def element_bytes(array):
    return {"f32": 4, "f16": 2, "bf16": 2}.get(array["element"]) or int(array["element"].split()[0])


def stored(kinds, run):
    """Each stored value, in the run's order: where, its array and element, and the value."""
    for (launch, *place), event in events(run):
        if len(event) <= VALUES or kinds[event[KIND]] != STORE:
            continue
        array, values = launch["arrays"][event[ARRAY]], iter(event[VALUES])
        size = element_bytes(array)
        for lane, offset in lanes(event):
            for n in range(event[LANE_BYTES] // size):
                yield (launch, *place, lane, event), (array, offset // size + n), next(values)


def element_name(array, number):
    """sP[3][5]"""
    places = []
    for extent in reversed(array["extents"]):
        number, place = divmod(number, extent)
        places.append(f"[{place}]")
    return array["name"] + "".join(reversed(places))


def finding(run, where, array, title, text, count):
    """One more finding, in the form of the simulator's."""
    launch, step, warp, request, lane, event = where
    file, line, _ = launch["places"][event[PLACE]]
    location = f"{pathlib.Path(run['files'][file]['path']).name}:{line}"
    return {"title": title, "kernel": launch["kernel"], "array": array["name"], "location": location,
            "accesses": [[warp, lane, location, ""]], "text": text, "count": count, "step": step,
            "request": request}


def reader(run):
    """The warp and the lane that read in the run's first race, if there is one."""
    for first in run["findings"][:1]:
        for access, verb in zip(first["accesses"], re.findall(r"^ +(read|write) ", first["text"], re.MULTILINE)):
            if first["title"].startswith("RACE") and verb == "read":
                return access[:2]
    return None


def wrong_values(kinds, sound, broken):
    """The first array with a stored value that is not the one that the sound run stored there at its turn,
    and the first such output of the pass. The named value is the race's reader's, or else the first. An
    array of other extents is left out."""
    name = lambda launch, array: (launch["kernel"], array["name"], *array["extents"])
    right, stores, wrong = {}, collections.Counter(), {}
    for (launch, *_), (array, element), value in stored(kinds, sound):
        right.setdefault((name(launch, array), element), []).append(value)
    for where, (array, element), value in stored(kinds, broken):
        turns = right.get((name(where[0], array), element))
        if not turns:
            continue
        stores[name(where[0], array)] += 1
        if (wanted := turns.pop(0)) != value:
            wrong.setdefault(name(where[0], array), []).append((where, array, element, value, wanted))
    outputs = sorted((of for of in wrong if of[1] in OUTPUTS), key=lambda of: OUTPUTS.index(of[1]))
    findings = []
    for of in dict.fromkeys([*wrong][:1] + outputs[:1]):
        read_by = reader(broken)
        where, array, element, value, wanted = next(
            (one for one in wrong[of] if [one[0][2], one[0][4]] == read_by), wrong[of][0])
        text = f"  {element_name(array, element)} = {value}, and {wanted} without the fault\n" \
               f"  {len(wrong[of]):,} of {stores[of]:,} values stored in {array['name']} are wrong\n"
        findings.append(finding(broken, where, array, "WRONG VALUE", text, len(wrong[of])) |
                        {"element": element, "name": element_name(array, element), "is": value, "was": wanted})
    return findings


def conflicts_of(run):
    """By kernel and line, the bank conflicts, and where the first are."""
    lines = {}
    for (launch, *place), event in events(run):
        if len(event) > CONFLICTS and event[CONFLICTS] and event[ARRAY] >= 0:
            of = lines.setdefault((launch["kernel"], *launch["places"][event[PLACE]][:2]), [0, None, None])
            of[0] += event[CONFLICTS]
            of[1] = of[1] or (launch, *place, next(lanes(event))[0], event)
            of[2] = launch["arrays"][event[ARRAY]]
    return lines


def more_conflicts(sound, broken):
    """The line of the broken run with the most bank conflicts, if the sound one has fewer."""
    before = {line: count for line, (count, *_) in conflicts_of(sound).items()}
    more = {line: of for line, of in conflicts_of(broken).items() if of[0] > before.get(line, 0)}
    if not more:
        return []
    line, (count, where, array) = max(more.items(), key=lambda item: item[1][0])
    text = f"  {count} wavefronts more than the fewest at this line, and {before.get(line, 0)} without the fault\n"
    return [finding(broken, where, array, "BANK CONFLICTS", text, len(more))]


# ---- The runs --------------------------------------------------------------------------------------

class Build(mutations.Build):
    """build/simt, and its ladder."""

    def __init__(self):
        super().__init__(["ladder"])
        self.ladder = self.folder / "bin/ladder"

    def stage_with(self, mutation, folder):
        for name in getattr(mutation, "files", ()):  # The first file has the text of all.
            (folder / name).write_text(f'#include "{pathlib.Path(mutation.file).name}"\n')
        return super().stage_with(mutation, folder)

    def stages(self):
        """The names of all stages."""
        with tempfile.TemporaryDirectory(prefix="cuflash_broken_") as folder:
            rows = written(self.ladder, pathlib.Path(folder), "--list")
        return list(dict.fromkeys(row["stage"] for row in rows))


@dataclasses.dataclass
class Answer(mutations.Mutation):
    """A reader's answer in the place of some of the stage's files."""
    text: str = ""
    files: tuple = ()

    def applied_to(self, text):
        return self.text


def answer_of(path, stage):
    """The answer in this file, beside the exercise's page."""
    exercise = Exercise(path.with_suffix(".md"))
    direction = "backward" if exercise.backward else "forward"
    first, *others = (f"stages/{stage}/{name}" for name in exercise.files)
    name = f"Your answer to {path.stem.removesuffix('_bwd')}"
    return Answer(name, first, line="", tests=f"{stage}.{direction}_", caught_by="", player=name,
                  text=with_answers(path.read_text(**ANY_BYTES)), files=others)


def broken_run(build, mutation, kinds, sound, options):
    """The run with the fault, of the sound run's pass and problem."""
    stage = sound["stage"]
    mutation = dataclasses.replace(mutation, program="ladder",
                                   tests=f"{stage}.{sound['pass']}_{sound['problem']}")
    with tempfile.TemporaryDirectory(prefix="cuflash_broken_") as folder:
        folder = pathlib.Path(folder).resolve()
        ladder = build.program_with(mutation, folder)
        run, = written(ladder, folder, "--play", stage, "--pass", sound["pass"],
                       "--shape", sound["problem"], *options)["runs"]
        for file in run["files"]:
            path = (ROOT / file["path"]).resolve()
            if folder in path.parents:
                file["path"] = str(path.relative_to(folder))
    run["fault"] = {"name": mutation.player, "path": mutation.file}
    run["tour"] = mutation.tour
    if mutation.line:
        lines = (ROOT / mutation.file).read_text(**ANY_BYTES).split("\n")
        line = next(n for n, text in enumerate(lines, 1) if text.strip() == mutation.line)
        run["fault"].update(line=line, was=mutation.line)
    drop_harmless_orders(sound, run)
    run["findings"] += wrong_values(kinds, sound, run) + more_conflicts(sound, run)
    return run


def with_broken(build, stage, options=(), options_of_each=(), answer=None):
    """What the ladder writes of the stage, and its broken runs: with known faults, or with an answer."""
    with tempfile.TemporaryDirectory(prefix="cuflash_broken_") as folder:
        whole = written(build.ladder, pathlib.Path(folder), "--play", stage, *options, *options_of_each)
    listed = [answer] if answer else mutations.read_list()
    faults = [(mutation, run) for mutation in listed for run in whole["runs"]
              if mutation.player and mutation.stage() == f"stages/{stage}" and
              f".{run['pass']}_" in mutation.tests]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        whole["runs"] += pool.map(
            lambda fault: broken_run(build, fault[0], whole["kinds"], fault[1], options_of_each), faults)
    return whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--play", required=True)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--answer", type=pathlib.Path)
    parser.add_argument("--schedule")
    parser.add_argument("--block")
    asked, options = parser.parse_known_args()
    file = asked.json or ROOT / f"build/play/{asked.play}.json"
    of_each = [word for name in ("schedule", "block") if getattr(asked, name)
               for word in (f"--{name}", getattr(asked, name))]
    try:
        answer = answer_of(asked.answer, asked.play) if asked.answer else None
        whole = with_broken(Build(), asked.play, options, of_each, answer)
    except BuildError as error:
        sys.exit(f"cuflash: {error}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
