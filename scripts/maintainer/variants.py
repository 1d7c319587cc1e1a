#!/usr/bin/env python3
"""Checks variants of a stage, and times each in pairs with the stage itself.

    scripts/maintainer/variants.py --check
    scripts/maintainer/variants.py --simulator [STAGE...]
    scripts/maintainer/variants.py --build [STAGE...]
    scripts/maintainer/variants.py --out FOLDER [STAGE...]

The first compiles nothing and checks that all variants fit their stages' sources. The second checks
their results on the CPU simulator. The third compiles the program that the fourth runs, on a machine
that needs no GPU: where build/release/variants has the program of the same sources, the fourth compiles
nothing. It needs a GPU, and writes a file tried_NN_name.json for each stage, of which update_pages.py
makes tables: its rows have the time of each variant / that of the stage, from pairs of launches, with half
of the 95 % interval, and the same of an SM's clock cycles. One row is the stage itself, compiled a second
time, as a check of the method. A STAGE is a folder's name; the default is all stages with variants.

A stage's variants stand in its file variants.diff:

    # Why the copies wait.
    [V requested after the product with V]
    head_dims 64 128
    -if (C::kStages > 1 && requests) request_v(tile - 1);

    -if (C::kStages == 1 && requests) request_v(tile - 1);
    +if (requests) request_v(tile - 1);

A variant has a name in words, the head dimensions for which it is meant, a line "gpu_only" if it uses
what the simulator does not have, and hunks of a diff, a paragraph each. The lines of a hunk that begin
with "-" or a space stand exactly once in the stage's sources, one after the other, whatever their
indentation. Those with "+" or a space replace them.

A variant is compiled for f16, one pass and its head dimensions alone: the forward pass, if the stage has
one. One that does not compile, computes something else, hangs or crashes has that outcome in the place of
a time.
"""
import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys

from builds import Build, BuildError, first_pass, narrowed
from repository import ROOT

sys.path.insert(0, str(ROOT / "bench"))
from provenance import save  # noqa: E402, it lies there

LIST = "variants.diff"
PROGRAM = "variants"  # bench/variants.cpp
AS_IT_IS, AGAIN = "the stage as it is", "the same again"
# Seconds of a run (on the simulator, of the processor): so many, and so many for each stage and problem.
LIMIT_S = {"simt": (100, 60), "release": (20, 3)}
TOKENS, HIDDEN = 16384, 2048
# Lengths, masks and layouts. The rows of a head follow each other, or lie a token apart (bshd).
CELLS = ((4096, "", ""), (4096, "", "_bshd"), (1024, "_causal", "_bshd"), (16384, "_causal", "_bshd"))
# Beside these, for a stage that can leave the order of additions open: calls that do not.
IN_ORDER = ((1024, "", "_bshd"), (4096, "_causal", "_bshd"))
SLOWER = re.compile(r"\(C\d+\) Potential Performance Loss")
SPILLED = re.compile(r"Function properties for \S+?(?:half|bfloat16|f)Li(\d+)E\S*\n.*?(\d+) bytes spill stores")


class ListError(Exception):
    """A list of variants is wrong."""


@dataclasses.dataclass
class Variant:
    """A section of a stage's list."""
    stage: str
    name: str
    head_dims: list = dataclasses.field(default_factory=list)
    gpu_only: bool = False
    hunks: list = dataclasses.field(default_factory=list)  # of pairs: the lines before, and after
    id: str = ""  # the name of the stage that it is in the program

    def fault(self, sentence):
        """An error in this section."""
        return ListError(f"stages/{self.stage}/{LIST}: [{self.name}] {sentence}")

    def sources(self):
        """The stage's files with the changes in them, by their names."""
        folder = ROOT / "stages" / self.stage
        texts = {path.name: path.read_text(encoding="utf-8").split("\n")
                 for path in (*folder.glob("*.cuh"), folder / "stage.cu")}
        try:
            change(texts.values(), self.hunks)
        except ListError as error:
            raise self.fault(error) from error
        return {name: "\n".join(lines) for name, lines in texts.items()}

    def write(self, folder):
        """Makes a stage with this variant's id of it, and returns the path of its stage.cu."""
        word, other = self.stage.split("_", 1)[1], self.id.split("_", 1)[1]
        folder = folder / self.id
        folder.mkdir(parents=True)
        for name, text in self.sources().items():
            if name == "stage.cu":
                text = narrowed(text, first_pass(text), ["__half"], self.head_dims)
            text = re.sub(rf"\bcuflash::{word}\b", f"cuflash::{other}", text)
            (folder / name).write_text(text.replace(f'"{self.stage}"', f'"{self.id}"'), "utf-8")
        return folder / "stage.cu"


def read_hunks(text):
    """The lines before and after each hunk of a diff without line numbers."""
    hunks = []
    for paragraph in re.split(r"\n{2,}", text):
        lines = paragraph.split("\n")
        if any(line[:1] not in ("-", "+", " ") for line in lines):
            raise ListError(f'a line begins with "-", "+" or a space:\n{paragraph}')
        hunks.append([[line[1:].strip() for line in lines if line[0] in sign] for sign in ("- ", "+ ")])
        if not hunks[-1][0] or hunks[-1][0] == hunks[-1][1]:
            raise ListError(f"a hunk changes lines that the stage has:\n{paragraph}")
    return hunks


def change(texts, hunks):
    """Puts hunks into texts, which are lists of lines; each hunk's lines stand there exactly once."""
    places = []
    for before, after in hunks:
        found = [(n, lines) for lines in texts for n in range(len(lines))
                 if [line.strip() for line in lines[n:n + len(before)]] == before]
        if len(found) != 1:
            raise ListError(f"these lines stand in the stage's sources {len(found)} times:\n    "
                            + "\n    ".join(before))
        places.append((*found[0], len(before), after))
    for n, lines, length, after in sorted(places, key=lambda place: -place[0]):
        margin = lines[n][:len(lines[n]) - len(lines[n].lstrip())]
        lines[n:n + length] = [margin + line for line in after]


def variants_of(stage, text):
    """The variants in the text of a stage's list."""
    variants = []
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    for section in re.split(r"^(?=\[)", text, flags=re.MULTILINE):
        lines = section.strip("\n").split("\n")
        if lines == [""]:
            continue
        gpu_only = lines[2:3] == ["gpu_only"]
        head = re.fullmatch(r"\[(.+)\]\nhead_dims((?: \d+)+)", "\n".join(lines[:2]))
        if not head:
            raise ListError(f"stages/{stage}/{LIST}: a variant begins with [its name], and "
                            f"head_dims 64 128:\n    {lines[0]}")
        variant = Variant(stage, head[1], [int(word) for word in head[2].split()], gpu_only)
        try:
            variant.hunks = read_hunks("\n".join(lines[2 + gpu_only:]))
        except ListError as error:
            raise variant.fault(error) from error
        variant.sources()
        variants.append(variant)
    return variants


def with_original(variants):
    """The variants of a stage behind the stage itself, for all their head dimensions, and, to be timed,
    the same again."""
    head_dims = sorted({dim for variant in variants for dim in variant.head_dims})
    return [Variant(variants[0].stage, AS_IT_IS, head_dims),
            Variant(variants[0].stage, AGAIN, head_dims, gpu_only=True), *variants]


def shapes(stage, head_dim):
    """The problems that are timed."""
    heads, text = round(HIDDEN / head_dim), (ROOT / "stages" / stage / "stage.cu").read_text("utf-8")
    in_order = IN_ORDER if first_pass(text) == "backward" and "any_order" in text else ()
    return [f"b{TOKENS // seq}_h{heads}_q{seq}k{seq}_d{head_dim}_f16{mask}{layout}{word}"
            for cells, word in ((CELLS, ""), (in_order, "_deterministic")) for seq, mask, layout in cells]


def digest(variants):
    """A digest of all that the program is made of."""
    folders = [ROOT / name for name in ("bench", "cmake", "common", "stages")]
    sources = sorted(path for folder in folders for path in folder.rglob("*")
                     if path.suffix in (".cpp", ".cu", ".cuh", ".h", ".cmake", ".txt"))
    texts = [path.read_bytes() for path in sources] + [
        json.dumps([variant.stage, variant.sources(), variant.head_dims]).encode()
        for variant in variants]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


class Program:
    """The program with variants among its stages."""

    def __init__(self, preset, variants):
        self.simulated = preset == "simt"
        self.limit = LIMIT_S[preset]
        self.folder = ROOT / "build" / preset / "variants"
        self.path = self.folder / PROGRAM
        self.notes = {}  # by the id, what the compiler says of each head dimension
        self.broken = set()  # the ids of those that do not compile
        for number, variant in enumerate(variants):
            variant.id = f"90_variant_{number}"
        made, sources = self.folder / "made.json", digest(variants)
        if made.exists():
            there = json.loads(made.read_text(encoding="utf-8"))
            if there["sources"] == sources:
                self.notes, self.broken = there["notes"], set(there["broken"])
                return
        self.compile(preset, variants)
        made.write_text(json.dumps({"sources": sources, "notes": self.notes,
                                    "broken": sorted(self.broken)}), encoding="utf-8")

    def compile(self, preset, variants):
        """Makes the program."""
        self.build = Build(preset, [PROGRAM])
        shutil.rmtree(self.folder, ignore_errors=True)
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            objects = [made for made in pool.map(self.object_of, variants) if made]
        self.build.linked(PROGRAM, [(None, made) for made in (self.list_of(variants), *objects)],
                          self.path)

    def object_of(self, variant):
        """The variant's object; None if it does not compile."""
        name = next(name for name in self.build.objects_of(f"stages/{variant.stage}/stage.cu")
                    if "/stage_" in name)
        flags = ["-O1", "-w"] if self.simulated else ["-w", "-Xptxas=-v"]
        source = variant.write(self.folder)
        try:
            said = self.build.compiled(name, source, source.with_suffix(".o"), *flags)
        except BuildError as error:
            print(f"[{variant.name}] {error}", file=sys.stderr)
            self.broken.add(variant.id)
            return None
        spilled = {int(dim): int(count) for dim, count in SPILLED.findall(said) if count != "0"}
        slower = ["ptxas serialises its products"] if SLOWER.search(said) else []
        self.notes[variant.id] = {
            str(dim): slower + ([f"spills {spilled[dim]} bytes"] if dim in spilled else [])
            for dim in variant.head_dims}
        return source.with_suffix(".o")

    def list_of(self, variants):
        """The object of the list of all stages, with the variants that compile as local ones."""
        (self.folder / "local_stages.inc").write_text("".join(
            f"CUFLASH_LOCAL_STAGE({variant.id.split('_', 1)[1]})\n" for variant in variants
            if variant.id not in self.broken), encoding="utf-8")
        name, = self.build.objects_of("stages/stages.cpp")
        made = self.folder / "stages.o"
        self.build.compiled(name, ROOT / "stages/stages.cpp", made, headers=[self.folder])
        return made

    def run(self, ids, problems):
        """The results, or in a word why there are none."""
        results = self.folder / "results.json"
        fixed, each = self.limit
        seconds = fixed + each * len(ids) * len(problems)
        if self.simulated:  # What hangs there computes: a busy machine does not look like it.
            limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))}
        else:
            limit = {"timeout": seconds}
        try:
            done = subprocess.run(
                [self.path, "--stages", *ids, "--shapes", *problems, "--json", results],
                **limit, text=True, capture_output=True, check=False)
        except subprocess.TimeoutExpired:
            return "hangs"
        if done.returncode == -signal.SIGXCPU:
            return "hangs"
        print(done.stderr, end="", file=sys.stderr)
        if done.returncode != 0:
            last = done.stderr.strip().split("\n")[-1] or f"exit status {done.returncode}"
            return f"crashes: {last.split(': ')[-1]}"
        return json.loads(results.read_text(encoding="utf-8"))

    def run_all(self, ids, problems):
        """The results of all, each beside the first. Where one of them hangs or crashes, each of the others
        has a run with the first."""
        if isinstance(result := self.run(ids, problems), dict):
            return result
        first, *others = ids
        result = self.run([first], problems)
        if not isinstance(result, dict):
            raise BuildError(f"{PROGRAM} {result}")
        for id_ in others:
            pair = self.run([first, id_], problems)
            result["rows"] += ([row for row in pair["rows"] if row["stage"] == id_]
                               if isinstance(pair, dict) else
                               [{"stage": id_, "problem": problem, "failed": pair} for problem in problems])
        return result


def measured(program, variants):
    """The results of variants of a stage."""
    names, stage = {variant.id: variant.name for variant in variants}, variants[0].stage
    rows = []
    for dim in sorted({dim for variant in variants for dim in variant.head_dims}):
        meant = [variant.id for variant in variants if dim in variant.head_dims]
        problems = shapes(stage, dim)
        result = program.run_all([id_ for id_ in meant if id_ not in program.broken], problems)
        found = result["rows"] + [{"stage": id_, "problem": problem, "failed": "does not compile"}
                                  for id_ in meant if id_ in program.broken for problem in problems]
        for row in sorted(found, key=lambda row: meant.index(row["stage"])):
            id_ = row.pop("stage")
            notes = program.notes.get(id_, {}).get(str(dim))
            rows.append({"variant": names[id_], **row} | ({"notes": notes} if notes else {}))
    command = " ".join(["scripts/maintainer/variants.py", *sys.argv[1:]])
    return {"provenance": result["provenance"] | {"command": command}, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true")
    what.add_argument("--simulator", action="store_true")
    what.add_argument("--build", action="store_true")
    what.add_argument("--out", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("stages", nargs="*", metavar="STAGE")
    options = parser.parse_args()
    stages = options.stages or sorted(path.parent.name for path in ROOT.glob(f"stages/*/{LIST}"))
    try:
        variants = {stage: with_original(variants_of(
            stage, (ROOT / "stages" / stage / LIST).read_text("utf-8"))) for stage in stages}
        if options.check:
            return
        if options.simulator:
            variants = {stage: [variant for variant in those if not variant.gpu_only]
                        for stage, those in variants.items()}
        program = Program("simt" if options.simulator else "release", sum(variants.values(), []))
        if options.build:
            return
        for stage in stages:
            result = measured(program, variants[stage])
            for row in result["rows"]:
                outcome = row.get("failed") or (f"{row['tflops']:.0f} TFLOP/s" if "tflops" in row else "right")
                if "ratio" in row:
                    outcome += (f", time {row['ratio']:.4f} ± {row['spread']:.4f}, "
                                f"cycles {row['cycles_ratio']:.4f} ± {row['cycles_spread']:.4f}")
                print(f"{stage}  {row['problem']:42} {row['variant']:50} {outcome}", flush=True)
            if options.out:
                save(options.out / f"tried_{stage}.json", result)
    except (BuildError, ListError, OSError) as error:
        raise SystemExit(f"cuflash: {error}") from error


if __name__ == "__main__":
    main()
