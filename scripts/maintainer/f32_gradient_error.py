#!/usr/bin/env python3
"""Shows what would make the f32 gradients of 04 less accurate: replaces one thing at a time, and
prints dQ's error, absolute and relative to the largest |dQ|.

    scripts/maintainer/f32_gradient_error.py

Each row is the backward pass of 04_register_tiles with one line changed, in a copy of the sources,
run on the CPU simulator and compared with the oracle. docs/results/cpu-simulator/04_coarser.txt is
its output.
"""
import argparse
import math
import pathlib
import subprocess
import sys
import tempfile

from repository import copy_sources

STAGE = "stages/04_register_tiles/"
SHAPES = ["b1_h2_q256k256_d64_f32", "b1_h2_q256k256_d64_f32_peaky"]
NAMES = ["N(0, 1) inputs", "with outliers"]
ROUNDED = "{__half(x.x), __half(x.y), __half(x.z), __half(x.w)}"

# Each change: a description, the file, the line, and the line that replaces it.
CHANGES = [
    ("nothing", "kernel.cuh", "", ""),
    ("LSE rounded to f16", "kernel_bwd.cuh", "row_lse[m] = lse_log2(p, b, h, i);",
     "row_lse[m] = __half(lse_log2(p, b, h, i));"),
    ("delta from an O rounded to f16", "kernel_bwd.cuh",
     "const float4 o = load4(&gO(i, d)), d_o = load4(&gdO(i, d));",
     f"const float4 x = load4(&gO(i, d)), o = {ROUNDED}, d_o = load4(&gdO(i, d));"),
    ("S rounded to f16", "kernel_bwd.cuh",
     "const float prob = seen ? exp2f(rS[m][n] * scale_log2 - row_lse[m]) : 0.f;",
     "const float prob = seen ? exp2f(float(__half(rS[m][n])) * scale_log2 - row_lse[m]) : 0.f;"),
    ("dS rounded to f16", "kernel_bwd.cuh",
     "sdS[row + 4 * m][column + 8 * n] = prob * (rdP[m][n] - row_delta[m]);",
     "sdS[row + 4 * m][column + 8 * n] = __half(prob * (rdP[m][n] - row_delta[m]));"),
    ("Q, K, V, dO rounded to f16", "kernel.cuh",
     "store4(&tile[r][d], first + r < num_rows ? load4(from) : float4{});",
     f"const float4 x = first + r < num_rows ? load4(from) : float4{{}}; "
     f"store4(&tile[r][d], float4{ROUNDED});"),
    ("delta left out: a bug", "kernel_bwd.cuh",
     "sdS[row + 4 * m][column + 8 * n] = prob * (rdP[m][n] - row_delta[m]);",
     "sdS[row + 4 * m][column + 8 * n] = prob * rdP[m][n];"),
]


def errors(copy):
    """(largest error of dQ, its largest magnitude) for each shape."""
    for command in (["cmake", "--preset", "simt"],
                    ["cmake", "--build", "build/simt", "--target", "tensor_errors"]):
        done = subprocess.run(command, cwd=copy, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout)
    text = subprocess.run([copy / "build/simt/bin/tensor_errors", "04", "backward", *SHAPES],
                          check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return [(float(error), float(largest)) for _, tensor, error, largest, _ in rows
            if tensor == "dQ"]


def shown(error, top):
    """The error in words: '1.1e-06 = 1e-06 |dQ|'."""
    return f"{error:.1e} = {error / top:.0e}" if math.isfinite(error) else "not a number"


def main():
    argparse.ArgumentParser(description=__doc__,
                            formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory(prefix="cuflash_coarser_") as folder:
        copy = pathlib.Path(folder)
        copy_sources(copy)
        for n, (words, file, line, becomes) in enumerate(CHANGES):
            path = copy / STAGE / file
            original = path.read_text(encoding="utf-8")
            if line and original.count(line) != 1:
                sys.exit(f"{STAGE}{file} does not hold this line once: {line}")
            path.write_text(original.replace(line, becomes), encoding="utf-8")
            measured = errors(copy)
            path.write_text(original, encoding="utf-8")
            if n == 0:
                print(f"{'replaced':31}" + "".join(f"{name:>22}" for name in NAMES))
                print(f"{'':31}" + "".join(f"{f'|dQ| up to {top:.2g}':>22}" for _, top in measured))
            print(f"{words:31}" + "".join(f"{shown(*one):>22}" for one in measured), flush=True)


main()
