#!/usr/bin/env python3
"""What a call from PyTorch costs at short sequences, on a GPU, beside scaled_dot_product_attention.

    bench/calls/calls.py --out build/results/calls.json

Microseconds a call at each sequence length, of the forward pass alone (no gradients) and of the pair,
forward and backward. Then where they go: operators that compute nothing, registered each
way; a function called through ctypes; and, from the program host_calls, the library itself. Calls
follow one another without waiting, so the longer of the CPU's and the GPU's work counts. The ways
take turns, round by round; each figure is the median of the rounds.
"""
import argparse
import ctypes
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
OPTIONS = HEAD_DIM ** -0.5, False, -1, -1, False, None  # of the operators


# ---- Timing -------------------------------------------------------------------------------------

def rounds_of(ways, rounds, calls):
    """Microseconds a call of each way, {name: median}; they take turns."""
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


def pair(function, qkv, d_o):
    """Both passes of function(q, k, v), as training calls them."""
    def call():
        for x in qkv:
            x.grad = None
        function(*qkv).backward(d_o)
    return call


# ---- The ways -----------------------------------------------------------------------------------

def tensors(torch, seq, bhsd):
    """q, k and v that require gradients, and a gradient."""
    shape = (1, HEADS, seq, HEAD_DIM) if bhsd else (1, seq, HEADS, HEAD_DIM)
    *qkv, d_o = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(4))
    return [x.requires_grad_() for x in qkv], d_o


def attention(torch, seq, layer):
    """(forward ways, pair ways) of attention itself."""
    import cuflash  # pylint: disable=import-outside-toplevel
    from torch.nn.attention import SDPBackend, sdpa_kernel  # pylint: disable=import-outside-toplevel
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def flash(q, k, v):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return sdpa(q, k, v)
    functions = {f"cuflash, {layer}": (cuflash.flash_attn_func, False)}
    if layer == "compiled":
        compiled = torch.compile(cuflash.flash_attn_func, fullgraph=True)
        functions |= {"SDPA": (sdpa, True), "SDPA, flash chosen by name": (flash, True),
                      "cuflash under torch.compile": (compiled, False),
                      "SDPA under torch.compile": (torch.compile(sdpa, fullgraph=True), True)}
    forward, both = {}, {}
    for name, (function, bhsd) in functions.items():
        qkv, d_o = tensors(torch, seq, bhsd)
        inputs = [x.detach() for x in qkv]
        forward[name] = lambda function=function, inputs=inputs: function(*inputs)
        both[name] = pair(function, qkv, d_o)
    return forward, both


def no_operation(torch):
    """(forward ways, pair ways) of operators that compute nothing."""
    ops = torch.ops.cuflash_noop
    forward, backward = ops.forward.default, ops.backward.default
    qkv, d_o = tensors(torch, SEQS[0], False)

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:3], *output)
        ctx.options = inputs[3:]
        ctx.mark_non_differentiable(output[1])

    def gradients(ctx, d_out, _):
        return (*backward(d_out, *ctx.saved_tensors, *ctx.options, [True] * 3),
                *(None for _ in ctx.options))

    class InPython(torch.autograd.Function):  # pylint: disable=abstract-method
        """The gradient as the package has it."""
        @staticmethod
        def forward(ctx, *inputs):  # pylint: disable=arguments-differ
            with torch._C._AutoDispatchBelowAutograd():  # pylint: disable=protected-access
                output = forward(*inputs)
            keep(ctx, inputs, output)
            return output
        backward = staticmethod(gradients)

    @torch.library.custom_op("cuflash_noop::python", mutates_args=(), schema=(
        "(Tensor q, Tensor k, Tensor v, float softmax_scale, bool causal, int window_left, "
        "int window_right, bool deterministic, str? stage) -> (Tensor, Tensor)"))
    def python(q, _k, _v, *_options):
        batch, seq, heads, _ = q.shape
        return torch.empty_like(q), q.new_empty((batch, heads, seq), dtype=torch.float32)
    python.register_autograd(gradients, setup_context=keep)
    torch.library.register_autograd("cuflash_noop::forward_registered", gradients,
                                    setup_context=keep)
    ways = {"Python custom_op, register_autograd": python,
            "C++ operator, register_autograd": ops.forward_registered.default,
            "C++ operator, autograd.Function": InPython.apply,
            "all in C++ (no stable ABI)": torch.ops.cuflash_noop_cpp.forward.default}
    inputs = [x.detach() for x in qkv]
    only_forward = {name: lambda way=way: way(*inputs, *OPTIONS) for name, way in ways.items()}
    only_forward["C++ operator"] = lambda: forward(*inputs, *OPTIONS)
    both = {name: pair(lambda *qkv, way=way: way(*qkv, *OPTIONS)[0], qkv, d_o)
            for name, way in ways.items()}
    return only_forward, both


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
    """What (forward ways, pair ways) cost, as rows of the result."""
    forward, both = (rounds_of(some, options.rounds, options.calls) for some in ways)
    return [{"table": table, **facts, "way": name, "forward_us": forward[name],
             **({"pair_us": both[name]} if name in both else {})} for name in forward]


def rows_here(options):
    """Everything but the library alone, in this process; of the operators through ctypes only
    attention."""
    import torch  # pylint: disable=import-outside-toplevel
    import cuflash  # pylint: disable=import-outside-toplevel
    layer = cuflash.backend_info()["operators"]
    rows = [row for seq in SEQS
            for row in rows_of("attention", attention(torch, seq, layer), options, seq=seq)]
    if layer == "compiled":
        compile_no_operation(torch)
        rows += rows_of("nothing", no_operation(torch), options)
        version = ctypes.CDLL(cuflash.library.on("cuda").path).cuflash_version
        rows += rows_of("nothing", ({"a function through ctypes": version}, {}), options)
    return rows


def rows_through_ctypes(options):
    """Those of a process where the operators are those through ctypes."""
    command = [sys.executable, __file__, "--rounds", str(options.rounds), "--calls",
               str(options.calls), "--print"]
    done = subprocess.run(command, env={**os.environ, "CUFLASH_OPERATORS": "ctypes"}, check=True,
                          stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def rows_of_the_library(program):
    """Those of host_calls."""
    done = subprocess.run([program, "--benchmark_format=json", "--benchmark_repetitions=9",
                           "--benchmark_report_aggregates_only=true"], check=True,
                          stdout=subprocess.PIPE, text=True)
    return [{"table": "library", "way": row["run_name"].split("/iterations")[0],
             "host_us": row["real_time"] / 1e3}
            for row in json.loads(done.stdout)["benchmarks"] if row["aggregate_name"] == "median"]


def show(rows):
    """Prints them."""
    for row in rows:
        times = "".join(f"{row[key]:10.2f}" if key in row else " " * 10
                        for key in ("forward_us", "pair_us", "host_us"))
        print(f"{row['table']:10}{row.get('seq', ''):>5}  {row['way']:40}{times}")


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
    from cuflash import library  # pylint: disable=import-outside-toplevel
    from provenance import provenance, save  # pylint: disable=import-outside-toplevel
    path = pathlib.Path(library.on("cuda").path)
    rows += rows_through_ctypes(options) + rows_of_the_library(path.parent / "bin/host_calls")
    rows.sort(key=lambda row: (row["table"], row.get("seq", 0)))
    show(rows)
    if options.out:
        save(options.out, {"provenance": provenance(torch, path), "rows": rows})


if __name__ == "__main__":
    main()
