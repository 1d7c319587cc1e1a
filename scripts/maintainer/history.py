#!/usr/bin/env python3
"""Keeps how fast each stage was at each commit: docs/results/history.json.

    scripts/maintainer/history.py [--check]

A run is what a GPU measured at a commit, for one of the files ladder*.json and peers*.json. The runs of the
committed files are added, or replace those of the same device, commit and file; a run stays when its file is
measured anew. "tflops" has for each stage, pass and dtype the medians, in TFLOP/s, of the "problems" in their
order: null where a problem was not measured, and nothing behind the last that was. With --check nothing is
written, and the exit status is 1 if a committed run is missing.
"""
import json
import pathlib
import sys

from repository import ROOT

sys.path.insert(0, str(ROOT / "bench/peers"))
import tables  # noqa: E402, it lies there
from peers import Cell  # noqa: E402, which also sets the path
from provenance import json_text  # noqa: E402, in bench/

RESULTS = ROOT / "docs/results"
HISTORY = RESULTS / "history.json"


def medians(result):
    """(stage, pass, dtype, problem without its dtype, TFLOP/s) of each timed row."""
    if "ceilings" in result:
        for row in tables.rows_of(result):
            cell = Cell(row["pass"], row["dtype"], row["head_dim"], row["causal"], row["seq"])
            batch, heads, seq, head_dim = cell.shape
            problem = f"b{batch}_h{heads}_q{seq}k{seq}_d{head_dim}" + "_causal" * cell.causal
            if row["impl"] not in tables.PEERS:
                yield row["impl"], cell.direction, cell.dtype, problem, row["tflops"]
        return
    for row in result["rows"]:
        dtype = next(word for word in row["problem"].split("_") if word in ("f32", "f16", "bf16"))
        if "tflops" in row:
            yield row["stage"], row["pass"], dtype, row["problem"].replace(f"_{dtype}", ""), row["tflops"]


def run_of(name, result, problems):
    """The run of a file; its problems are added to the others."""
    where, found = result["provenance"], {}
    for *key, problem, tflops in medians(result):
        if problem not in problems:
            problems.append(problem)
        found.setdefault(" ".join(key), {})[problem] = float(f"{tflops:.4g}")
    run = {key: where[key] for key in ("device", "commit")}
    run |= {"date": where["date"][:10], "file": name, "tflops": {}}
    for key, of_problem in found.items():
        last = max(map(problems.index, of_problem))
        run["tflops"][key] = [of_problem.get(problem) for problem in problems[:last + 1]]
    return run


def add(history, run):
    """Puts a run among the others, by date."""
    def identity(run):
        return run["device"], run["commit"], run["file"]
    runs = {identity(other): other for other in history["runs"]}
    runs[identity(run)] = run
    history["runs"] = sorted(runs.values(), key=lambda run: run["date"])


def main():
    """Adds the committed runs."""
    text = HISTORY.read_text(encoding="utf-8")
    history = json.loads(text)
    for kind in ("ladder*.json", "peers*.json"):
        for path in sorted(RESULTS.glob(f"nvidia-*/{kind}")):
            add(history, run_of(path.name, json.loads(path.read_text("utf-8")), history["problems"]))
    new = json_text(history, levels=4) + "\n"
    if sys.argv[1:] == ["--check"] and new != text:
        raise SystemExit(f"{HISTORY} lacks a committed run; run: scripts/maintainer/history.py")
    HISTORY.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
