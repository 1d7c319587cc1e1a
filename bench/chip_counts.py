#!/usr/bin/env python3
"""Counts with Nsight Compute, on a GPU, what the CPU machine counts: sectors of global memory.

    bench/chip_counts.py TESTS OUT.json COMMIT

TESTS is the cuda build's cuflash_tests. The result is committed as docs/results/<device>/sectors.json,
and the CPU machine's tests demand the same counts.
"""
import csv
import datetime
import json
import pathlib
import re
import subprocess
import sys

PROBLEMS = ["b1_h2_q128k256_d64_f16", "b1_h2_q77k131_d32_f16", "b1_h1_q300k300_d64_f16_causal"]
METRICS = {
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "global_read_sectors",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "global_write_sectors",
}


def output_of(*command):
    """What a command prints; ends the program if it fails."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def count(tests, name):
    """The sectors that one test's launches touch, summed."""
    text = output_of("ncu", "--clock-control", "none", "--csv", "--metrics", ",".join(METRICS),
                     tests, f"--gtest_filter={name}")
    table = text[text.index('"ID"'):].splitlines()
    totals = dict.fromkeys(METRICS.values(), 0)
    for row in csv.DictReader(table):
        if row.get("Metric Name") in METRICS:
            totals[METRICS[row["Metric Name"]]] += int(row["Metric Value"].replace(",", ""))
    return totals


def main():
    """Counts every stage's passes on the problems above."""
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    tests, out, commit = sys.argv[1:]
    rows = []
    stage = ""
    for line in output_of(tests, "--gtest_list_tests").splitlines():
        if not line.startswith(" "):
            stage = line.strip().rstrip(".")
            continue
        match = re.fullmatch(r"\s*sanitize_(forward|backward)_(\S+)", line)
        if match and match[2] in PROBLEMS:
            totals = count(tests, f"{stage}.{line.strip()}")
            rows.append({"stage": stage, "pass": match[1], "problem": match[2], **totals})
            print(rows[-1])
    device, driver = output_of("nvidia-smi", "--query-gpu=name,driver_version",
                               "--format=csv,noheader").splitlines()[0].split(", ")
    provenance = {
        "device": device, "driver": driver, "backend": "cuda",
        "tool": output_of("ncu", "--version").splitlines()[-1],
        "commit": commit, "command": " ".join(sys.argv),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    result = {"provenance": provenance, "rows": rows}
    pathlib.Path(out).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
