#!/usr/bin/env python3
"""Cost of a call from PyTorch at short sequences, on a GPU, beside scaled_dot_product_attention.

    bench/calls/calls.py --out build/results/calls.json

Microseconds per call at each sequence length, of the forward pass alone (no gradients) and of both
passes, with torch.compile and without it. Further rows show where the time goes: operators that
compute nothing, registered each way; a function called through ctypes; and, from the program
host_calls, the library itself. Calls follow one another without waiting, so the longer of the CPU's
and the GPU's work counts. The ways take turns, round by round; each figure is the median of the
rounds.
"""
import argparse
import ctypes
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]
SEQS = (64, 512)
HEADS, HEAD_DIM = 4, 64
WIDTH = HEADS * HEAD_DIM
OPTIONS = HEAD_DIM ** -0.5, False, -1, -1, False, None  # of the operators


# ---- Timing -------------------------------------------------------------------------------------

def rounds_of(ways, rounds, calls):
    """Microseconds per call of each way, {name: median}. The ways take turns."""
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
    """A function that calls function(*inputs) and its gradients, as training does."""
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
        # Without parameters nothing asks for gradients.
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


def no_operation(torch):
    """(forward ways, ways of both passes) of operators that compute nothing."""
    ops = torch.ops.cuflash_noop
    forward, backward = ops.forward.default, ops.backward.default

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:3], *output)
        ctx.options = inputs[3:]
        ctx.mark_non_differentiable(output[1])

    def gradients(ctx, d_out, _):
        return (*backward(d_out, *ctx.saved_tensors, *ctx.options, [True] * 3),
                *(None for _ in ctx.options))

    class InPython(torch.autograd.Function):  # pylint: disable=abstract-method
        """The gradient, registered as in the package where it has none in C++."""
        # pylint: disable=arguments-differ, protected-access
        @staticmethod
        def forward(ctx, q, k, v, options):
            with torch._C._AutoDispatchBelowAutograd():
                o, lse = forward(q, k, v, *options)
            ctx.save_for_backward(q, k, v, o, lse)
            ctx.options = options
            return o

        @staticmethod
        def backward(ctx, d_out):
            with torch._C._AutoDispatchBelowAutograd():
                return (*backward(d_out, *ctx.saved_tensors, *ctx.options, [True] * 3), None)

    @torch.library.custom_op("cuflash_noop::python", mutates_args=(), schema=(
        "(Tensor q, Tensor k, Tensor v, float softmax_scale, bool causal, int window_left, "
        "int window_right, bool deterministic, str? stage) -> (Tensor, Tensor)"))
    def python(q, _k, _v, *_options):
        batch, seq, heads, _ = q.shape
        return torch.empty_like(q), q.new_empty((batch, heads, seq), dtype=torch.float32)
    python.register_autograd(gradients, setup_context=keep)
    torch.library.register_autograd("cuflash_noop::forward_registered", gradients,
                                    setup_context=keep)
    registered, cpp = ops.forward_registered.default, torch.ops.cuflash_noop_cpp.forward.default
    ways = {"Python custom_op, register_autograd": lambda *qkv: python(*qkv, *OPTIONS)[0],
            "C++ operator, register_autograd": lambda *qkv: registered(*qkv, *OPTIONS)[0],
            "C++ operator, autograd.Function": lambda *qkv: InPython.apply(*qkv, OPTIONS),
            "all in C++ (no stable ABI)": lambda *qkv: cpp(*qkv, *OPTIONS)[0]}
    shape = 1, SEQS[0], HEADS, HEAD_DIM
    q, k, v = qkv = [random(torch, *shape) for _ in range(3)]
    d_o = random(torch, *shape).detach()
    no_gradients = [x.detach() for x in qkv]
    only_forward = {name: lambda way=way: way(*no_gradients) for name, way in ways.items()}
    only_forward["C++ operator"] = lambda: forward(*no_gradients, *OPTIONS)
    return only_forward, {name: both_passes(way, (q, k, v), d_o) for name, way in ways.items()}


def compile_no_operation(torch):
    """Compiles and loads the operators that compute nothing."""
    where = pathlib.Path(torch.__file__).parent
    include = [f"-isystem{where / 'include'}",
               f"-isystem{where / 'include/torch/csrc/api/include'}"]
    link = [f"-L{where / 'lib'}", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"]
    with tempfile.TemporaryDirectory() as folder:
        for name, more in (("noop_operators", ["-std=c++17",
                                               "-DTORCH_TARGET_VERSION=0x020a000000000000"]),
                           ("noop_gradients", ["-std=c++20"])):
            library = f"{folder}/{name}.so"
            subprocess.run(["g++", "-O2", "-fPIC", "-shared", *more, *include, HERE / f"{name}.cpp",
                            "-o", library, *link], check=True)
            torch.ops.load_library(library)


# ---- The rows -----------------------------------------------------------------------------------

def rows_of(table, ways, options, **facts):
    """The cost of (forward ways, ways of both passes), as rows of the result."""
    forward, both = (rounds_of(some, options.rounds, options.calls) for some in ways)
    return [{"table": table, **facts, "way": name, "forward_us": forward[name],
             **({"pair_us": both[name]} if name in both else {})} for name in forward]


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
        compile_no_operation(torch)
        rows += rows_of("nothing", no_operation(torch), options)
        version = ctypes.CDLL(cuflash.library.on("cuda").path).cuflash_version
        rows += rows_of("nothing", ({"a function through ctypes": version}, {}), options)
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
