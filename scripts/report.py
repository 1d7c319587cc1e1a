#!/usr/bin/env python3
"""Makes the page *How fast is attention on a GPU?* from the committed results: build/report.html.

    scripts/report.py [--yours FILE...]

The page needs no network and no other file. With --yours it also shows this machine's results, which
scripts/run.sh --report measures, and writes them into one file, build/report.json. A file that is not what the
ladder or bench/peers/peers.py writes is refused. The book shows the same page (docs/site/book.py).
"""
import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("scripts/maintainer", "bench/peers", "bench")]
import figures_in_text as text  # noqa: E402, it lies there
import record  # noqa: E402
import sizes  # noqa: E402
import tables  # noqa: E402
from provenance import json_text  # noqa: E402
from update_pages import origin  # noqa: E402

RESULTS = ROOT / "docs/results"
PAGE, TEMPLATE = ROOT / "build/report.html", ROOT / "scripts/report.html"
TITLE = "How fast is attention on a GPU?"
H200, SIMULATOR = "nvidia-h200", "cpu-simulator"
PROBLEM = "b4_h32_q4096k4096_d64_f16"  # that the ladder times, and that Nsight Compute observes
RECORDED, SECTORS = "b1_h1_q128k256_d64_f16", "b1_h2_q128k256_d64_f16"  # the same, with one head and with two
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
            if not is_number(row.get("tflops")) or not is_number(row.get("ms")):
                return f'row {number} has no "ms" and "tflops" above 0'
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


def of_gpu(name):
    """A file of the H200 that has no curves, such as kernels.json."""
    return text.load(f"{H200}/{name}")


# ---- The page's data ------------------------------------------------------------------------------

def cells_of(result):
    """Of each timed row: implementation, pass, dtype, head_dim, causal, length, TFLOP/s and spread."""
    if "ceilings" in result:
        for row in tables.rows_of(result):
            yield [row["impl"], *(row[key] for key in ("pass", "dtype", "head_dim", "causal", "seq")),
                   row["tflops"], row["spread"]]
        return
    for row in result["rows"]:
        if "tflops" in row and (shape := SHAPE.fullmatch(row["problem"])):
            _, _, _, keys, head_dim, dtype, causal = shape.groups()
            yield [row["stage"], row["pass"], dtype, int(head_dim), bool(causal), int(keys), row["tflops"], 0]


def ceilings_of(results, measured):
    """The fastest matrix products of each dtype that were measured on a GPU, in TFLOP/s."""
    found = {}
    rates = [(row["figure"], row["rate"]) for row in measured if row.get("unit") == "TFLOP/s" and "whole" not in row]
    rates += [(row["ceiling"], row["ceiling_tflops"]) for result in results for row in result["rows"] if "ceiling" in row]
    rates += [(name, rate) for result in results for name, rate in result.get("ceilings", {}).items()]
    for name, rate in rates:
        dtype = "f32" if name == "ffma" else name.removesuffix("_tflops").rsplit("_", 1)[-1]
        found[dtype] = max(rate, found.get(dtype, 0))
    return found


def merged(paths):
    """The results of several runs of the ladder, of the same sources on one machine, as one."""
    results = [load(path) for path in paths]
    rows = {(row["stage"], row["pass"], row["problem"]): row
            for result in results for row in result["rows"] if "skipped" not in row}
    return {"provenance": {**results[0]["provenance"], "command": "scripts/run.sh --report"}, "rows": list(rows.values())}


def runs_of(results, ceilings, yours=""):
    """A run of each file {name: result} of one GPU: its curves, where peers were measured of those files alone, and
    the ladder's rows."""
    results = {name: result for name, result in results.items() if result["provenance"]["backend"] == "cuda"}
    of_peers = any("ceilings" in result for result in results.values())
    ceilings = ceilings_of(results.values(), ceilings)
    for name, result in results.items():
        of_ladder = [[row[key] for key in ("stage", "pass", "ms", "tflops", "extra_bytes")] for row in result["rows"]
                     if row.get("problem") == PROBLEM and "ms" in row]
        yield {"gpu": result["provenance"]["device"] + yours, "ceilings": ceilings, "ladder": of_ladder,
               "origin": ", ".join(origin(result["provenance"]) + [name]),
               "cells": list(cells_of(result)) if "ceilings" in result or not of_peers else []}


def committed_runs():
    """The runs of all GPUs in docs/results, the H200's first."""
    for folder in sorted((path for path in RESULTS.iterdir() if path.is_dir()), key=lambda path: path.name != H200):
        measured = folder / "ceilings.json"
        ceilings = json.loads(measured.read_text(encoding="utf-8"))["rows"] if measured.exists() else []
        paths = sorted(folder.glob("peers*.json")) + sorted(folder.glob("ladder*.json"))
        yield from runs_of({str(path.relative_to(ROOT)): load(path) for path in paths}, ceilings)


def stages():
    """{stage: [what it teaches, in a few words, {pass: the stage that it follows}]}."""
    found = {}
    for path in sorted((ROOT / "stages").glob("[0-8]*/stage.cu")):
        source = path.read_text(encoding="utf-8")
        idea = re.search(r'stage\.teaches = "([^:;,"]+)', source)[1]
        found[path.parent.name] = [idea, dict(sizes.FOLLOWS.findall(source))]
    return found


def kernels(problem):
    """{(stage, pass): Nsight Compute's rows}."""
    found = {}
    for row in of_gpu("kernels")["rows"]:
        if row["problem"] == problem:
            found.setdefault((row["stage"], row["pass"]), []).append(row)
    return found


def roofline():
    """Of each pass: stage, pass, FLOPs per byte of DRAM, TFLOP/s, bytes."""
    for (stage, which), rows in kernels(PROBLEM).items():
        moved = sum(row["dram_read_bytes"] + row["dram_write_bytes"] for row in rows)
        yield [stage, which, flops(rows[0]) / moved, text.tflops(stage, which), moved]


def stalls():
    """Of each pass: stage, pass, its longest kernel, and {reason: per cent of the warps' stalls}."""
    for (stage, which), rows in kernels(PROBLEM).items():
        longest = max(rows, key=lambda row: row["ms"])
        yield [stage, which, longest["kernel"], longest["waits"]]


def tiles():
    """Of each timeline: stage, head_dim, cycles of a tile, of its parts, share with a product in flight."""
    for path in sorted((RESULTS / H200).glob("timeline_*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        for timeline in result["timelines"]:
            lanes = [lane for lane in timeline["lanes"] if "parts" in lane]
            mean = lambda of: sum(map(of, lanes)) / len(lanes)  # noqa: E731, it ends here
            parts = {name: mean(lambda lane: lane["parts"][name]) for name in lanes[0]["parts"]}  # noqa: B023
            yield [result["stage"], re.search(r"_d(\d+)", timeline["problem"])[1], mean(lambda lane: lane["cycles"]),
                   {**parts, "other": mean(lambda lane: lane["other"])}, timeline["products_in_flight"]]


def steps():
    """Of each pass: stage, pass, the one before, new lines, registers, shared memory, TFLOP/s, error / limit."""
    _, counts = record.read(record.FOLDER / "counts.txt")
    _, code = record.read(next(iter(sorted(record.FOLDER.glob("nvcc_*.txt"), reverse=True))))
    errors = {(row["stage"], row["pass"]): row["error"] / row["limit"] for row in text.load(text.LADDER)["rows"]
              if "error" in row}
    for stage, which, _, _, before, new, _ in sizes.stages():
        registers = [numbers["registers"] for (of, _, kernel), numbers in code.items()
                     if of == stage and "<__half,64" in kernel
                     and kernel.startswith(FORWARD_KERNELS) == (which == "forward")]
        if registers:
            yield [stage, which, before, new, max(registers), counts[stage, which, RECORDED]["shared_bytes"],
                   text.tflops(stage, which), errors[stage, which]]


def counted_and_measured():
    """Of each pass: stage, pass, sectors counted and measured, wavefronts counted and measured."""
    _, counts = record.read(record.FOLDER / "counts.txt")
    for row in text.load("nvidia-h100/sectors")["rows"]:
        counted = counts.get((row["stage"], row["pass"], RECORDED))
        if row["problem"] == SECTORS:
            yield [row["stage"], row["pass"], 2 * (counted["read_sectors"] + counted["write_sectors"]),
                   row["global_read_sectors"] + row["global_write_sectors"],
                   2 * counted["shared_wavefronts"], row["shared_wavefronts"]]


def counts_beside(yours):
    """Of each row that the CPU simulator counted: stage, pass, {count: [committed, yours]}."""
    committed = {(row["stage"], row["pass"], row["problem"]): row for row in load(RESULTS / SIMULATOR / "ladder.json")["rows"]}
    names = ("requested_read_bytes", "requested_write_bytes", "bank_conflicts", "products", "multiply_adds", "barriers")
    for row in yours["rows"]:
        other = committed.get((row["stage"], row["pass"], row["problem"]), {})
        if "requested_read_bytes" in row:
            yield [row["stage"], row["pass"], {name: [other.get(name), row[name]] for name in names}]


def said_of(*names):
    """Where files of docs/results come from."""
    return "; ".join(", ".join(origin(text.load(name)["provenance"]) + [f"docs/results/{name}.json"]) for name in names)


def data(yours=None):
    """All that the page's script draws."""
    runs = list(runs_of({"build/report.json": yours}, [], " (yours)")) if yours else []
    timelines = sorted(f"{H200}/{path.stem}" for path in (RESULTS / H200).glob("timeline_*.json"))
    return {"runs": runs + list(committed_runs()), "stages": stages(), "roofline": list(roofline()), "tiles": list(tiles()),
            "ceilings": {row["figure"]: row["rate"] for row in of_gpu("ceilings")["rows"] if "whole" not in row},
            "stalls": list(stalls()), "steps": list(steps()), "chip": list(counted_and_measured()),
            "counts": list(counts_beside(yours)) if yours else [], "history": text.load("history"),
            "origins": {"kernels": said_of(f"{H200}/kernels"), "ceilings": said_of(f"{H200}/ceilings"),
                        "sectors": said_of("nvidia-h100/sectors"), "tiles": said_of(*timelines)},
            "peers": PEERS}


# ---- The page -------------------------------------------------------------------------------------

def answer(chapters):
    """The page's first sentence."""
    rows, said = text.load(f"{H200}/peers"), []
    for which in sizes.KERNELS:
        speeds = {}
        for row in tables.with_head_dim(tables.rows_of(rows), tables.HEAD_DIMS):
            if row["pass"] == which and row["impl"] not in tables.PEERS:
                speeds[row["impl"]] = max(row["tflops"], speeds.get(row["impl"], 0))
        best = max(speeds, key=lambda stage: text.ratio(stage, which=which))
        said.append(f'<b>{speeds[best]:.0f}&nbsp;TFLOP/s</b> {which} (<a href="{chapters.format(best)}">{best.replace("_", " ")}</a>: '
                    f"<b>{text.ratio(best, which=which):.2f}&nbsp;×</b> ")
    return (f"On an {rows['provenance']['device']}, attention in f16 runs at up to {said[0]}the speed of the fastest of "
            f"FlashAttention-2, 3 and 4 and cuDNN, in the mean over 24 sizes) and {said[1]}that speed); plain loops, the "
            f"first rung of our ladder, run at {text.tflops('01_naive'):.2f}&nbsp;TFLOP/s.")


def fragment(chapters, yours=None):
    """The page below its title, as HTML; `chapters` is the address of a chapter, with {} for its stage."""
    found = json.dumps({**data(yours), "chapters": chapters}, ensure_ascii=False, separators=(",", ":"))
    return TEMPLATE.read_text(encoding="utf-8").replace("<!-- answer -->", answer(chapters)).replace(
        "/* data */ null", found.replace("</", "<\\/"))


def page(yours=None):
    """The whole page, which needs no other file."""
    return ('<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, '
            f'initial-scale=1">\n<title>{TITLE}</title>\n<main>\n<h1>{TITLE}</h1>\n'
            f"{fragment('../stages/{}/README.md', yours)}</main>\n</html>\n")


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
        PAGE.with_suffix(".json").write_text(json_text(yours) + "\n", encoding="utf-8")
    PAGE.write_text(made, encoding="utf-8")
    print(f"Wrote {PAGE}. Open it in a browser.")


if __name__ == "__main__":
    main()
