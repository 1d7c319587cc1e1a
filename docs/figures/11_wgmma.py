"""Figures of stages/11_wgmma: who has which rows, and how operands lie in shared memory."""

import re

from drawing import Figure, LEFT, SMALL
from sources import integer, read

KERNEL = "stages/11_wgmma/kernel.cuh"
SIZES = "common/device/warpgroup.h"
COLOURS = ("blue", "orange", "green", "purple")


def tile_keys():
    """The keys of a tile with head_dim 64."""
    return int(re.search(r"case 64:\s+return \{(\d+),", read(KERNEL))[1])


def rows():
    """The rows of a block's Q, and those of S in the warps of a warpgroup."""
    warps, wide = integer(SIZES, "kWarpgroupWarps"), integer(SIZES, "kWgmmaM")
    groups = integer(KERNEL, "kWarpgroups")
    keys, of_warp = tile_keys(), wide // warps
    figure = Figure(
        "11_rows",
        396,
        "A warpgroup's product: 64 rows, 16 for each warp",
        f"A block has {groups * wide} queries, {wide} for each of its {groups} warpgroups. A"
        f" warpgroup multiplies its rows of Q by a tile of K, {keys} keys. Each of its {warps} warps"
        f" gets {of_warp} rows of S, in registers.",
    )
    y, scale = 104, 2
    high = scale * wide
    x_q, x_k, x_s = 36, 300, 500
    figure.text(x_q + 70, y - 22, "sQ", SMALL, "middle", mono=True)
    for group in range(groups):
        at = y + group * (high + 8)
        figure.box(x_q, at, 140, high, "grey" if group else "sky", f"warpgroup {group}", SMALL,
                   below=(f"rows {group * wide}-{(group + 1) * wide - 1}",))
    figure.text((x_q + 140 + x_k) / 2, y + high / 2, "·", bold=True, anchor="middle")
    figure.text(x_k + 70, y - 22, "K of the tile, transposed", SMALL, "middle")
    figure.box(x_k, y, 140, high, "yellow", "sK", SMALL, below=(f"{keys} keys",), mono=True)
    figure.text((x_k + 140 + x_s) / 2, y + high / 2, "=", bold=True, anchor="middle")
    figure.text(x_s + 90, y - 22, "S, in registers", SMALL, "middle")
    for warp in range(warps):
        figure.box(x_s, y + warp * high / warps, 180, high / warps - 2, COLOURS[warp],
                   f"warp {warp}: {of_warp * warp}-{of_warp * (warp + 1) - 1}", SMALL)
    figure.lines(x_k - 70, y + high + 46, [
        "Both operands come from shared memory.",
        f"All four warps use the same {keys} keys.",
        "In a warp S lies as in 07, so P is the left operand",
        "of P V in place.",
    ], SMALL)
    return figure


def operands():
    """The bytes of one step of each product in the tiles of K and V."""
    keys, step = tile_keys(), integer(SIZES, "kWgmmaK")
    columns, row_bytes = 64, 128
    figure = Figure(
        "11_operands",
        520,
        "One step of each product, in rows of 128 bytes",
        f"Tiles of {keys} keys and {columns} columns. A step of Q Kᵀ takes {step} columns of all"
        f" keys: the next begins {2 * step} bytes further. A step of P V takes all columns of"
        f" {step} keys: the next begins {step * row_bytes} bytes further. Groups of 8 rows are"
        f" {8 * row_bytes} bytes apart.",
    )
    y, cell = 132, 4
    for x, name, title in ((54, "K", "Q Kᵀ: K-major"), (410, "V", "P V: MN-major")):
        wide, high = cell * columns, cell * keys
        figure.text(x + wide / 2, y - 48, title, SMALL, "middle", bold=True)
        figure.note(x + wide / 2, y - 20, f"{name}: {columns} columns, {keys} keys", "middle")
        for n in range(columns // step if name == "K" else keys // step):
            colour = "orange" if n == 1 else "paper"
            if name == "K":
                figure.box(x + n * cell * step, y, cell * step, high, colour, f"k = {n}", SMALL)
            else:
                figure.box(x, y + n * cell * step, wide, cell * step, colour, f"k = {n}", SMALL)
        for group in range(1, keys // 8):
            figure.line([(x - 10, y + group * cell * 8), (x, y + group * cell * 8)], "ink", 1.6)
    figure.lines(54, y + cell * keys + 34, [
        f"The next step: + {2 * step} bytes.",
    ], SMALL)
    figure.lines(410, y + cell * keys + 34, [
        f"The next step: + {step * row_bytes:,} bytes.",
    ], SMALL)
    figure.notes(LEFT, y + cell * keys + 70, [
        f"Marks at the left: 8 rows, {8 * row_bytes:,} bytes: the stride of a descriptor.",
        "The swizzle applies to addresses: a step may begin inside a row.",
    ])
    return figure


FIGURES = [rows(), operands()]
