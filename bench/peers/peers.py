#!/usr/bin/env python3
"""Compares the speed of the library's stages with that of PyTorch's attention, on a GPU.

    bench/peers/peers.py --out build/results/peers.json

The matrix: 16,384 tokens, hidden size 2,048, head_dim 64 and 128, 512 to 16,384 tokens per sequence,
with and without a causal mask, forward and backward. Before a cell is timed, each implementation's
outputs are compared with a reference in double on some heads; an implementation that is wrong is
reported, is not timed, and makes the exit status 1. Run again with the same --out to resume.

--head-dim also takes 32, 96 and 256, which have tables of their own. 96 does not divide 2,048:
there are 21 heads, and the hidden size is 2,016. --seq also takes 65536 and 262144: one sequence of
so many tokens, forward passes only; some of its rows are compared with the reference.

A backward pass whose last bits may differ from run to run is timed twice: by default, as the peers are,
and with the same bits in every run ("09_async_copy, deterministic").
"""
import argparse
import functools
import importlib.metadata
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

import tables

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]
from cuflash.capi import DTYPES, PASSES, Library  # noqa: E402, in python/
from provenance import provenance, save  # noqa: E402, in bench/

TOKENS, HIDDEN = 16384, 2048
SEQS = (512, 1024, 2048, 4096, 8192, 16384)
MORE_SEQS = (65536, 262144)
MASKS = {"no": [False], "yes": [True], "both": [False, True]}
STAGES = "cuflash"  # in --impl: the library's stages
PACKAGES = ("fa3_fwd", "dew-flash-attn-cu13", "flash-attn-4")  # of FlashAttention-3 and 4


class Cell(NamedTuple):
    """One problem of the matrix and the pass that is computed."""
    direction: str
    dtype: str
    head_dim: int
    causal: bool
    seq: int
    batch: int = None  # as many sequences as make up TOKENS
    heads: int = None  # as many as make up HIDDEN

    @property
    def shape(self):
        """[batch, heads, seq, head_dim] of every tensor."""
        return (self.batch or max(TOKENS // self.seq, 1), self.heads or round(HIDDEN / self.head_dim),
                self.seq, self.head_dim)

    @property
    def flops(self):
        """4·B·H·S²·D, halved when causal; backward 2.5 times that."""
        batch, heads, seq, head_dim = self.shape
        forward = 4 * batch * heads * seq ** 2 * head_dim * (0.5 if self.causal else 1)
        return forward if self.direction == "forward" else 2.5 * forward

    def keys(self):
        """The part of a row that says which cell it belongs to."""
        return {"pass": self.direction, "dtype": self.dtype, "head_dim": self.head_dim,
                "causal": self.causal, "seq": self.seq}


# ---- Options ------------------------------------------------------------------------------------

def some_of(*known):
    """For argparse: a list of some of these, separated by commas."""
    def parse(text):
        chosen = [type(known[0])(word) for word in text.split(",")]
        unknown = [str(word) for word in chosen if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"{', '.join(unknown)}: not among {', '.join(map(str, known))}")
        return chosen
    return parse


def parser_of(text):
    """A command line with the options of every measurement."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the JSON file")
    parser.add_argument("--library", type=pathlib.Path,
                        default=ROOT / "build/release/libcuflash_attn.so",
                        help="default: build/release/libcuflash_attn.so")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; default: 5")
    return parser


def options():
    """The command line."""
    parser = parser_of(__doc__)

    def add(name, known, default, what):
        parser.add_argument(name, type=some_of(*known), default=list(default), metavar="A,B,…",
                            help=f"{what}: some of {', '.join(map(str, known))}; "
                                 f"default: {', '.join(map(str, default))}")
    parser.add_argument("--ladder", type=pathlib.Path, default=ROOT / "build/release/bin/ladder",
                        help="the program that lists the stages; default: build/release/bin/ladder")
    parser.add_argument("--stages", metavar="A,B,…",
                        help="names of stages; default: all of the library's")
    implementations = tables.PEERS + (STAGES,)
    add("--impl", implementations, implementations, "implementations")
    add("--pass", PASSES, PASSES, "passes")
    add("--dtype", DTYPES, ["f16"], "element types")
    add("--head-dim", tables.HEAD_DIMS + tables.MORE_HEAD_DIMS, tables.HEAD_DIMS,
        "head dimensions")
    add("--seq", SEQS + MORE_SEQS, SEQS, "lengths")
    parser.add_argument("--causal", choices=MASKS, default="both", help="default: both")
    return parser.parse_args()


def cells_of(args):
    """The part of the matrix that the options select."""
    return [Cell(direction, dtype, head_dim, causal, seq)
            for direction in getattr(args, "pass") for dtype in args.dtype
            for head_dim in args.head_dim for causal in MASKS[args.causal] for seq in args.seq]


def passes_of(args):
    """The facts of each pass of each selected stage."""
    with tempfile.NamedTemporaryFile(suffix=".json") as facts:
        subprocess.run([args.ladder, "--list", "--json", facts.name], check=True)
        passes = json.load(facts)
    known = tables.unique(entry["stage"] for entry in passes)
    stages = args.stages.split(",") if args.stages else known
    unknown = [name for name in stages if name not in known]
    if unknown:
        raise SystemExit(f"no such stage: {', '.join(unknown)}; there are {', '.join(known)}")
    return [entry for entry in passes if entry["stage"] in stages and STAGES in args.impl]


def installed(name, cell):
    """True if a peer can run here: FlashAttention-3 and 4 need separate packages."""
    package = tables.package_of(name, cell.direction, cell.dtype)
    try:
        return package is None or importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of its parent package
        return False


def versions():
    """The installed packages of FlashAttention-3 and 4: "flash-attn-4 4.0.0b36"."""
    return sorted({f"{one.name} {one.version}" for one in importlib.metadata.distributions()
                   if one.name in PACKAGES})


def implementations_of(cell, args, passes):
    """The names of the implementations of a cell, peers first. A pass with a deterministic variant has
    two."""
    names = [name for name in tables.PEERS
             if name in args.impl and installed(name, cell)]
    for entry in passes:
        if (entry["pass"] == cell.direction and cell.dtype in entry["dtypes"]
                and cell.head_dim in entry["head_dims"]):
            both = entry["any_order"] and entry["deterministic"]
            names += [entry["stage"]] + [entry["stage"] + tables.DETERMINISTIC] * both
    return names


# ---- The result's file --------------------------------------------------------------------------

def earlier(path, here):
    """The result to resume, or None; it must come from these sources and this machine."""
    if not path.exists():
        return None
    result = json.loads(path.read_text(encoding="utf-8"))
    there = result["provenance"]
    for key in ("commit", "device", "driver", "cuda", "torch", "cudnn", "compiler", "timing"):
        if there[key] != here[key]:
            raise SystemExit(f"{path} was measured with {key} {there[key]}; here it is "
                             f"{here[key]}. Give another --out, or remove the file.")
    there.setdefault("resumed", []).append({key: here[key] for key in ("date", "command", "rounds")})
    return result


def row_of(cell, candidates):
    """A row of the result."""
    row = {**cell.keys(), "tflops": {}, "not_run": {}}
    for one in candidates:
        if one.reason:
            row["not_run"][one.name] = one.reason
        else:
            ms = statistics.median(one.times)
            spread = round((max(one.times) - min(one.times)) / ms, 4)
            row["tflops"][one.name] = cell.flops / ms * 1e-9, spread
    return row


# ---- The run ------------------------------------------------------------------------------------

def name_of(row):
    """'backward f16 D 64 causal S 512'."""
    return (f"{row['pass']} {row['dtype']} D {row['head_dim']}{' causal' if row['causal'] else ''} "
            f"S {row['seq']}")


def progress(row):
    """One line about a cell, on stderr."""
    figures = [f"{name} {tables.three_digits(speed)}" for name, (speed, _) in row["tflops"].items()]
    figures += [f"{name} – ({reason})" for name, reason in row["not_run"].items()]
    print(f"{name_of(row)}: {', '.join(figures)}", file=sys.stderr, flush=True)


def report(result):
    """Prints all tables on stdout, then the errors; returns the exit status."""
    for head_dims in (tables.HEAD_DIMS, tables.MORE_HEAD_DIMS):
        of_these = tables.with_head_dim(tables.rows_of(result), head_dims)
        for view in tables.VIEWS.values() if of_these else ():
            print(view(of_these) + "\n")
    wrong = [f"{name}, {name_of(row)}: {reason}" for row in result["rows"]
             for name, reason in row["not_run"].items() if reason.startswith(tables.WRONG)]
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def main():
    """Measures the missing cells, then reports all."""
    args = options()
    import torch  # pylint: disable=import-outside-toplevel  # --help does without
    import cells  # pylint: disable=import-outside-toplevel
    if not torch.cuda.is_available():
        raise SystemExit("peers.py measures on a GPU, but there is none")
    library = Library(args.library)
    passes = passes_of(args)
    here = provenance(torch, args.library) | {
        "packages": versions(), "timing": cells.TIMING, "rounds": args.rounds}
    result = earlier(args.out, here)
    if result is None:
        result = {"provenance": here, "ceilings": cells.ceilings(), "rows": []}
    for cell in cells_of(args):
        # A cell is measured as a whole, because only interleaved measurements may be compared.
        there = [row for row in result["rows"] if cell.keys().items() <= row.items()]
        present = [name for row in there for name in (*row["tflops"], *row["not_run"])]
        together = tables.unique([*implementations_of(cell, args, passes), *present])
        if len(together) == len(present):
            continue
        row = row_of(cell, cells.run_cell(cell, {
            name: functools.partial(cells.prepare, library, name) for name in together}, args.rounds))
        result["rows"] = [*(row for row in result["rows"] if row not in there), row]
        save(args.out, result)
        progress(row)
    return report(result)


if __name__ == "__main__":
    sys.exit(main())
