#!/usr/bin/env python3
"""Compares the costs of the stages with their record.

    scripts/maintainer/record.py [counts] [machine_code]
    scripts/maintainer/record.py [counts] [machine_code] --accept
    scripts/maintainer/record.py objects

`counts` are those of each stage on the CPU simulator, under the schedule "inorder": bytes, sectors,
bank conflicts, barriers, products. `machine_code` has ptxas's figures of each kernel: registers,
stack, spilled bytes and shared memory. Without a word it is both. The first form lists the differences
between the record (tests/record) and the build, and ends with status 1 if there are any; CI does this.
The second accepts them: it writes the record anew, to be committed with the change that caused them.

Both read a build and compile nothing: build/simt/bin/ladder, or that of --ladder; and the notes that
the build in build/release leaves where warnings are errors, for 90 and 90a. Code of another g++ may have
other counts, so they are not compared; each version of nvcc has a record of its own.

With CUFLASH_SAMPLE=N/3 in the environment, nvcc compiles only every third stage, from the N-th on, and
each stage whose sources are not those of its machine code in the record: tests/record/sources_VERSION.txt
has a digest of them. So whatever is not compiled is as it was. The third form lists the object files of
build/release that are then compiled; only the machine code of their stages is compared and accepted.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from builds import NVCC
from repository import ANY_BYTES, ROOT, code, sampled

FOLDER = ROOT / "tests/record"
ACCEPT = "scripts/maintainer/record.py --accept"

# Small problems for every kernel: whole tiles and not, all masks, dtypes and head dimensions.
PROBLEMS = (
    "b1_h1_q128k256_d64_f16", "b1_h1_q128k256_d128_f16", "b1_h2x1_q70k200_d64_f16_causal",
    "b1_h2_q70k200_d128_bf16_causal", "b1_h1_q130k150_d64_f16_left40_right7",
    "b1_h1_q70k90_d32_f16_causal", "b1_h1_q70k130_d96_f16", "b1_h1_q66k130_d256_f16_causal",
    "b1_h1_q70k90_d64_f32", "b1_h1_q70k90_d128_f32_causal", "b1_h1_q70k130_d64_bf16_no_lse_no_dk")
# For passes with another kernel, or another way through it, for calls that are not deterministic.
ANY_ORDER = ("b1_h2_q128k256_d64_f16_any_order", "b1_h1_q70k200_d128_f16_causal_any_order")
NO_COUNTS = ("stage", "pass", "problem", "ok", "error", "limit")

ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\w+)'")
NUMBERS = {"registers": r"Used (\d+) registers", "stack_bytes": r"(\d+) bytes stack frame",
           "spill_stores": r"(\d+) bytes spill stores", "spill_loads": r"(\d+) bytes spill loads",
           "static_shared_bytes": r"(\d+) bytes smem"}
ARCHITECTURES = ("90", "90a")
# How CMake compiles the stages' objects.
RULES = ("CMakeLists.txt", "cmake/cuflash_backend_cuda.cmake", "stages/CMakeLists.txt")


class RecordError(Exception):
    """There is nothing to compare, or it is wrong."""


def recorded(stage):
    """True if the stage is one of the repository's, and not of this checkout alone."""
    return not stage.startswith("9") and (ROOT / "stages" / stage).exists()


# ---- Counts ---------------------------------------------------------------------------------------

def ladder_json(ladder, *options):
    """What the ladder writes with these options; None if it knows no such problem."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        done = subprocess.run([ladder, *options, "--json", file.name], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode == 2:
            return None
        try:
            return json.load(file)
        except json.JSONDecodeError as error:
            raise RecordError(f"{ladder} {' '.join(options)}:\n{done.stdout}") from error


def counts_of(ladder, stage=None):
    """The counts of all stages that are in the repository, or of one, by stage, pass and problem; and
    the compiler."""
    facts = [entry for entry in ladder_json(ladder, "--list")
             if recorded(entry["stage"]) and stage in (None, entry["stage"])]
    runs = [(problem, ["--stage", stage] if stage else []) for problem in PROBLEMS]
    runs += [(problem, ["--stage", entry["stage"], "--pass", entry["pass"]]) for problem in ANY_ORDER
             for entry in facts if entry.get("any_order")]
    known, counts, compiler = {entry["stage"] for entry in facts}, {}, ""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = pool.map(lambda run: ladder_json(ladder, "--shape", run[0], *run[1]), runs)
    for (problem, _), result in zip(runs, results):
        for row in result["rows"] if result else ():
            if "skipped" in row or row["stage"] not in known:
                continue
            if not row["ok"]:
                raise RecordError(f"{row['stage']} is wrong. See scripts/run.sh --stage {row['stage']} "
                                  f"--pass {row['pass']} --shape {problem}")
            if "requested_read_bytes" not in row:
                raise RecordError(f"{ladder} counts nothing.")
            compiler = result["provenance"]["compiler"]
            counts[row["stage"], row["pass"], problem] = {
                name: value for name, value in row.items() if name not in NO_COUNTS}
    return counts, compiler


# ---- Machine code ---------------------------------------------------------------------------------

def nvcc_version():
    """The version of nvcc, "13.0.88"; None if there is none here."""
    if shutil.which(NVCC) is None:
        return None
    said = subprocess.run([NVCC, "--version"], check=True, capture_output=True, text=True).stdout
    return re.search(r"V([\d.]+)", said)[1]


def demangled(names):
    """The kernels' names without namespaces and parameters: "attention<__half,64>"."""
    done = subprocess.run(["c++filt", "--no-params"], input="\n".join(names), check=True,
                          capture_output=True, text=True).stdout.splitlines()
    return {name: re.sub(r"\bcuflash::|^void | ", "", text).split("::", 1)[-1]
            for name, text in zip(names, done)}


def with_included(files):
    """These files, and those of this repository that they include, in whichever branch of an #if."""
    found, left = set(), [*files]
    while left:
        file = left.pop()
        if file in found:
            continue
        found.add(file)
        for name in re.findall(r'^\s*#\s*include\s*[<"](.+?)[>"]', file.read_text(**ANY_BYTES), re.M):
            beside = [folder / name for folder in (file.parent, ROOT / "common", ROOT / "common/include")]
            left += [path.resolve() for path in beside if path.is_file()]
    return found


def digest(stage):
    """A digest of the stage's sources and of the rules that compile it, without comments."""
    others = re.compile(rf"^cuflash_add_stage\((?!{stage}\b).*\n", re.M)
    files = with_included((ROOT / "stages" / stage).glob("*.c*")) | {ROOT / name for name in RULES}
    lines = [code(file.name, others.sub("", file.read_text(**ANY_BYTES))) for file in sorted(files)]
    return hashlib.sha256(repr(lines).encode(errors="replace")).hexdigest()[:16]


def digests():
    """The digest of each stage as it is."""
    return {file.parent.name: digest(file.parent.name)
            for file in sorted(ROOT.glob("stages/[0-8]?_*/stage.cu"))}


def sources_file(version):
    """The record of the digests."""
    return FOLDER / f"sources_{version}.txt"


def compiled(version):
    """The stages that nvcc compiles: those of the sample, and all that differ from the record."""
    file, now = sources_file(version), digests()
    known = dict(map(str.split, file.read_text(encoding="utf-8").splitlines())) if file.exists() else {}
    return [stage for stage in now if stage in sampled(list(now)) or known.get(stage) != now[stage]]


def objects(build):
    """The object files of a build that are compiled: those of these stages, and those of no stage."""
    left_out = digests().keys() - compiled(nvcc_version())
    listed = subprocess.run(["ninja", "-C", build, "-t", "inputs", "all"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout.split("\n")
    return [file for file in listed
            if file.endswith(".o") and not any(f"_{stage}.dir/" in file for stage in left_out)]


def machine_code_of(build, stages):
    """What ptxas has said of the kernels of stages, by stage, architecture and kernel."""
    said = {}
    for stage in stages:
        source = ROOT / "stages" / stage / "stage.cu"
        file = build / f"stages/CMakeFiles/stage_{stage}.dir/{stage}/stage.cu.o.ptxas"
        changed = max(path.stat().st_mtime for path in with_included([source]))
        if not file.exists() or file.stat().st_mtime < changed:
            raise RecordError(f"{build} holds no notes of ptxas on {stage} as it is. To make them: cmake --preset "
                              "release -DCMAKE_COMPILE_WARNING_AS_ERROR=ON && cmake --build build/release")
        parts = ENTRY.split(file.read_text(encoding="utf-8"))
        names = demangled(parts[1::3])
        for name, architecture, text in zip(parts[1::3], parts[2::3], parts[3::3]):
            if architecture not in ARCHITECTURES:
                continue
            found = {number: re.search(pattern, text) for number, pattern in NUMBERS.items()}
            said[stage, architecture, names[name]] = {
                number: int(match[1]) if match else 0 for number, match in found.items()}
    return said


# ---- The record -----------------------------------------------------------------------------------

def text_of(title, rows):
    """A file of the record: a title, the names of its columns, and a line for each row."""
    head = " ".join(["#", *next(iter(rows.values()))])
    lines = [(*key, *map(str, numbers.values())) for key, numbers in sorted(rows.items())]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join([f"# {title}", head, *(
        " ".join(word.ljust(width) if n < 3 else word.rjust(width)
                 for n, (word, width) in enumerate(zip(line, widths))) for line in lines)]) + "\n"


def read(file):
    """The title and the rows of a file of the record."""
    title, head, *lines = file.read_text(encoding="utf-8").splitlines()
    names, rows = head.split()[1:], {}
    for line in lines:
        words = line.split()
        rows[tuple(words[:3])] = dict(zip(names, map(int, words[3:])))
    return title.removeprefix("# "), rows


def differences(old, new):
    """The rows that differ, a line for each, in the numbers that both have."""
    lines = []
    for key in sorted(old.keys() | new.keys()):
        if key not in new or key not in old:
            lines.append(f"{' '.join(key)}: {'new' if key in new else 'gone'}")
            continue
        changed = [f"{name} {old[key][name]:,} -> {value:,}" for name, value in new[key].items()
                   if old[key].get(name, value) != value]
        if changed:
            lines.append(f"{' '.join(key)}: {', '.join(changed)}")
    return lines


def settle(file, title, rows, accept):
    """Writes a file of the record, or compares with it. True if it holds."""
    if accept:
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text_of(title, rows), encoding="utf-8")
        return True
    name = file.relative_to(ROOT)
    if not file.exists():
        print(f"{title} has no record ({name}). To make one: {ACCEPT}")
        return True
    made_by, before = read(file)
    if made_by != title:
        print(f"{name} is not compared: it is of {made_by}, not of {title}.")
        return True
    changed = differences(before, rows)
    if changed:
        print("\n".join(changed), f"\n{name} differs. To accept these changes: {ACCEPT}",
              sep="\n", file=sys.stderr)
    return not changed


def counts(options):
    """Settles the record of counts."""
    rows, compiler = counts_of(options.ladder)
    return settle(FOLDER / "counts.txt", compiler, rows, options.accept)


def machine_code(options):
    """Settles the record of machine code."""
    version = nvcc_version()
    if version is None:
        print("There is no nvcc here: the machine code is not compared.")
        return True
    file, stages = FOLDER / f"nvcc_{version}.txt", compiled(version)
    rows = machine_code_of(ROOT / "build/release", stages)
    if file.exists():
        rows |= {key: row for key, row in read(file)[1].items() if key[0] not in stages and recorded(key[0])}
    held = settle(file, f"nvcc {version}", rows, options.accept)
    text = "".join(f"{stage} {now}\n" for stage, now in digests().items())
    known = sources_file(version)
    if options.accept:
        known.write_text(text, encoding="utf-8")
    elif held and (not known.exists() or known.read_text(encoding="utf-8") != text):
        print(f"{known.relative_to(ROOT)} differs: CI compiles these stages each time until you accept their "
              f"sources: {ACCEPT}")
    return held


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="counts | machine_code | objects")
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--ladder", type=pathlib.Path, default=ROOT / "build/simt/bin/ladder")
    options = parser.parse_args()
    if options.what == ["objects"]:
        print(*objects(ROOT / "build/release"), sep="\n")
        return
    settled = {"counts": counts, "machine_code": machine_code}
    unknown = set(options.what) - set(settled)
    if unknown:
        parser.error(f"there is no record of {unknown.pop()}")
    try:
        held = [settled[what](options) for what in options.what or settled]
    except (RecordError, OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"cuflash: {error}") from error
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
