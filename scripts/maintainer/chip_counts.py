#!/usr/bin/env python3
"""Counts and times kernels with Nsight Compute, on a GPU.

    scripts/maintainer/chip_counts.py BIN OUT COMMIT [RESULT...]

BIN is the cuda build's folder of programs, OUT the folder for the results, committed under
docs/results/<device>/. Without a RESULT all are made:
  sectors   sectors of global memory and passes over shared memory of each stage; the tests compare
            the CPU simulator's counts with them
  passes    passes over shared memory of single accesses, likewise
  kernels   for each kernel on the ladder's timed shape: time, clock, DRAM traffic, load of the
            pipes, and what its warps wait for
"""
import csv
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile

PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
# For every stage; more for those on tensor cores, whose accesses nvcc leaves as written.
PROBLEMS = ["b1_h2_q128k256_d64_f16", "b1_h2_q77k131_d32_f16", "b1_h1_q300k300_d64_f16_causal"]
MORE_PROBLEMS = [
    "b1_h1_q16k16_d64_f16", "b1_h1_q64k64_d64_f16", "b2_h4x1_q77k131_d64_f16",
    "b1_h1_q70k20_d128_f16_causal", "b1_h2_q128k256_d128_f16_causal",
    "b1_h2_q128k256_d64_bf16", "b1_h1_q64k64_d64_bf16", "b1_h1_q1k33_d32_bf16",
    "b1_h1_q300k300_d128_bf16", "b1_h4x2_q33k97_d64_bf16_causal",
    "b1_h2x1_q100k200_d32_bf16_causal_left31",
]
SECTORS = {
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "global_read_sectors",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "global_write_sectors",
    f"{PASSES}_op_ld.sum": "shared_wavefronts",
    f"{PASSES}_op_st.sum": "shared_wavefronts",
    f"{PASSES}.sum": "pipe_wavefronts",  # these, and the other traffic of the same pipe
}
# Metric, key of the result, and the factor from the base unit to the key's: seconds become ms.
KERNELS = {
    "gpu__time_duration.sum": ("ms", 1e3),
    "smsp__cycles_elapsed.avg.per_second": ("clock_ghz", 1e-9),
    "dram__bytes_read.sum": ("dram_read_bytes", 1),
    "dram__bytes_write.sum": ("dram_write_bytes", 1),
    "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed": ("l1_percent", 1),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": ("issue_percent", 1),
    "smsp__inst_executed.sum": ("instructions", 1),
    "smsp__inst_executed_op_shared_ld.sum": ("shared_loads", 1),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": ("shared_load_passes", 1),
}
# The number of a scheduler's warps in each state, per instruction that it issues.
STATES = re.compile(r"smsp__average_warps_issue_stalled_(\w+)(?<!_not_issued)_per_issue_active.ratio")
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "nsecond": 1e-9, "usecond": 1e-6,
         "msecond": 1e-3, "second": 1, "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9,
         "Tbyte": 1e12, "hz": 1, "Khz": 1e3, "Mhz": 1e6, "Ghz": 1e9, "Hz": 1, "KHz": 1e3, "MHz": 1e6,
         "GHz": 1e9}
SHAPE = "b4_h32_q4096k4096_d64"  # the shape that the ladder times


def output_of(*command):
    """The output of a command; ends the program if it fails."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def profile(metrics, *command):
    """One (kernel, {metric: value}) for each launch of a command."""
    text = output_of("ncu", "--clock-control", "none", "--csv", "--metrics", ",".join(metrics),
                     *command)
    if '"ID"' not in text:
        return []  # the command launched nothing
    launches = {}
    for row in csv.DictReader(text[text.index('"ID"'):].splitlines()):
        name = row.get("Metric Name", "")
        if name in metrics or STATES.fullmatch(name):
            kernel = re.sub(r"^void |\(.*", "", row["Kernel Name"])
            value = float(row["Metric Value"].replace(",", ""))
            value *= UNITS.get(row["Metric Unit"], 1)
            launches.setdefault(int(row["ID"]), (kernel, {}))[1][name] = value
    return [launches[key] for key in sorted(launches)]


def passes_of(ladder):
    """The facts of each pass of each stage, except those that repeat another's."""
    with tempfile.NamedTemporaryFile(suffix=".json") as facts:
        output_of(ladder, "--list", "--json", facts.name)
        for entry in json.load(facts):
            if not entry["repeats"]:
                yield entry


def one_call(launches):
    """The launches of the first call, from the launches of several calls in a row."""
    names = [kernel for kernel, _ in launches]
    # A call ends where its first kernel recurs.
    return launches[:names.index(names[0], 1) if names[0] in names[1:] else len(names)]


def sectors(programs):
    """Sectors and passes of each stage's passes, summed over the launches of a call."""
    ladder = str(programs / "ladder")
    for facts in passes_of(ladder):
        stage, direction = facts["stage"], facts["pass"]
        for problem in PROBLEMS + (MORE_PROBLEMS if "f32" not in facts["dtypes"] else []):
            dtype = "bf16" if "_bf16" in problem else "f16"
            totals = dict.fromkeys(SECTORS.values(), 0)
            launches = profile(SECTORS, "--launch-count", "8", ladder, "--stage", stage, "--pass",
                               direction, "--dtype", dtype,
                               "--shape", problem.replace("_" + dtype, ""))
            for _, counts in one_call(launches):
                for metric, value in counts.items():
                    totals[SECTORS[metric]] += int(value)
            yield {"stage": stage, "pass": direction, "problem": problem, **totals}


def passes(programs):
    """Passes over shared memory of each access of tests/gpu/shared_passes.cu."""
    program = str(programs / "shared_passes")
    accesses = [json.loads(line) for line in output_of(program, "list").splitlines()]
    metrics = [f"{PASSES}_op_ld.sum", f"{PASSES}_op_st.sum"]
    for access, (_, counts) in zip(accesses, profile(metrics, program)):
        yield {**access, "passes": int(sum(counts.values()))}


def waits(values):
    """What warps wait for, in percent of their time: the three most frequent reasons."""
    states = {STATES.fullmatch(name)[1]: value for name, value in values.items()
              if STATES.fullmatch(name)}
    whole = sum(states.values())
    reasons = sorted(states.keys() - {"selected"}, key=states.get, reverse=True)
    return {reason: round(100 * states[reason] / whole, 1) for reason in reasons[:3]}


def kernels(programs):
    """The cost of each kernel of one call, for each stage and pass."""
    ladder = str(programs / "ladder")
    for facts in passes_of(ladder):
        stage, direction = facts["stage"], facts["pass"]
        metrics = [*KERNELS, "regex:^smsp__average_warps_issue_stalled_.*_per_issue_active"]
        launches = profile(metrics, "--launch-count", "8", ladder, "--stage", stage,
                           "--shape", SHAPE, "--pass", direction)
        for kernel, values in one_call(launches):
            yield {"stage": stage, "pass": direction, "problem": SHAPE + "_f16", "kernel": kernel,
                   **{key: values[metric] * unit for metric, (key, unit) in KERNELS.items()},
                   "waits": waits(values)}


RESULTS = {"sectors": sectors, "passes": passes, "kernels": kernels}


def main():
    """Writes the results."""
    chosen = sys.argv[4:] or list(RESULTS)
    if len(sys.argv) < 4 or not set(chosen) <= set(RESULTS):
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
    for name in chosen:
        rows = ",\n    ".join(json.dumps(row) for row in RESULTS[name](programs))
        text = json.dumps({"provenance": provenance, "rows": []}, indent=2)
        text = text.replace('"rows": []', f'"rows": [\n    {rows}\n  ]')
        (out / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
