#!/usr/bin/env python3
"""Times backward passes that compute only some of the gradients, on a GPU.

    bench/peers/some_gradients.py --out build/results/some_gradients.json STAGE...

f16, 16,384 tokens, hidden size 2,048, head_dim 64 and 128, 4,096 tokens a sequence without a mask and
1,024 with a causal one. Each set of gradients is checked and timed as peers.py does it. The file has
milliseconds, in a row for each stage and problem.
"""
import functools
import itertools
import statistics

from peers import Cell, parser_of  # which also sets the path
from cuflash.capi import Library
from provenance import provenance, save

CELLS = [Cell("backward", "f16", head_dim, causal, seq)
         for head_dim in (64, 128) for causal, seq in ((False, 4096), (True, 1024))]


def milliseconds(library, stage, cell, rounds):
    """{the gradients, joined by spaces: the median time}."""
    import accuracy  # pylint: disable=import-outside-toplevel
    import cells  # pylint: disable=import-outside-toplevel
    sets = itertools.chain.from_iterable(
        itertools.combinations(accuracy.NAMES["backward"], count) for count in (3, 2, 1))
    candidates = cells.run_cell(cell, {
        " ".join(wanted): functools.partial(cells.prepare_stage, library, stage, wanted=wanted)
        for wanted in sets}, rounds)
    for one in candidates:
        if one.reason:
            raise SystemExit(f"{stage}, {one.name}: {one.reason}")
    return {one.name: statistics.median(one.times) for one in candidates}


def main():
    """Measures all."""
    parser = parser_of(__doc__)
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
