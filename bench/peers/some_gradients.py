#!/usr/bin/env python3
"""Times backward passes that compute only some of the gradients, on a GPU.

    bench/peers/some_gradients.py --out build/results/some_gradients.json STAGE...

f16, 16,384 tokens, hidden size 2,048, head_dim 64 and 128, 4,096 tokens a sequence without a mask and
1,024 with a causal one. Each set of gradients is checked and timed as peers.py does it. The file has
milliseconds, in a row for each stage and problem.
"""
import argparse
import itertools
import pathlib
import statistics
import sys

from peers import ROOT, Cell  # which also sets the path
from cuflash.capi import Library
from provenance import provenance, save

CELLS = [Cell("backward", "f16", head_dim, causal, seq)
         for head_dim in (64, 128) for causal, seq in ((False, 4096), (True, 1024))]


def milliseconds(library, stage, cell, rounds):
    """{the gradients, joined by spaces: the median time}. The sets take turns."""
    import accuracy  # pylint: disable=import-outside-toplevel
    import cells  # pylint: disable=import-outside-toplevel
    names = accuracy.NAMES["backward"]
    inputs = cells.make_inputs(cell)
    expected = accuracy.Expected("backward", inputs, cell.causal)
    calls, times = {}, {}
    for wanted in itertools.chain.from_iterable(
            itertools.combinations(names, count) for count in (3, 2, 1)):
        call = cells.prepare_stage(library, stage, cell, inputs, wanted)
        name, error, limit = expected.worst(call.call())
        if not error <= limit:
            raise SystemExit(f"{stage}, {' '.join(wanted)}: {name} is off by {error:.3g}, the limit is "
                             f"{limit:.3g}")
        calls[" ".join(wanted)] = call, cells.timed(call.call, 1)
        times[" ".join(wanted)] = []
    for _ in range(rounds):
        for wanted, (call, about) in calls.items():
            times[wanted].append(cells.measure(call, about))
    return {wanted: statistics.median(rounds) for wanted, rounds in times.items()}


def main():
    """Measures all."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the JSON file")
    parser.add_argument("--library", type=pathlib.Path,
                        default=ROOT / "build/release/libcuflash_attn.so",
                        help="default: build/release/libcuflash_attn.so")
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("stages", metavar="STAGE", nargs="+", help="that computes nothing for a null gradient")
    args = parser.parse_args()
    import torch  # pylint: disable=import-outside-toplevel  # --help does without
    import cells  # pylint: disable=import-outside-toplevel
    library = Library(args.library)
    rows = [{"stage": stage, "cell": cell._asdict(),
             "gradients_ms": milliseconds(library, stage, cell, args.rounds)}
            for stage in args.stages for cell in CELLS]
    save(args.out, {"provenance": provenance(torch, args.library) | {"timing": cells.TIMING},
                    "rows": rows})
    for row in rows:
        print(row["stage"], row["cell"], row["gradients_ms"])


if __name__ == "__main__":
    main()
