#!/usr/bin/env python3
"""Cost of a call from PyTorch at short sequences, on a GPU, compared with scaled_dot_product_attention.

    bench/calls/calls.py --out build/results/calls.json

Microseconds per call at each sequence length, of the forward pass alone (no gradients) and of both
passes, with torch.compile and without it. Rows of the program host_calls show the library alone. Calls
follow one another without waiting, so the longer of the CPU's and the GPU's work counts. The ways
alternate, round by round; each figure is the median of the rounds.
"""
import argparse
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]
SEQS = (64, 512)
HEADS, HEAD_DIM = 4, 64
WIDTH = HEADS * HEAD_DIM


# ---- Timing -------------------------------------------------------------------------------------

def rounds_of(ways, rounds, calls):
    """Microseconds per call of each way, {name: median}. The ways alternate."""
    import torch  # pylint: disable=import-outside-toplevel
    times = {name: [] for name in ways}
    for index in range(rounds + 1):  # the first is for warming up
        for name, call in ways.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            torch.cuda.synchronize()
            if index > 0:
                times[name].append((time.perf_counter() - begin) / calls * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def both_passes(function, inputs, d_o, parameters=()):
    """Returns a function that computes function(*inputs) and its gradients, as training does."""
    def call():
        for x in (*inputs, *parameters):
            x.grad = None
        function(*inputs).backward(d_o)
    return call


# ---- The ways -----------------------------------------------------------------------------------

def random(torch, *shape):
    """Random numbers that require gradients."""
    return torch.randn(shape, device="cuda", dtype=torch.float16, requires_grad=True)


def ways_of(torch, functions):
    """(forward ways, ways of both passes) of {name: (function, inputs' shapes, parameters)}."""
    forward, both = {}, {}
    for name, (function, shapes, parameters) in functions.items():
        inputs = [random(torch, *shape) for shape in shapes]
        detached = [x.detach() for x in inputs]
        d_o = random(torch, *shapes[0]).detach()

        def no_gradients(function=function, detached=detached):
            with torch.no_grad():
                return function(*detached)
        # Without parameters no gradients are recorded.
        forward[name] = no_gradients if parameters else functools.partial(function, *detached)
        both[name] = both_passes(function, inputs, d_o, parameters)
    return forward, both


def attention(torch, seq, layer):
    """The ways to call attention alone."""
    import cuflash  # pylint: disable=import-outside-toplevel
    bshd, bhsd = [(1, seq, HEADS, HEAD_DIM)] * 3, [(1, HEADS, seq, HEAD_DIM)] * 3
    functions = {f"cuflash, {layer} operators": (cuflash.flash_attn_func, bshd, ())}
    if layer == "compiled":
        functions["SDPA"] = torch.nn.functional.scaled_dot_product_attention, bhsd, ()
    return ways_of(torch, functions)


def with_compiler(torch, seq):
    """With torch.compile and without it: attention alone, attention between the projections of a
    model, and a sum for comparison."""
    import cuflash  # pylint: disable=import-outside-toplevel
    sdpa = torch.nn.functional.scaled_dot_product_attention
    inward, outward = parameters = random(torch, 3 * WIDTH, WIDTH), random(torch, WIDTH, WIDTH)

    def sdpa_bshd(q, k, v):
        return sdpa(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)).transpose(1, 2)

    def block_of(function):
        def block(x):
            qkv = torch.nn.functional.linear(x, inward).unflatten(-1, (3, HEADS, HEAD_DIM)).unbind(2)
            return torch.nn.functional.linear(function(*qkv).flatten(2), outward) + x
        return block, [(1, seq, WIDTH)], parameters

    bshd, bhsd = [(1, seq, HEADS, HEAD_DIM)] * 3, [(1, HEADS, seq, HEAD_DIM)] * 3
    eager = {"cuflash": (cuflash.flash_attn_func, bshd, ()), "SDPA": (sdpa, bhsd, ()),
             "q + k + v": (lambda q, k, v: q + k + v, bshd, ()),
             "projections around cuflash": block_of(cuflash.flash_attn_func),
             "projections around SDPA": block_of(sdpa_bshd)}
    torch._dynamo.config.recompile_limit = 100  # pylint: disable=protected-access
    functions = {}  # more than 8, the usual limit, share a line of code
    for name, (function, *rest) in eager.items():
        compiled = torch.compile(function, fullgraph=True)
        replayed = torch.compile(function, fullgraph=True, mode="reduce-overhead")  # CUDA graphs
        functions |= {f"{name}, eager": (function, *rest), f"{name}, compiled": (compiled, *rest),
                      f"{name}, reduce-overhead": (replayed, *rest)}
    return ways_of(torch, functions)


# ---- The rows -----------------------------------------------------------------------------------

def rows_of(table, ways, options, **facts):
    """The cost of (forward ways, ways of both passes), as rows of the result."""
    forward, both = (rounds_of(some, options.rounds, options.calls) for some in ways)
    return [{"table": table, **facts, "way": name, "forward_us": forward[name],
             "pair_us": both[name]} for name in forward]


def rows_here(options):
    """The rows of this process: all but those of the library alone. For the operators through
    ctypes, attention only."""
    import torch  # pylint: disable=import-outside-toplevel
    import cuflash  # pylint: disable=import-outside-toplevel
    layer = cuflash.backend_info()["operators"]
    rows = [row for seq in SEQS
            for row in rows_of("attention", attention(torch, seq, layer), options, seq=seq)]
    if layer == "compiled":
        rows += [row for seq in SEQS
                 for row in rows_of("torch.compile", with_compiler(torch, seq), options, seq=seq)]
    return rows


def rows_through_ctypes(options):
    """The rows of another process, which uses the operators through ctypes."""
    command = [sys.executable, __file__, "--rounds", str(options.rounds), "--calls",
               str(options.calls), "--print"]
    done = subprocess.run(command, env={**os.environ, "CUFLASH_OPERATORS": "ctypes"}, check=True,
                          stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def rows_of_the_library(program):
    """The rows of host_calls."""
    done = subprocess.run([program, "--benchmark_format=json", "--benchmark_repetitions=9",
                           "--benchmark_report_aggregates_only=true"], check=True,
                          stdout=subprocess.PIPE, text=True)
    return [{"table": "library", "way": row["run_name"].split("/iterations")[0],
             "host_us": row["real_time"] / 1e3}
            for row in json.loads(done.stdout)["benchmarks"] if row["aggregate_name"] == "median"]


def show(rows):
    """Prints the rows."""
    for row in rows:
        times = "".join(f"{row[key]:10.2f}" if key in row else " " * 10
                        for key in ("forward_us", "pair_us", "host_us"))
        print(f"{row['table']:14}{row.get('seq', ''):>5}  {row['way']:40}{times}")


def main():
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="the JSON file")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--calls", type=int, default=300, help="of each way in a round")
    parser.add_argument("--print", action="store_true", help="the rows of this process, as JSON")
    options = parser.parse_args()
    rows = rows_here(options)
    if options.print:
        print(json.dumps(rows))
        return
    import torch  # pylint: disable=import-outside-toplevel
    from cuflash import backend_info, library  # pylint: disable=import-outside-toplevel
    from provenance import provenance, save  # pylint: disable=import-outside-toplevel
    path = pathlib.Path(library.on("cuda").path)
    rows += rows_through_ctypes(options) + rows_of_the_library(path.parent / "bin/host_calls")
    rows.sort(key=lambda row: (row["table"], row.get("seq", 0)))
    show(rows)
    if options.out:
        info = backend_info()
        used = {key: info[key] for key in ("operators", "gradients")}
        save(options.out, {"provenance": provenance(torch, path) | used, "rows": rows})


if __name__ == "__main__":
    main()
