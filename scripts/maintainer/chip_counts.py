#!/usr/bin/env python3
"""Counts and times kernels with Nsight Compute, on a GPU.

    scripts/maintainer/chip_counts.py BIN OUT COMMIT [RESULT...]

BIN is the cuda build's folder of programs, OUT the folder for the results, committed under
docs/results/<device>/. Without a RESULT all are made:
  sectors   sectors of global memory and passes over shared memory of each stage; the tests compare
            the CPU simulator's counts with them. Each is the least of three calls: now and then the
            GPU counts a few more
  passes    passes over shared memory of single accesses, with which the tests compare the simulator's likewise
  kernels   for each kernel on the ladder's timed shape, for 04 in f32 and for wgmma with 128 columns too: time, clock,
            DRAM traffic, load of the pipes, and what its warps wait for

A program of the build, stage_calls, makes the calls of all stages in one process: Nsight Compute
takes seconds to start one.
"""
import csv
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from provenance import now, save  # noqa: E402, it lies there

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
# Metric, and the keys of the result to which it adds.
SECTORS = {
    # Asynchronous copies are among the loads.
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ["global_read_sectors"],
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": ["global_write_sectors"],
    # red reads and writes, as the simulator counts it.
    "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum": ["global_read_sectors",
                                                        "global_write_sectors"],
    f"{PASSES}_op_ld.sum": ["shared_wavefronts"],
    f"{PASSES}_op_st.sum": ["shared_wavefronts"],
    f"{PASSES}.sum": ["pipe_wavefronts"],  # these, and the other traffic of the same pipe
}
# The passes in which asynchronous copies, LDGSTS, write shared memory, which the metrics above leave
# out: the first of these that the device has.
COPY_PASSES = (f"smsp__sass_{PASSES.replace('__', '_')}_op_ldgsts",
               f"sm__sass_{PASSES.replace('__', '_')}_op_ldgsts_cache_bypass")
CALLS = 3  # of each problem; the counts are the least
# Metric, key of the result, and the factor from the base unit to the key's: seconds become ms.
KERNELS = {
    "gpu__time_duration.sum": ("ms", 1e3),
    "smsp__cycles_elapsed.avg.per_second": ("clock_ghz", 1e-9),
    "dram__bytes_read.sum": ("dram_read_bytes", 1),
    "dram__bytes_write.sum": ("dram_write_bytes", 1),
    "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed": ("l1_percent", 1),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": ("issue_percent", 1),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("sm_percent", 1),  # of its busiest unit
    "smsp__inst_executed.sum": ("instructions", 1),
    "smsp__inst_executed_op_shared_ld.sum": ("shared_loads", 1),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": ("shared_load_passes", 1),
}
# The number of a scheduler's warps in each state, per instruction that it issues.
STATES = re.compile(r"smsp__average_warps_issue_stalled_(\w+)(?<!_not_issued)_per_issue_active")
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "nsecond": 1e-9, "usecond": 1e-6,
         "msecond": 1e-3, "second": 1, "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9,
         "Tbyte": 1e12, "hz": 1, "Khz": 1e3, "Mhz": 1e6, "Ghz": 1e9, "Hz": 1, "KHz": 1e3, "MHz": 1e6,
         "GHz": 1e9}
SHAPE = "b4_h32_q4096k4096_d64_f16"  # that the ladder times
# The stage on f32 multiply-adds, and what it is measured on as well.
F32_STAGE = "04_register_tiles"
F32_SHAPES = ["b4_h32_q4096k4096_d64_f32", "b4_h16_q4096k4096_d128_f32"]
# What the stages on wgmma are measured on as well.
WIDE_SHAPE = "b4_h16_q4096k4096_d128_f16"


def output_of(*command):
    """The output of a command; ends the program if it fails."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def profile(metrics, *command):
    """One (kernel, {metric: value}) for each launch of a command."""
    text = output_of("ncu", "--clock-control", "none", "--csv", "--metrics", ",".join(metrics),
                     *command)
    launches = {}
    for row in csv.DictReader(text[text.index('"ID"'):].splitlines()):
        name = row.get("Metric Name", "")
        if name in metrics:
            kernel = re.sub(r"^void |\(.*", "", row["Kernel Name"])
            value = float(row["Metric Value"].replace(",", ""))
            value *= UNITS.get(row["Metric Unit"], 1)
            launches.setdefault(int(row["ID"]), (kernel, {}))[1][name] = value
    return [launches[key] for key in sorted(launches)]


def known_metrics():
    """The names of the device's metrics, without a suffix such as .sum."""
    return [line.split()[0] for line in output_of("ncu", "--query-metrics").splitlines()
            if "__" in line]


def copy_passes():
    """The metric of COPY_PASSES that the device has."""
    known = known_metrics()
    for name in COPY_PASSES:
        if name in known:
            return name + ".sum"
    copies = [name for name in known if "ldgsts" in name]
    raise SystemExit(f"The device has none of {', '.join(COPY_PASSES)}. Of asynchronous copies "
                     f"it has: {', '.join(copies)}")


def passes_of(ladder):
    """The facts of each pass of each stage, except those that repeat another's."""
    with tempfile.NamedTemporaryFile(suffix=".json") as facts:
        output_of(ladder, "--list", "--json", facts.name)
        for entry in json.load(facts):
            if not entry["repeats"]:
                yield entry


def calls_of(programs, metrics, times, cases):
    """The launches of each call, for `times` calls of each (stage, pass, problem)."""
    if not cases:
        return
    launches = profile(metrics, str(programs / "stage_calls"), str(times),
                       *[word for case in cases for word in case])
    parts = []
    for kernel, values in launches:
        if kernel.split("::")[-1] == "next_call":
            parts.append([])
        else:
            parts[-1].append((kernel, values))
    if len(parts) != len(cases):
        raise SystemExit(f"{len(parts)} problems were called, not {len(cases)}")
    for case, part in zip(cases, parts):
        names = [kernel for kernel, _ in part]
        length = len(part) // times
        if not part or names != names[:length] * times:
            raise SystemExit(f"{' '.join(case)}: not {times} equal calls: {', '.join(names)}")
        yield case, [part[n:n + length] for n in range(0, len(part), length)]


def sums(call, metrics):
    """The counts of a call, summed over its launches and by the result's keys."""
    totals = {key: 0 for keys in metrics.values() for key in keys}
    for _, counts in call:
        for metric, value in counts.items():
            for key in metrics[metric]:
                totals[key] += int(value)
    return totals


def sectors(programs):
    """Sectors and passes of each stage's passes, summed over the launches of a call. The stages from
    10 on are left out: these counters do not see what TMA and wgmma read."""
    cases = {False: [], True: []}  # by whether the stage may have asynchronous copies
    for facts in passes_of(str(programs / "ladder")):
        problems = PROBLEMS + (MORE_PROBLEMS if "f32" not in facts["dtypes"] else [])
        arch = int(re.search(r"\d+", facts["arch"])[0])
        if arch >= 90:
            continue
        cases[arch >= 80] += [(facts["stage"], facts["pass"], problem) for problem in problems]
    with_copies = {copy_passes(): ["shared_wavefronts", "pipe_wavefronts"]}
    for copies, metrics in ((False, SECTORS), (True, SECTORS | with_copies)):
        for (stage, direction, problem), calls in calls_of(programs, metrics, CALLS, cases[copies]):
            counts = [sums(call, metrics) for call in calls]
            yield {"stage": stage, "pass": direction, "problem": problem,
                   **{key: min(one[key] for one in counts) for key in counts[0]}}


def accesses():
    """Warp instructions: load, store or ldmatrix, the bytes of a lane, and the element of each lane, or -1."""
    some, lanes = random.Random(1), range(32)
    for access, size in (*((access, size) for access in ("load", "store") for size in (4, 8, 16)), ("ldmatrix", 16)):
        strides = [[lane * stride for lane in lanes] for stride in (1, 2, 4, 8, 16, 32)]
        twos = [[(lane & ~bit) * apart for lane in lanes] for bit in (1, 2, 4, 8, 16) for apart in (1, 4)]
        parts = [[element(lane, bit) for lane in lanes] for bit in (1, 2, 4, 8, 16) for element in (
            lambda lane, bit: lane // bit,                             # an element for neighbours
            lambda lane, bit: lane // bit if lane % 3 else -1,
            lambda lane, bit: lane // (2 * bit) * bit + lane % bit,    # lane and lane ^ bit share one, without gaps
            lambda lane, bit: -1 if lane & bit else lane,              # half of the lanes
            lambda lane, bit: lane if lane < bit else -1)]             # the first lanes
        places = [[some.randrange(slots) * apart for lane in lanes]
                  for slots in (2, 4, 8, 16, 32, 64) for apart in (1, 36)]
        fewer = [[element if some.randrange(4) else -1 for element in elements] for elements in places]
        for elements in strides + twos + places + (parts + fewer if access != "ldmatrix" else []):
            yield access, size, elements


def passes(programs):
    """Passes over shared memory of single accesses."""
    found = list(accesses())
    with tempfile.NamedTemporaryFile("w") as file:
        file.writelines(f"{access} {size} {' '.join(map(str, elements))}\n" for access, size, elements in found)
        file.flush()
        launches = profile([f"{PASSES}_op_ld.sum", f"{PASSES}_op_st.sum"],
                           str(programs / "shared_accesses"), file.name)
    if len(launches) != len(found):
        raise SystemExit(f"{len(launches)} accesses were made, not {len(found)}")
    for (access, size, elements), (_, counts) in zip(found, launches):
        yield {"op": access, "bytes": size, "elements": elements, "passes": int(sum(counts.values()))}


def waits(values):
    """What warps wait for, in percent of their time: the three most frequent reasons."""
    states = {STATES.match(name)[1]: value for name, value in values.items()
              if STATES.match(name)}
    whole = sum(states.values())
    reasons = sorted(states.keys() - {"selected"}, key=states.get, reverse=True)
    return {reason: round(100 * states[reason] / whole, 1) for reason in reasons[:3]}


def shapes_of(entry):
    """The problems on which a pass is measured."""
    more = [WIDE_SHAPE] if entry["arch"] == "sm_90a" else []
    return [SHAPE, *(F32_SHAPES if entry["stage"] == F32_STAGE else more)]


def kernels(programs):
    """The cost of each kernel of one call, for each stage and pass."""
    facts = sorted(passes_of(str(programs / "ladder")), key=lambda entry: entry["pass"],
                   reverse=True)  # A pass's inputs are made once.
    cases = [(entry["stage"], entry["pass"], problem)
             for problem in [SHAPE, WIDE_SHAPE, *F32_SHAPES] for entry in facts
             if problem in shapes_of(entry)]
    metrics = [*KERNELS, *[name + ".ratio" for name in known_metrics() if STATES.fullmatch(name)]]
    rows = [{"stage": stage, "pass": direction, "problem": problem, "kernel": kernel,
             **{key: values[metric] * unit for metric, (key, unit) in KERNELS.items()},
             "waits": waits(values)}
            for (stage, direction, problem), (call,) in calls_of(programs, metrics, 1, cases)
            for kernel, values in call]
    return sorted(rows, key=lambda row: row["stage"])


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
        "commit": commit, "command": " ".join(sys.argv), "date": now(),
    }
    for name in chosen:
        save(out / f"{name}.json", {"provenance": provenance, "rows": list(RESULTS[name](programs))})


if __name__ == "__main__":
    main()
