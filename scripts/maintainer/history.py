#!/usr/bin/env python3
"""Records the speed of each stage at each commit: docs/results/history.json.

    scripts/maintainer/history.py

A run is what a GPU measured at a commit, for one of the files ladder*.json and peers*.json. The runs of the
committed files are added, or replace those of the same device, commit and file; a run stays when its file is
measured anew. "tflops" has for each stage, pass and dtype the medians, in TFLOP/s, of the "problems" in their
order: null where a problem was not measured, and nothing behind the last that was.
"""
import json
import re
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
    for row in result["rows"] if "ceilings" not in result else ():
        name, dtype, mask = re.fullmatch(r"(.*_d\d+)_([^_]+)(.*)", row["problem"]).groups()
        if "tflops" in row:
            yield row["stage"], row["pass"], dtype, name + mask, row["tflops"]
    for row in tables.rows_of(result) if "ceilings" in result else ():
        cell = Cell(row["pass"], row["dtype"], row["head_dim"], row["causal"], row["seq"])
        batch, heads, seq, head_dim = cell.shape
        if row["impl"] not in tables.PEERS:
            yield (row["impl"], cell.direction, cell.dtype,
                   f"b{batch}_h{heads}_q{seq}k{seq}_d{head_dim}" + "_causal" * cell.causal, row["tflops"])


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


def renewed():
    """The history with the committed runs, by date, as text."""
    history = json.loads(HISTORY.read_text(encoding="utf-8"))
    problems, runs = history["problems"], {}
    committed = [run_of(path.name, json.loads(path.read_text(encoding="utf-8")), problems)
                 for kind in ("ladder*.json", "peers*.json") for path in sorted(RESULTS.glob(f"nvidia-*/{kind}"))]
    for run in history["runs"] + committed:
        runs[run["device"], run["commit"], run["file"]] = run
    history["runs"] = sorted(runs.values(), key=lambda run: run["date"])
    return json_text(history, levels=4) + "\n"


if __name__ == "__main__":
    HISTORY.write_text(renewed(), encoding="utf-8")
