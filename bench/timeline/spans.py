#!/usr/bin/env python3
"""Converts the events of a timeline into spans: the parts of each warpgroup's time.

    bench/timeline/spans.py EVENTS.json OUT.json [LADDER.json...]

EVENTS.json is a file of bench/timeline/timeline.cpp from these sources. The names of the spans are found in
the kernel's lines that recorded events and the comments before them.
OUT.json has the data of tables and figures: the averages over all tiles, the spans of a few tiles, and the
time of the same call in the ordinary build, from files of `ladder --json`.
"""

import json
import pathlib
import re
import sys
from bisect import bisect_right
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from provenance import save  # noqa: E402, it lies there

# The parts of a warpgroup's time, in the order of a table's columns.
PRODUCTS = ("S", "P V")
FOR_A_BUFFER, FOR_A_TURN = "wait for a buffer", "wait for a turn"
PARTS = ("S", "softmax", "P V", "wait for K", "wait for V", FOR_A_BUFFER, FOR_A_TURN)
TILES = 3  # that a figure shows


@dataclass(frozen=True)
class Event:
    """An event of a warp in the log."""

    line: int
    kind: str
    begin: int
    end: int
    data: int


@dataclass(frozen=True)
class Span:
    """Part of a warpgroup's time. Times are cycles."""

    name: str
    begin: int
    end: int


def events_of(warpgroup):
    """The events of a warpgroup of the JSON."""
    for text in warpgroup["events"]:
        line, kind, begin, end, data = text.split()
        yield Event(int(line), kind, int(begin), int(end), int(data))


def wait_name(code):
    """The name of a wait for an mbarrier: 'wait for K'."""
    full = re.search(r"\b(\w)_full", code)
    return f"wait for {full[1].upper()}" if full else FOR_A_BUFFER


def product_name(title):
    """'S' or 'P V', from the comment before a product."""
    if re.search(r"\bS = ", title):
        return "S"
    if "P V" in title:
        return "P V"
    raise ValueError(f"no known product: {title}")


def spans_of(events, lines):
    """The spans of a warpgroup in the order of their ends. A product's span goes from its issue to the
    end of the wait for it. After the product S, and requests that follow it, the softmax continues
    until the warpgroup waits for something else or issues products."""
    spans, issued, groups, softmax = [], None, [], None
    for event in events:
        where = lines[str(event.line)]
        for_data = event.kind == "wait" and wait_name(where["code"]) != FOR_A_BUFFER
        if softmax is not None and (
            for_data or event.kind in ("fence", "products", "named_barrier", "last_tile")
        ):
            spans.append(Span("softmax", softmax, event.begin))
            softmax = None
        elif softmax is not None and event.kind in ("wait", "request"):
            softmax = event.end
        if event.kind == "wait":
            spans.append(Span(wait_name(where["code"]), event.begin, event.end))
        elif event.kind == "request":
            letter = re.search(r"\bs([KVQ])\b", where["code"])[1]
            spans.append(Span(f"request {letter}", event.begin, event.end))
        elif event.kind == "named_barrier":
            name = FOR_A_TURN if re.search(r"\bturns?\b", where["title"]) else "barrier"
            spans.append(Span(name, event.begin, event.end))
        elif event.kind == "fence":
            issued = (product_name(where["title"]), event.end)
        elif event.kind == "commit" and issued:  # or the events begin behind its fence
            groups.append(issued)
        elif event.kind == "products":
            while len(groups) > event.data:
                name, begin = groups.pop(0)
                spans.append(Span(name, begin, event.end))
                softmax = event.end if name == "S" else softmax
    return spans


def tiles_of(events):
    """When a warpgroup began its tiles."""
    return [event.begin for event in events if event.kind == "tile"]


def clipped(spans, begin, end):
    """The parts of spans that lie within a time."""
    for span in spans:
        inside = Span(span.name, max(span.begin, begin), min(span.end, end))
        if inside.end > inside.begin:
            yield inside


def covered(spans):
    """The time in which there is at least one of the spans."""
    total, until = 0, -(10**18)
    for span in sorted(spans, key=lambda span: span.begin):
        total += max(0, span.end - max(span.begin, until))
        until = max(until, span.end)
    return total


@dataclass(frozen=True)
class Lane:
    """A warpgroup of a timeline."""

    block: int  # the first on the SM is 0
    name: str
    events: list
    spans: list

    @property
    def computes(self):
        """True unless it is a producer."""
        return len(tiles_of(self.events)) > 1


def lanes_of(timeline, lines, of_producer=None):
    """The warpgroups of the blocks of a timeline. If some only request, these are producers, whose lines may
    stand in a file of their own."""
    lanes = []
    for number, block in enumerate(timeline["blocks"]):
        found = []
        for warpgroup in block["warpgroups"]:
            events = list(events_of(warpgroup))
            computes = len(tiles_of(events)) > 1
            found.append(Lane(number, "", events, spans_of(events, lines if computes else of_producer or lines)))
        role = "warpgroup" if all(lane.computes for lane in found) else "consumer"
        names = iter(f"{role} {n}" for n in range(len(found)))
        lanes += [
            Lane(number, next(names) if lane.computes else "producer", lane.events, lane.spans)
            for lane in found
        ]
    return lanes


def inner(lane):
    """The time from a warpgroup's second tile to its last, and the number of tiles in it."""
    begins = tiles_of(lane.events)
    return begins[1], begins[-1], len(begins) - 2


def parts_of(lane):
    """Cycles per tile of a computing warpgroup: in total, by PARTS, and outside all parts. Overlapping
    parts, such as a softmax and a product, both count."""
    begin, end, tiles = inner(lane)
    inside = [span for span in clipped(lane.spans, begin, end) if span.name in PARTS]
    parts = {
        name: sum(span.end - span.begin for span in inside if span.name == name) / tiles
        for name in PARTS
    }
    cycles = (end - begin) / tiles
    return cycles, parts, cycles - covered(inside) / tiles


def inner_of_all(lanes):
    """The time in which all computing warpgroups are between their second tiles and their last."""
    times = [inner(lane) for lane in lanes if lane.computes]
    return max(begin for begin, _, _ in times), min(end for _, end, _ in times)


def products_in_flight(lanes):
    """The share of the time in which at least one product of the warpgroups is in flight."""
    begin, end = inner_of_all(lanes)
    spans = [span for lane in lanes for span in lane.spans if span.name in PRODUCTS]
    return covered(clipped(spans, begin, end)) / (end - begin)


def softmaxes_at_once(lanes):
    """The shares of the time in which none, one, two, ... of the warpgroups compute a softmax."""
    begin, end = inner_of_all(lanes)
    counts = [0.0] * (1 + sum(lane.computes for lane in lanes))
    changes = [
        change
        for lane in lanes
        for span in clipped(lane.spans, begin, end)
        if span.name == "softmax"
        for change in ((span.begin, 1), (span.end, -1))
    ]
    count, since = 0, begin
    for at, step in [*sorted(changes), (end, 0)]:
        counts[count] += (at - since) / (end - begin)
        count, since = count + step, at
    return counts


def shown(lanes):
    """The begin and the length of the middle tiles, which a figure shows."""
    begins = tiles_of(next(lane for lane in lanes if lane.computes).events)
    first = bisect_right(begins, sum(inner_of_all(lanes)) / 2) - 1 - TILES // 2
    return begins[first], begins[first + TILES] - begins[first]


def summary(timeline, lines, of_producer=None):
    """The summary of a timeline: for each warpgroup the averages, if it computes, and the spans from the
    first shown tile on, for twice the shown length, because a figure with a slower stage shows more."""
    lanes = lanes_of(timeline, lines, of_producer)
    begin, length = shown(lanes)
    kept = []
    for lane in lanes:
        kept.append({"block": lane.block, "name": lane.name})
        if lane.computes:
            cycles, parts, other = parts_of(lane)
            kept[-1] |= {"cycles": cycles, "parts": parts, "other": other}
        kept[-1]["spans"] = [(span.name, span.begin - begin, span.end - begin)
                             for span in clipped(lane.spans, begin, begin + 2 * length)]
    return {**{name: value for name, value in timeline.items() if name != "blocks"}, "shown_cycles": length,
            "products_in_flight": products_in_flight(lanes), "softmaxes_at_once": softmaxes_at_once(lanes),
            "lanes": kept}


def chosen(result, head_dim):
    """The timeline with this head_dim."""
    found = [one for one in result["timelines"] if f"_d{head_dim}_" in one["problem"] + "_"]
    if len(found) != 1:
        raise ValueError(f"not one timeline has head_dim {head_dim}")
    return found[0]


def lines_of(kernel):
    """The code of each line of a kernel's text and the comment before it, by line number."""
    lines, title = {}, ""
    for number, line in enumerate(map(str.strip, kernel.splitlines()), 1):
        title = line if line.startswith("//") else title
        lines[str(number)] = {"code": line, "title": title}
    return lines


def main():
    """Writes the summary of a file of events."""
    events, out, *ladders = map(pathlib.Path, sys.argv[1:])
    result = json.loads(events.read_text(encoding="utf-8"))
    folder = ROOT / "stages" / result["stage"]
    kernel = next(path for name in ("kernel.cuh", "kernel_bwd.cuh") if (path := folder / name).exists())
    lines, of_producer = (path.exists() and lines_of(path.read_text(encoding="utf-8"))
                          for path in (kernel, folder / "producer.cuh"))
    plain = {row["problem"]: {"plain_ms": row["ms"]} for ladder in ladders
             for row in json.loads(ladder.read_text(encoding="utf-8"))["rows"] if "ms" in row}
    result["timelines"] = [summary(timeline, lines, of_producer) | plain.get(timeline["problem"], {})
                           for timeline in result["timelines"]]
    save(out, result)


if __name__ == "__main__":
    main()
