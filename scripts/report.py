#!/usr/bin/env python3
"""Makes the page *How fast is attention on a GPU?* from the committed results: build/report.html.

    scripts/report.py [--yours FILE...]

The page needs no network and no other file. With --yours it also shows this machine's results, which
scripts/run.sh --report measures, and writes them into one file, build/report.json. A file that is not what the
ladder or bench/peers/peers.py writes is refused. For Sphinx this is an extension, which puts the page into the
book's page docs/how_fast.md.
"""
import argparse
import html
import itertools
import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("scripts/maintainer", "bench/peers", "bench")]
import figures_in_text as committed  # noqa: E402, it lies there
import record  # noqa: E402
import sizes  # noqa: E402
import tables  # noqa: E402
from provenance import json_text, rounded  # noqa: E402
from tables import three_digits  # noqa: E402
from update_pages import decimal_bytes, decimal_count, origin, percent  # noqa: E402

RESULTS = ROOT / "docs/results"
PAGE, TEMPLATE = ROOT / "build/report.html", ROOT / "scripts/report.html"
TITLE = "How fast is attention on a GPU?"
H200, SECTORS = "nvidia-h200", "nvidia-h100/sectors"
SIMULATOR, STAGES = "cpu-simulator/ladder", "cpu-simulator/stages"
PROBLEM = "b4_h32_q4096k4096_d64_f16"  # that the ladder times, and that Nsight Compute observes
RECORDED, TWO_HEADS = "b1_h1_q128k256_d64_f16", "b1_h2_q128k256_d64_f16"
LEAST_MS = 0.4  # at the left end of the ladder's bars
SHAPE = re.compile(r"b(\d+)_h(\d+)_q(\d+)k(\d+)_d(\d+)_(f16|bf16|f32)(_causal)?")
PEERS = {"fa2": "FlashAttention-2", "fa3": "FlashAttention-3", "fa4": "FlashAttention-4", "cudnn": "cuDNN",
         "efficient": "memory-efficient", "math": "plain operations"}
FORWARD_KERNELS = ("attention", "scores", "output")  # the others are of backward passes


class ReportError(Exception):
    """A file cannot be shown; the reason."""


# ---- Files ----------------------------------------------------------------------------------------

def is_number(value, least=0):
    """True for a finite number above `least`."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least < value < float("inf")


def fault_of(result):
    """A sentence that says why this is not the result of the ladder or of bench/peers/peers.py; None if it is."""
    where, rows = (result.get(key) for key in ("provenance", "rows")) if isinstance(result, dict) else (None, None)
    for key in ("device", "driver", "backend", "compiler", "commit", "command", "date"):
        if not isinstance(where, dict) or not isinstance(where.get(key), str):
            return f'its provenance has no "{key}"'
    if not isinstance(rows, list) or not rows:
        return 'it has no "rows"'
    ceilings = result.get("ceilings", {})
    if not isinstance(ceilings, dict) or not all(map(is_number, ceilings.values())):
        return 'its "ceilings" are not all numbers above 0'
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or row.get("pass") not in sizes.KERNELS:
            return f'row {number} has no "pass" that is forward or backward'
        if "ceilings" in result:
            kinds = {"dtype": str, "head_dim": int, "causal": bool, "seq": int, "tflops": dict}
            wrong = [key for key, kind in kinds.items() if not isinstance(row.get(key), kind)]
            if wrong:
                return f'row {number} has no "{wrong[0]}"'
            for name, pair in row["tflops"].items():
                if not (isinstance(pair, list) and len(pair) == 2 and is_number(pair[0]) and is_number(pair[1], -1)):
                    return f"row {number} has no [TFLOP/s, spread] of {name}"
        elif not isinstance(row.get("stage"), str) or not isinstance(row.get("problem"), str):
            return f'row {number} has no "stage" and "problem"'
        elif "tflops" in row or "ms" in row:
            for key in ("ms", "tflops", *(["ceiling_tflops"] if "ceiling" in row else [])):
                if not is_number(row.get(key)):
                    return f'row {number} has no "{key}" above 0'
            if SHAPE.fullmatch(row["problem"]) and abs(flops(row) / row["ms"] * 1e-9 / row["tflops"] - 1) > 0.01:
                return f'row {number}: "ms" and "tflops" contradict each other'
    return None


def flops(row):
    """The operations that count: 4·B·H·S²·D, halved when causal; backward 2.5 times that."""
    *extents, _, causal = SHAPE.fullmatch(row["problem"]).groups()
    batch, heads, queries, keys, head_dim = map(int, extents)
    count = 4 * batch * heads * queries * keys * head_dim * (0.5 if causal else 1)
    return count if row["pass"] == "forward" else 2.5 * count


def load(path):
    """A result file; a ReportError if it is another kind of file."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ReportError(f"{path} cannot be shown: it is not JSON.") from None
    if fault := fault_of(result):
        raise ReportError(f"{path} cannot be shown: {fault}.")
    return result


# ---- The curves -----------------------------------------------------------------------------------

def cells_of(result):
    """Of each timed row: implementation, pass, dtype, head_dim, causal, length, TFLOP/s and spread."""
    if "ceilings" in result:
        for row in tables.rows_of(result):
            yield [row["impl"], *(row[key] for key in ("pass", "dtype", "head_dim", "causal", "seq")),
                   row["tflops"], row["spread"]]
        return
    for row in result["rows"]:
        if "tflops" in row and (shape := SHAPE.fullmatch(row["problem"])):
            *_, keys, head_dim, dtype, causal = shape.groups()
            yield [row["stage"], row["pass"], dtype, int(head_dim), bool(causal), int(keys), row["tflops"], 0]


def ceilings_of(results, measured):
    """The fastest matrix products of each dtype that were measured on a GPU, in TFLOP/s."""
    rates = [(row["figure"], row["rate"]) for row in measured if row.get("unit") == "TFLOP/s" and "whole" not in row]
    rates += [(row["ceiling"], row["ceiling_tflops"]) for result in results for row in result["rows"] if "ceiling" in row]
    rates += [(name, rate) for result in results for name, rate in result.get("ceilings", {}).items()]
    found = {}
    for name, rate in rates:
        dtype = "f32" if name == "ffma" else name.removesuffix("_tflops").rsplit("_", 1)[-1]
        found[dtype] = max(rate, found.get(dtype, 0))
    return found


def runs_of(results, measured=(), yours=""):
    """The curves of each file {name: result} of one GPU; where peers were measured, those of their runs alone."""
    results = {name: result for name, result in results.items() if result["provenance"]["backend"] == "cuda"}
    of_peers = {name: result for name, result in results.items() if "ceilings" in result}
    ceilings = ceilings_of(results.values(), measured)
    for name, result in (of_peers or results).items():
        yield {"gpu": result["provenance"]["device"] + yours, "origin": ", ".join([*origin(result["provenance"]), name]),
               "ceilings": ceilings, "cells": list(cells_of(result))}


def committed_runs():
    """The runs of all GPUs in docs/results, the H200's first."""
    for folder in sorted((path for path in RESULTS.iterdir() if path.is_dir()), key=lambda path: path.name != H200):
        measured = folder / "ceilings.json"
        rows = json.loads(measured.read_text(encoding="utf-8"))["rows"] if measured.exists() else []
        paths = sorted(folder.glob("peers*.json")) + sorted(folder.glob("ladder*.json"))
        yield from runs_of({str(path.relative_to(ROOT)): load(path) for path in paths}, rows)


def merged(paths):
    """The results of several runs of the ladder, of the same sources on one machine, as one."""
    results = [load(path) for path in paths]
    rows = {(row["stage"], row["pass"], row["problem"]): row
            for result in results for row in result["rows"] if "skipped" not in row}
    return {"provenance": {**results[0]["provenance"], "command": "scripts/run.sh --report"}, "rows": list(rows.values())}


# ---- The other figures: what the page's script draws, and the rows of their tables -----------------

def timed(result):
    """{(stage, pass): its row} of the problem that the ladder times."""
    return {(row["stage"], row["pass"]): row for row in result["rows"] if row["problem"] == PROBLEM and "ms" in row}


def stages():
    """{stage: (what it teaches, in a few words, {pass: the stage that it follows})}."""
    paths = sorted((ROOT / "stages").glob("[0-8]*/stage.cu"))
    sources = {path.parent.name: path.read_text(encoding="utf-8") for path in paths}
    return {stage: (re.search(r'stage\.teaches = "([^:;,"]+)', source)[1], dict(sizes.FOLLOWS.findall(source)))
            for stage, source in sources.items()}


def said_of(*names):
    """Where files of docs/results come from."""
    origins = {name: origin(committed.load(name)["provenance"]) for name in names}
    return ", ".join(origins[names[0]][:-2]) + ": " + "; ".join(
        f"docs/results/{name}.json, {commit}, {date}" for name, (*_, commit, date) in origins.items()) + "."


def spoken(stage):
    """A stage's name with spaces."""
    return stage.replace("_", " ")


def in_a_row(*parts):
    """Parts of a bar, one behind the other, of (length, colour, what it says)."""
    ends = list(itertools.accumulate(length for length, _, _ in parts))
    return [[end - length, end, colour, said] for end, (length, colour, said) in zip(ends, parts)]


def bars(label, rows, low, high, ticks, **more):
    """A chart for each pass of rows (pass, stage, name, what stands at the end, lanes of parts [from, to, colour, said])."""
    return [{"title": which.capitalize(), "label": f"{label}, {which}", "low": low, "high": high, "ticks": ticks, **more,
             "rows": [row[1:] for row in rows if row[0] == which]} for which in sizes.KERNELS
            if any(row[0] == which for row in rows)]


def ladder(yours):
    """Milliseconds of each rung."""
    ours, mine, about = timed(committed.load(committed.LADDER)), timed(yours) if yours else {}, stages()
    ceiling, rows, numbers = ceilings_of([yours], ()).get("f16") if yours else None, [], []
    for (stage, which), row in ours.items():
        own, before = mine.get((stage, which)), ours.get((about[stage][1].get(which), which))
        lanes = [[[LEAST_MS, row["ms"], stage, f"{spoken(stage)}: {three_digits(row['ms'])} ms"]]]
        lanes += [[[LEAST_MS, own["ms"], "fa3", f"yours: {three_digits(own['ms'])} ms"]]] if own else [[]] * bool(mine)
        rows.append((which, stage, f"{stage[:2]} {about[stage][0]}", f"{three_digits(row['ms'])} ms"
                     + (f", yours {three_digits(own['ms'])}" if own else ""), lanes))
        cells = [three_digits(own["ms"]), three_digits(own["tflops"])] if own else [None, None]
        cells.append(percent(100 * own["tflops"] / ceiling) if own and ceiling else None)
        numbers.append([stage, which, three_digits(row["ms"]), three_digits(row["tflops"]),
                        f"{before['ms'] / row['ms']:.2f}" if before else None, *(cells if mine else [])])
    high = 1.3 * max(row["ms"] for row in [*ours.values(), *mine.values()])
    return {"charts": bars("Milliseconds", rows, LEAST_MS, high, [[v, f"{v} ms"] for v in (1, 10, 100, 1000)], names=400,
                           right=170 if mine else 90),
            "caption": said_of(committed.LADDER) + (" Below each bar: yours." if mine else ""),
            "head": ["stage", "pass", "ms", "TFLOP/s", "× the stage before",
                     *(["yours, ms", "yours, TFLOP/s", "share of your GPU's ceiling"] if mine else [])], "rows": numbers}


def kernels():
    """{(stage, pass): Nsight Compute's rows}."""
    found = {}
    for row in committed.load(f"{H200}/kernels")["rows"]:
        if row["problem"] == PROBLEM:
            found.setdefault((row["stage"], row["pass"]), []).append(row)
    return found


def roofline():
    """Speed by FLOPs per byte of DRAM, below what a copy and loops of products reach."""
    roof = {row["figure"]: row["rate"] for row in committed.load(f"{H200}/ceilings")["rows"] if "whole" not in row}
    speeds, copy, highest, low, high = timed(committed.load(committed.LADDER)), roof["copy"], roof["wgmma_f16"], 1, 10000
    lines = [("", 0, [[low, low * copy], [highest / copy, highest]])]
    for name, figure, shift in (("FFMA", "ffma", 4), ("mma.sync", "mma_f16", 10), ("wgmma", "wgmma_f16", -2)):
        rate = roof[figure]
        lines.append((f"{name} {three_digits(rate)}", shift, [[rate / copy, rate], [high, rate]]))
    series = {which: [{"name": name, "shift": shift, "colour": "math", "bare": True, "points": points}
                      for name, shift, points in lines] for which in sizes.KERNELS}
    numbers = []
    for (stage, which), rows in kernels().items():
        moved, speed = sum(row["dram_read_bytes"] + row["dram_write_bytes"] for row in rows), speeds[stage, which]["tflops"]
        intensity = flops(rows[0]) / moved
        said = f"{spoken(stage)}: {three_digits(intensity)} FLOPs per byte, {three_digits(speed)} TFLOP/s"
        series[which].append({"name": spoken(stage), "short": stage[:2], "colour": stage, "end": "",
                              "points": [[intensity, speed, 0, said]]})
        numbers.append([stage, which, three_digits(intensity), three_digits(speed), decimal_bytes(moved),
                        percent(100 * speed / min(intensity * copy, highest))])
    decades = [[10**n, f"{10**n:,}"] for n in range(5)]
    x = {"low": low, "high": high, "log": True, "ticks": decades, "title": "FLOPs per byte of DRAM"}
    y = {"low": 0.5, "high": 1200, "log": True, "ticks": decades[:4]}
    return {"charts": [{"title": which.capitalize(), "label": f"Roofline, {which}", "series": series[which], "height": 400,
                        "loose": True, "x": x, "y": y} for which in sizes.KERNELS],
            "caption": said_of(f"{H200}/kernels") + " " + said_of(f"{H200}/ceilings") + " 06's forward pass is 05's.",
            "head": ["stage", "pass", "FLOPs per byte", "TFLOP/s", "bytes of DRAM", "share of the roof"], "rows": numbers}


def tiles():
    """The cycles of a tile, from the timelines."""
    files = sorted(f"{H200}/{path.stem}" for path in (RESULTS / H200).glob("timeline_*.json"))
    rows, numbers, key = [], [], {"S": "blue", "P V": "cudnn", "softmax": "fa4", "waits": "fa3", "other": "math"}
    results = [committed.load(file) for file in files]
    for stage, timeline in ((result["stage"], timeline) for result in results for timeline in result["timelines"]):
        lanes = [{**lane["parts"], "other": lane["other"], "cycles": lane["cycles"]}
                 for lane in timeline["lanes"] if "parts" in lane]
        mean = {name: statistics.mean(lane[name] for lane in lanes) for name in lanes[0]}
        cycles, head_dim = mean.pop("cycles"), re.search(r"_d(\d+)", timeline["problem"])[1]
        products, rest = [[0, cycles, "line", f"{cycles:.0f} cycles"]], [[0, cycles, "line", f"{cycles:.0f} cycles"]]
        for lane, names in ((products, ("S", "P V")), (rest, mean.keys() - {"S", "P V"})):
            lane += in_a_row(*((length, key.get(name, "fa3"), f"{name}: {length:.0f} of {cycles:.0f} cycles")
                               for name, length in mean.items() if name in names))
        share = percent(100 * timeline["products_in_flight"])
        rows.append(("forward", stage, f"{spoken(stage)}, D {head_dim}", f"{share} in flight", [products, rest]))
        numbers.append([stage, head_dim, f"{cycles:.0f}", *(f"{length:.0f}" for length in mean.values()), share])
    ticks, most = [[v, f"{v:,}"] for v in range(0, 4000, 1000)], max(float(row[2]) for row in numbers)
    return {"charts": bars("Cycles of a tile", rows, 0, most, ticks, linear=True, lane=12, right=130),
            "key": key, "caption": said_of(*files),
            "head": ["stage", "D", "cycles", *mean, "product in flight on the SM"], "rows": numbers}


def stalls():
    """Stall reasons of the passes that have no timeline."""
    kinds = {"global memory": ("fa3", "long_scoreboard lg_throttle"),
             "shared memory": ("fa4", "short_scoreboard mio_throttle"),
             "earlier instructions, busy units": ("blue", "wait math_pipe_throttle dispatch_stall"),
             "barriers": ("fa2", "barrier"), "ready, not selected": ("cudnn", "not_selected"), "all others": ("math", "")}
    colours = {reason: colour for colour, reasons in kinds.values() for reason in reasons.split()}
    rows, numbers = [], []
    for (stage, which), of_stage in kernels().items():
        if which == "backward" or not (RESULTS / H200 / f"timeline_{stage}.json").exists():
            longest = max(of_stage, key=lambda row: row["ms"])
            waits = {**longest["waits"], "all others": 100 - sum(longest["waits"].values())}
            said = [f"{reason.replace('_', ' ')} {three_digits(share)} %" for reason, share in waits.items()]
            parts = [(share, colours.get(reason, "math"), words) for (reason, share), words in zip(waits.items(), said)]
            rows.append((which, stage, spoken(stage), said[0], [in_a_row(*parts)]))
            numbers.append([stage, which, longest["kernel"], *said])
    ticks = [[v, f"{v} %"] for v in range(0, 101, 25)]
    return {"charts": bars("Stall reasons in per cent", rows, 0, 100, ticks, linear=True, right=190),
            "key": {name: colour for name, (colour, _) in kinds.items()}, "caption": said_of(f"{H200}/kernels"),
            "head": ["stage", "pass", "kernel", "first", "second", "third", "all others"], "rows": numbers}


def memory():
    """Extra memory by length; stages that need the same share a line."""
    alike, numbers = {which: {} for which in sizes.KERNELS}, []
    for row in committed.load(STAGES):
        said = tuple(map(decimal_bytes, row["extra_bytes"].values()))
        alike[row["pass"]].setdefault(said, (list(row["extra_bytes"].values()), []))[1].append(row["stage"])
        numbers.append([row["stage"], row["pass"], *said])
    seqs, charts = list(map(int, row["extra_bytes"])), []
    ticks = [[seq, f"{seq:,}"] for seq in seqs[1::2]]
    x = {"low": 0.9 * seqs[0], "high": seqs[-1], "log": True, "title": "sequence length, in tokens", "ticks": ticks}
    y = {"low": 1e6, "high": 1e11, "log": True, "ticks": [[v, decimal_bytes(v)] for v in (1e6, 1e8, 1e10)]}
    for which, lines in alike.items():
        series = []
        for said, (counts, names) in lines.items():
            name = f"{names[0][:2]} to {names[-1][:2]}" if len(names) > 3 else ", ".join(name[:2] for name in names)
            series.append({"name": name, "short": name, "colour": names[-1], "end": said[-1], "points": [
                [seq, count, 0, f"{name}, {seq} tokens: {words}"] for seq, count, words in zip(seqs, counts, said)]})
        charts.append({"title": which.capitalize(), "label": f"Extra memory by sequence length, {which}", "height": 300,
                       "series": series, "x": x, "y": y})
    return {"charts": charts, "caption": f"16,384 tokens, 32 heads, head_dim 64, f16. docs/results/{STAGES}.json.",
            "head": ["stage", "pass", *(f"{seq:,}" for seq in seqs)], "rows": numbers}


def steps():
    """What changes from a stage to the next."""
    _, counts = record.read(record.FOLDER / "counts.txt")
    _, code = record.read(max(record.FOLDER.glob("nvcc_*.txt")))
    errors = {(row["stage"], row["pass"]): row["error"] / row["limit"]
              for row in committed.load(committed.LADDER)["rows"] if "error" in row}
    speeds, numbers = timed(committed.load(committed.LADDER)), []
    for stage, which, _, _, before, new, _ in sizes.stages():
        if (stage, which) in speeds:
            speed, other = speeds[stage, which]["tflops"], speeds.get((before, which))
            registers = [row["registers"] for (of, _, kernel), row in code.items() if of == stage and "<__half,64" in kernel
                         and kernel.startswith(FORWARD_KERNELS) == (which == "forward")]
            numbers.append([stage, which, before[:2] or None, None if new == "" else str(new), str(max(registers)),
                            decimal_bytes(counts[stage, which, RECORDED]["shared_bytes"]), three_digits(speed),
                            f"{speed / other['tflops']:.2f}" if other else None, f"{errors[stage, which]:.2f}"])
    return {"charts": [], "caption": f"Speed: {said_of(committed.LADDER)} Registers and shared memory: tests/record.",
            "head": ["stage", "pass", "follows", "new lines", "registers", "shared memory", "TFLOP/s", "× before",
                     "error / limit"], "rows": numbers}


def chip():
    """The CPU simulator's counts beside the chip's."""
    _, counts = record.read(record.FOLDER / "counts.txt")
    rows, numbers = [], []
    for row in committed.load(SECTORS)["rows"]:
        if row["problem"] != TWO_HEADS:
            continue
        stage, which, measured = row["stage"], row["pass"], row["shared_wavefronts"]
        one = counts[stage, which, RECORDED]
        counted = 2 * one["shared_wavefronts"]
        numbers.append([stage, which, *map(decimal_count, (2 * (one["read_sectors"] + one["write_sectors"]),
                        row["global_read_sectors"] + row["global_write_sectors"], counted, measured))])
        if counted:
            lanes = [[1000, counted, "blue", f"counted: {counted}"]], [[1000, measured, "fa3", f"measured: {measured}"]]
            rows.append((which, stage, spoken(stage), f"× {measured / counted:.2f}", lanes))
    return {"charts": bars("Wavefronts", rows, 1000, 2e6, [[v, decimal_count(v)] for v in (1e3, 1e4, 1e5, 1e6)]),
            "key": {"counted": "blue", "measured": "fa3"},
            "caption": said_of(SECTORS) + " Counted: tests/record, one head, doubled.",
            "head": ["stage", "pass", "sectors, counted", "measured", "wavefronts, counted", "measured"], "rows": numbers}


def counted_here(yours):
    """What the CPU simulator counted here; in brackets the committed count, where it differs."""
    ours = {(row["stage"], row["pass"], row["problem"]): row for row in committed.load(SIMULATOR)["rows"]}
    names = ("requested_read_bytes", "requested_write_bytes", "bank_conflicts", "products", "multiply_adds", "barriers")

    def cell(mine, other):
        if mine == other:
            return f"{mine:,}"
        return {"said": f"{mine:,} ({other:,})", "mark": "worse" if mine > other else "better"}
    rows = []
    for row in yours["rows"]:
        other = ours.get((row["stage"], row["pass"], row["problem"]), row)
        if "requested_read_bytes" in row:
            rows.append([row["stage"], row["pass"], *(cell(row[name], other[name]) for name in names)])
    return {"charts": [], "caption": "In brackets: the committed count, where it differs.", "rows": rows,
            "head": ["stage", "pass", *map(spoken, names)]}


# ---- The page -------------------------------------------------------------------------------------

def answer(chapters):
    """The page's first sentence."""
    rows, said = committed.load(f"{H200}/peers"), []
    for which in sizes.KERNELS:
        speeds = {}
        for row in tables.with_head_dim(tables.rows_of(rows), tables.HEAD_DIMS):
            if row["pass"] == which and row["impl"] not in tables.PEERS:
                speeds[row["impl"]] = max(row["tflops"], speeds.get(row["impl"], 0))
        best = max(speeds, key=lambda stage: committed.ratio(stage, which=which))
        said.append(f"<b>{speeds[best]:.0f}&nbsp;TFLOP/s</b> {which} "
                    f'(<a href="{chapters.format(best)}">{spoken(best)}</a>: '
                    f"<b>{committed.ratio(best, which=which):.2f}&nbsp;×</b> ")
    return (f"On an {rows['provenance']['device']}, attention in f16 runs at up to {said[0]}the speed of the fastest of "
            f"FlashAttention-2, 3 and 4 and cuDNN, in the mean over 24 sizes) and {said[1]}that speed); plain loops, "
            f"the first rung of our ladder, run at {committed.tflops('01_naive'):.2f}&nbsp;TFLOP/s.")


def answer_of(yours):
    """A sentence about this machine's results; empty if it has no GPU."""
    ceiling, said = ceilings_of([yours], ()).get("f16"), []
    for which in sizes.KERNELS:
        speed = max((cell[6] for cell in cells_of(yours) if cell[1] == which), default=None)
        share = f" ({percent(100 * speed / ceiling)} of its fastest products)" if speed and ceiling else ""
        said += [f"<b>{three_digits(speed)}&nbsp;TFLOP/s</b> {which}{share}"] if speed else []
    return f" Your {html.escape(yours['provenance']['device'])} reaches {' and '.join(said)}." if said else ""


def fragment(chapters, yours=None):
    """The page below its title, as HTML; `chapters` is the address of a chapter, with {} for its stage."""
    figures = {"ladder": ladder(yours), "roofline": roofline(), "tiles": tiles(), "stalls": stalls(), "memory": memory(),
               "steps": steps(), "chip": chip()}
    runs, sentence = list(committed_runs()), answer(chapters)
    if yours:
        runs = [*runs_of({"build/report.json": yours}, yours=" (yours)"), *runs]
        sentence += answer_of(yours)
        figures |= {"counts": counted_here(yours)} if yours["provenance"]["backend"] == "simt" else {}
    found = json.dumps({"chapters": chapters, "stages": list(stages()), "peers": PEERS, "runs": runs, "figures": figures,
                        "history": committed.load("history")}, ensure_ascii=False, separators=(",", ":"))
    return TEMPLATE.read_text(encoding="utf-8").replace("<!-- answer -->", sentence).replace(
        "/* data */ null", found.replace("<", "\\u003c"))


def page(yours=None):
    """The whole page, which needs no other file."""
    return ('<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, '
            f'initial-scale=1">\n<title>{TITLE}</title>\n<main>\n<h1>{TITLE}</h1>\n'
            f"{fragment('../stages/{}/README.md', yours)}</main>\n</html>\n")


def in_the_book(_app, docname, source):
    """Puts the page in place of the words for code hosts."""
    if docname == "docs/how_fast":
        body = fragment("../stages/{}/index.html")
        source[0] = "---\nhide-toc: true\n---\n" + re.sub(
            "<!-- report -->.*<!-- end report -->", lambda _: f"```{{raw}} html\n{body}```", source[0], flags=re.DOTALL)


def setup(app):
    """Connects this with Sphinx."""
    app.connect("source-read", in_the_book)
    return {"parallel_read_safe": False}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yours", type=pathlib.Path, nargs="+", metavar="FILE")
    options = parser.parse_args()
    try:
        yours = merged(options.yours) if options.yours else None
        made = page(yours)
    except ReportError as error:
        sys.exit(f"cuflash: {error}")
    PAGE.parent.mkdir(exist_ok=True)
    if yours:
        PAGE.with_suffix(".json").write_text(json_text(rounded(yours)) + "\n", encoding="utf-8")
    PAGE.write_text(made, encoding="utf-8")
    print(f"Wrote {PAGE}. Open it in a browser.")


if __name__ == "__main__":
    main()
