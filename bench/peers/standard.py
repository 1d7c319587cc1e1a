#!/usr/bin/env python3
"""Compares the library's attention with standard attention, which keeps S in memory, on a GPU.

    bench/peers/standard.py --out build/results/standard.json

The problems are forward passes in f16 with 8 heads, head_dim 64 and the causal mask. `standard` is
softmax(Q Kᵀ · scale) V in PyTorch's operations, with a mask that exists before the call; `math` is
PyTorch's attention without a fused kernel. Beside them runs the stage that the library chooses. Batches
of 1, 8 and 32 sequences of 1,024 tokens are checked and timed as peers.py does. For one sequence of each
length, the memory is what PyTorch's allocator hands out at most in addition to Q, K, V and O.
"""
import contextlib
import functools
import math
import sys

import peers
import tables

BATCHES, TIMED_SEQ = (1, 8, 32), 1024
SEQS = (1024, 2048, 4096, 8192, 16384)


def cell_of(batch, seq):
    """A problem."""
    return peers.Cell("forward", "f16", 64, True, seq, batch, heads=8)


def prepare(library, name, cell, inputs):
    """Prepares an implementation, with tensors that lie as [B, H, S, D], so that no product copies them."""
    import torch  # pylint: disable=import-outside-toplevel  # --help does without
    import cells  # pylint: disable=import-outside-toplevel
    q, k, v, d_o = (tensor.contiguous() for tensor in inputs)
    if name == "math":
        return cells.Prepared(lambda: (cells.scaled_dot_product_attention(q, k, v, is_causal=True),),
                              lambda: cells.sdpa_kernel(cells.BACKENDS[name]))
    if name != tables.STANDARD:
        return cells.prepare_stage(library, name, cell, (q, k, v, d_o))
    hidden = torch.ones(cell.seq, cell.seq, dtype=torch.bool, device=q.device).triu(1)

    def call():
        s = (q * cell.head_dim ** -0.5) @ k.transpose(-2, -1)
        return (torch.softmax(s.masked_fill(hidden, -math.inf), dim=-1) @ v,)
    return cells.Prepared(call, contextlib.nullcontext)


def memory(cell, implementations):
    """The row of a cell: the bytes of each implementation, or why there are none."""
    import torch  # pylint: disable=import-outside-toplevel
    import cells  # pylint: disable=import-outside-toplevel
    inputs = [tensor.contiguous() for tensor in cells.make_inputs(cell)]
    row = {"seq": cell.seq, "extra_bytes": {}, "not_run": {}}
    for name, prepares in implementations.items():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        try:
            prepared = prepares(cell, inputs)
            with prepared.context():
                (o,) = prepared.call()
            row["extra_bytes"][name] = torch.cuda.max_memory_allocated() - before - o.nbytes
        except RuntimeError as error:
            row["not_run"][name] = cells.known_reason(error)
        prepared = o = None  # gives the memory back
    return row


def main():
    """Measures all and prints both tables."""
    args = peers.parser_of(__doc__).parse_args()
    import torch  # pylint: disable=import-outside-toplevel
    import cells  # pylint: disable=import-outside-toplevel
    if not torch.cuda.is_available():
        raise SystemExit("standard.py measures on a GPU, but there is none")
    library = peers.Library(args.library)

    def implementations(cell):
        names = tables.STANDARD, "math", library.chosen_stage("forward", cells.problem_of(cell, cell.seq))
        return {name: functools.partial(prepare, library, name) for name in names}
    result = {"provenance": peers.provenance(torch, args.library) | {
        "timing": cells.TIMING.replace("[B, S, H, D]", "[B, H, S, D]"), "rounds": args.rounds}, "rows": [], "memory": []}
    for cell in (cell_of(batch, TIMED_SEQ) for batch in BATCHES):
        row = peers.row_of(cell, cells.run_cell(cell, implementations(cell), args.rounds))
        result["rows"].append({"batch": cell.batch, "heads": cell.heads, **row})
    # After the times, because the first product allocates cuBLAS's workspace, which no call gives back.
    for cell in (cell_of(1, seq) for seq in SEQS):
        result["memory"].append(memory(cell, implementations(cell)))
    peers.save(args.out, result)
    for view in tables.STANDARD_VIEWS.values():
        print(view(result) + "\n")
    return 1 if any(row["not_run"] for row in result["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
