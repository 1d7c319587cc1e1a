"""Figures of stages/05_wmma: fragments, who computes what, the round of S, the factors of O."""

from drawing import Figure, LEFT, SMALL
from sources import constants, integer, storage

KERNEL = "stages/05_wmma/kernel.cuh"
HEAD_DIM = 64


def config():
    """The kernel's constants for head_dim 64, kMma among them."""
    return constants(KERNEL, "Config", kHeadDim=HEAD_DIM, kMma=integer(KERNEL, "kMma"))


def fragments():
    """A fragment: a matrix that 32 lanes hold, in an unspecified order."""
    mma = config().kMma
    figure = Figure(
        "05_fragments",
        500,
        "A fragment: a matrix in 32 lanes",
        f"A matrix of {mma} by {mma} numbers and the 32 lanes that hold it, each some of them."
        " Which lane holds which number is not specified. load_matrix_sync, mma_sync and"
        " store_matrix_sync use the mapping; other code may only treat all elements alike.",
    )
    cell, x, y = 13, 40, 100
    figure.cells([(x, y, mma * cell, mma * cell)], "blue")
    figure.grid(x, y, mma, mma, cell)
    figure.text(x + mma * cell / 2, y - 18, f"{mma} × {mma} numbers", SMALL, "middle")
    lanes = 430
    for lane in range(32):
        figure.cells([(lanes + lane % 4 * 62, y + lane // 4 * 26, 58, 22)], "orange")
    figure.text(lanes + 122, y - 18, "32 lanes, 8 numbers in each: x[]", SMALL, "middle")
    figure.arrow([(268, y + 104), (416, y + 104)], dashed=True)
    figure.arrow([(300, y + 104), (262, y + 104)], dashed=True)
    figure.text(342, y + 70, "?", 44, "middle", bold=True)
    figure.note(342, y + 136, "unspecified", "middle")
    figure.text(LEFT, 346, "These use the mapping:", bold=True)
    figure.lines(
        LEFT + 12, 376, ["load_matrix_sync", "mma_sync", "store_matrix_sync"], SMALL, mono=True
    )
    figure.text(384, 346, "Allowed without it:", bold=True)
    figure.text(396, 376, "f.x[e] *= 0.5f", SMALL, mono=True)
    figure.text(396, 402, "f.x[e] *= g.x[e]", SMALL, mono=True)
    figure.note(396, 432, "for every e; g of f's type")
    figure.text(LEFT, 474, "Not allowed: to ask which row x[e] lies in.", SMALL)
    return figure


def strips():
    """Which warp computes which part of S and O."""
    shape, warp = config(), 1
    keys, columns = shape.kBlockKV // shape.kMma, HEAD_DIM // shape.kMma
    figure = Figure(
        "05_strips",
        450,
        f"{shape.kWarps} warps, a strip of {shape.kMma} rows each",
        f"A block of {shape.kBlockQ} queries has {shape.kWarps} warps. Each computes a strip of"
        f" {shape.kMma} rows: {keys} fragments of S and {columns} of O. All warps read the same"
        " tiles sK and sV.",
    )
    cell, y = 56, 136
    for x, name, count, across, tiles in (
        (110, "S", keys, f"{shape.kBlockKV} keys", "sK"),
        (460, "O", columns, f"{HEAD_DIM} columns", "sV"),
    ):
        figure.box(x, y - 58, cell * count, 46, "orange", f"{tiles}, for all warps", SMALL)
        figure.boxes(x, y, cell, cell, [
            [("blue" if r == warp else "paper", "")] * count for r in range(shape.kWarps)
        ])
        figure.text(x, y + cell * shape.kWarps + 24, f"{name}: {across}", bold=True)
    for r in range(shape.kWarps):
        figure.text(98, y + cell * (r + 0.5), f"warp {r}", SMALL, "end")
    figure.text(
        LEFT,
        424,
        f"A square is a fragment of {shape.kMma} × {shape.kMma}. Blue: what warp {warp} holds.",
        SMALL,
    )
    return figure


def round_trip():
    """The way of S and P through shared memory, while O stays."""
    shape, extents = config(), {
        array.name: array.extents.partition("]")[2] for array in storage("05_map.txt", "attention")
    }
    figure = Figure(
        "05_round_trip",
        640,
        "S goes out, P comes back, O stays",
        "A warp's S is stored from fragments to sS in shared memory, where two lanes take each row,"
        " mask it, and compute the maximum, the sum and P. P goes to sP and is loaded into a"
        " fragment of another type. O stays in fragments; only its 16 factors are loaded.",
    )
    figure.text(160, 82, "fragments", bold=True, anchor="middle")
    figure.note(160, 106, "rows unknown", "middle")
    figure.text(560, 82, "shared memory", bold=True, anchor="middle")
    figure.note(560, 106, "rows known", "middle")
    for top, bottom in ((66, 138), (186, 402), (450, 522), (570, 596)):
        figure.line([(360, top), (360, bottom)], "grey", 2, dashed=True)
    figure.box(
        30,
        136,
        260,
        76,
        "blue",
        f"rS[{shape.kBlockKV // shape.kMma}]",
        below=["S = Q Kᵀ"],
        bold=True,
    )
    figure.box(430, 136, 260, 76, "orange", f"sS {extents['sS']}", below=["f32"], bold=True)
    figure.arrow([(290, 174), (428, 174)])
    figure.text(360, 152, "store", SMALL, "middle")
    figure.arrow([(560, 212), (560, 254)])
    figure.box(
        430,
        256,
        260,
        100,
        "grey",
        "lanes 2r, 2r + 1: row r",
        SMALL,
        below=["mask, m, l, o_scale", "P = 2^(c (S − m))"],
    )
    figure.arrow([(560, 356), (560, 398)])
    figure.box(430, 400, 260, 76, "orange", f"sP {extents['sP']}", below=["f16"], bold=True)
    figure.arrow([(428, 438), (292, 438)])
    figure.text(360, 416, "load", SMALL, "middle")
    figure.box(30, 400, 260, 76, "blue", "rP", below=["another type than rS"], bold=True)
    figure.arrow([(160, 476), (160, 518)])
    figure.box(
        30,
        520,
        260,
        76,
        "green",
        f"rO[{HEAD_DIM // shape.kMma}]",
        below=["O = o_scale · O + P V"],
        bold=True,
    )
    figure.box(
        430,
        520,
        260,
        76,
        "orange",
        f"s_scale {extents['s_scale']}",
        below=["o_scale of each row"],
        bold=True,
    )
    figure.arrow([(428, 558), (292, 558)])
    figure.text(360, 536, "load", SMALL, "middle")
    figure.note(LEFT, 620, "Once per tile. All of it belongs to one warp.")
    return figure


def factors():
    """The same call with two leading dimensions: which address element (r, c) comes from."""
    mma, shown, row = config().kMma, 5, 2
    figure = Figure(
        "05_factors",
        500,
        "from[r + c · ldm]: which address is read",
        f"load_matrix_sync by columns reads element (r, c) from address r + c · ldm. With ldm {mma}"
        f" these are {mma * mma} different addresses. With ldm 0 they are {mma}: each column is the"
        f" same {mma} numbers, the factors of the rows.",
    )
    cell, y = 56, 138
    for x, ldm in ((40, mma), (400, 0)):
        count = len({r + c * ldm for r in range(mma) for c in range(mma)})
        figure.text(x, 80, f"ldm = {ldm}", 24, bold=True)
        figure.note(x, 112, f"{count} addresses")
        figure.boxes(x, y, cell, cell, [
            [("orange" if r == row else "paper", str(r + c * ldm)) for c in range(shown)]
            for r in range(shown)
        ], SMALL)
    figure.text(
        LEFT,
        448,
        f"The corner of {mma} × {mma}. With ldm 0 row {row} is from[{row}] {mma} times:",
        SMALL,
    )
    figure.text(LEFT, 476, "O.x[e] *= F.x[e] multiplies each row by its factor.", SMALL, bold=True)
    return figure


FIGURES = [fragments(), strips(), round_trip(), factors()]
