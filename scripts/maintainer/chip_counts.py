#!/usr/bin/env python3
"""Asks Nsight Compute, on a GPU, what only it can tell.

    scripts/maintainer/chip_counts.py BIN OUT COMMIT

BIN is the cuda build's folder of programs, OUT the folder for two results, committed under
docs/results/<device>/:
  sectors.json   sectors of global memory, which the CPU simulator's tests must count alike, and passes
                 over shared memory, which they must from 05 on within 2 %
  kernels.json   time, DRAM traffic and load of the pipes of each kernel on the ladder's timed shape
"""
import csv
import datetime
import json
import pathlib
import re
import subprocess
import sys

PROBLEMS = ["b1_h2_q128k256_d64_f16", "b1_h2_q77k131_d32_f16", "b1_h1_q300k300_d64_f16_causal"]
SECTORS = {
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "global_read_sectors",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "global_write_sectors",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": "shared_wavefronts",
}
# Metric, key of the result, and what one base unit is there: seconds become ms.
KERNELS = {
    "gpu__time_duration.sum": ("ms", 1e3),
    "dram__bytes_read.sum": ("dram_read_bytes", 1),
    "dram__bytes_write.sum": ("dram_write_bytes", 1),
    "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed": ("l1_percent", 1),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": ("issue_percent", 1),
    "smsp__inst_executed_op_shared_ld.sum": ("shared_loads", 1),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": ("shared_load_passes", 1),
}
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "nsecond": 1e-9, "usecond": 1e-6,
         "msecond": 1e-3, "second": 1, "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9,
         "Tbyte": 1e12}
SHAPE = "b4_h32_q4096k4096_d64"  # what the ladder times


def output_of(*command):
    """What a command prints; ends the program if it fails."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def profile(metrics, *command):
    """One (kernel, {metric: value}) for each launch of a command."""
    text = output_of("ncu", "--clock-control", "none", "--csv", "--metrics", ",".join(metrics),
                     *command)
    if '"ID"' not in text:
        return []  # the command launched nothing
    launches = {}
    for row in csv.DictReader(text[text.index('"ID"'):].splitlines()):
        if row.get("Metric Name") in metrics:
            kernel = re.sub(r"^void |\(.*", "", row["Kernel Name"])
            value = float(row["Metric Value"].replace(",", ""))
            value *= UNITS.get(row["Metric Unit"], 1)
            launches.setdefault(int(row["ID"]), (kernel, {}))[1][row["Metric Name"]] = value
    return [launches[key] for key in sorted(launches)]


def sectors(tests):
    """Sectors of each stage's passes on the problems above, summed over the launches of a call."""
    stage = ""
    for line in output_of(tests, "--gtest_list_tests").splitlines():
        if not line.startswith(" "):
            stage = line.strip().rstrip(".")
            continue
        match = re.fullmatch(r"\s*sanitize_(forward|backward)_(\S+)", line)
        if match and match[2] in PROBLEMS:
            totals = dict.fromkeys(SECTORS.values(), 0)
            for _, counts in profile(SECTORS, tests, f"--gtest_filter={stage}.{line.strip()}"):
                for metric, value in counts.items():
                    totals[SECTORS[metric]] += int(value)
            yield {"stage": stage, "pass": match[1], "problem": match[2], **totals}


def kernels(ladder):
    """What each kernel of one call takes, for each stage and pass."""
    for line in output_of(ladder, "--list").splitlines():
        stage = line.split(" ")[0]
        if not re.match(r"[0-9]{2}_", stage):
            continue
        for direction in ("forward", "backward"):
            launches = profile(KERNELS, "--launch-count", "8", ladder, "--stage", stage,
                               "--shape", SHAPE, "--pass", direction)
            if not launches:
                continue  # the stage has no such pass
            names = [kernel for kernel, _ in launches]
            # The ladder calls the stage again and again: one call ends where its first kernel recurs.
            period = names.index(names[0], 1) if names[0] in names[1:] else len(names)
            for kernel, values in launches[:period]:
                yield {"stage": stage, "pass": direction, "problem": SHAPE + "_f16",
                       "kernel": kernel,
                       **{key: values[metric] * unit for metric, (key, unit) in KERNELS.items()}}


def main():
    """Writes both results."""
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    programs, out, commit = (pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
    device, driver = output_of("nvidia-smi", "--query-gpu=name,driver_version",
                               "--format=csv,noheader").splitlines()[0].split(", ")
    version = re.search(r"Version (\S+)", output_of("ncu", "--version"))[1]
    provenance = {
        "device": device, "driver": driver, "backend": "cuda", "tool": f"Nsight Compute {version}",
        "commit": commit, "command": " ".join(sys.argv),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    for name, rows in (("sectors", sectors(str(programs / "cuflash_tests"))),
                       ("kernels", kernels(str(programs / "ladder")))):
        result = {"provenance": provenance, "rows": list(rows)}
        text = json.dumps(result, indent=2) + "\n"
        (out / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
