"""Figures of the prologue: attention by hand, and what it says about the machine.

What is known of the two GPUs is in GPUS; the prologue's table names the sources.
"""

from math import exp, log10, sqrt

from drawing import Figure, LEFT, NORMAL, SMALL
from gpu_map import HBM_TERABYTES, SHARED_KB

LINE_BYTES, SECTOR_BYTES, BANKS, LANES = 128, 32, 32, 32
RESERVED_KB = 1  # of an SM's shared memory, for each block

# Name, KB of shared memory in an SM, warps and blocks of an SM.
GPUS = (("H200", SHARED_KB, 64, 32), ("RTX 4060 Laptop", 100, 48, 24))
F32_TERAFLOPS = 67  # of the H200


def attention():
    """The prologue's example: two queries, three keys."""
    q, k, v = [[1, 0], [1, 1]], [[1, 0], [0, 1], [1, 1]], [[10, 0], [0, 10], [20, 30]]
    s = [[sum(a * b for a, b in zip(x, y)) / sqrt(2) for y in k] for x in q]
    weights = [[exp(score - max(row)) for score in row] for row in s]
    p = [[w / sum(row) for w in row] for row in weights]
    o = [[sum(w * row[d] for w, row in zip(prob, v)) for d in range(2)] for prob in p]
    figure = Figure(
        "prologue_attention",
        640,
        "Attention by hand: two queries, three keys",
        f"Q has rows {q}, K rows {k}, V rows {v}. The scores of query 1 are"
        f" {', '.join(f'{x:.4f}' for x in s[0])}, its weights"
        f" {', '.join(f'{x:.4f}' for x in p[0])}, its row of O"
        f" {', '.join(f'{x:.2f}' for x in o[0])}.",
        heading="",
    )
    wide, high = 84, 44

    def matrix(x, y, name, rows, colour, pattern="{}"):
        if name:
            figure.text(x + wide * len(rows[0]) / 2, y - 20, name, 22, "middle", bold=True)
        figure.boxes(x, y, wide, high, [
            [("paper" if r else colour, pattern.format(value)) for value in row]
            for r, row in enumerate(rows)
        ])

    matrix(20, 60, "Q", q, "blue")
    matrix(232, 60, "Kᵀ", [list(column) for column in zip(*k)], "paper")
    figure.text(500, 104, "τ = 1/√2")
    matrix(232, 216, "S = τ Q Kᵀ", s, "green", "{:.3f}")
    figure.arrow([(358, 154), (358, 178)])
    figure.notes(500, 246, ["how well query", "and key agree"])
    matrix(232, 364, "P = softmax(S)", p, "green", "{:.3f}")
    figure.arrow([(358, 306), (358, 326)])
    figure.notes(500, 394, ["weights: each", "row adds up to 1"])
    matrix(20, 490, "V", v, "paper")
    figure.arrow([(190, 556), (228, 556)])
    figure.arrow([(358, 454), (358, 488)])
    matrix(232, 512, "", o, "orange", "{:.2f}")
    figure.text(410, 536, "O = P V", 22, bold=True)
    figure.notes(500, 560, ["each row an average", "of V's rows"])
    return figure


def threads():
    """A grid of blocks of threads, laid over elements."""
    blocks, per_block, count = 3, 4, 10
    figure = Figure(
        "prologue_threads",
        434,
        f"A grid: {blocks} blocks of {per_block} threads",
        f"A grid of {blocks} blocks, {per_block} threads each, for {count} elements. Thread t of"
        f" block b has element b · {per_block} + t. The last {blocks * per_block - count} threads"
        " have no element and return.",
    )
    cell, x, y = 54, LEFT + 6, 114
    for b in range(blocks):
        left = x + b * (per_block * cell + 14)
        figure.box(left - 6, y - 44, per_block * cell + 8, 116, "sky")
        figure.text(
            left + per_block * cell / 2 - 2, y - 24, f"block {b}", NORMAL, "middle", bold=True
        )
        for t in range(per_block):
            n = b * per_block + t
            at = left + t * cell
            figure.box(
                at, y, cell - 4, 60, "blue" if n < count else "paper", str(t), dashed=n >= count
            )
            if n < count:
                figure.arrow([(at + cell / 2 - 2, y + 78), (at + cell / 2 - 2, y + 122)])
                figure.box(at, y + 124, cell - 4, 50, "orange", str(n))
    figure.text(x, y + 202, "elements in global memory", SMALL)
    figure.note(700, y + 202, f"n ≥ {count}: return", "end")
    figure.text(LEFT, y + 258, "n = blockIdx.x · blockDim.x + threadIdx.x", 22, mono=True)
    figure.note(LEFT, y + 294,
                f"Thread 1 of block 2: n = 2 · {per_block} + 1 = {2 * per_block + 1}.")
    return figure


def warps():
    """A block's warps, and what a branch costs."""
    figure = Figure(
        "prologue_warp",
        520,
        "64 threads: 2 warps of 32 lanes",
        "A block of 64 threads is two warps of 32 lanes. A warp executes one instruction for all"
        " its lanes. Where half of the lanes take a branch and half do not, the warp executes both"
        " ways, one after the other, with half of its lanes idle in each.",
    )
    cell, x = 20.6, 40
    for warp in range(2):
        y = 88 + 62 * warp
        figure.text(x, y - 2, f"warp {warp}: threads {32 * warp} to {32 * warp + 31}", SMALL)
        figure.cells(
            [(x + cell * lane, y + 12, cell - 3, 24) for lane in range(LANES)],
            "blue" if warp == 0 else "orange",
        )
    figure.text(LEFT, 232, "Which lanes execute an instruction:", bold=True)
    for n, (text, first, last, colour) in enumerate(
        (
            ("all go the same way", 0, 32, "green"),
            ("if: lanes 0 to 15", 0, 16, "green"),
            ("else: lanes 16 to 31", 16, 32, "green"),
        )
    ):
        y = 272 + 62 * n + (20 if n else 0)
        figure.text(x, y - 2, text, SMALL)
        figure.cells(
            [(x + cell * lane, y + 12, cell - 3, 24) for lane in range(first, last)],
            colour,
            full=True,
        )
        figure.cells(
            [
                (x + cell * lane, y + 12, cell - 3, 24)
                for lane in range(LANES)
                if not first <= lane < last
            ],
            "paper",
        )
    figure.line([(26, 346), (20, 346), (20, 452), (26, 452)], width=2)
    figure.text(LEFT, 490, "Divergence: both sides, with half of the lanes idle in each.")
    return figure


def butterfly():
    """The shuffles of warp_sum, with 8 lanes in place of 32."""
    lanes, distances = 8, (4, 2, 1)
    rows = [list(range(lanes))]
    for distance in distances:
        rows.append([x + rows[-1][lane ^ distance] for lane, x in enumerate(rows[-1])])
    figure = Figure(
        "prologue_butterfly",
        558,
        "A butterfly: each lane gets the sum",
        f"{lanes} lanes hold {rows[0]}. In each step a lane adds the value of the lane whose number"
        " differs in one bit. "
        + " ".join(
            f"After distance {distance}: {row}." for distance, row in zip(distances, rows[1:])
        ),
    )
    cell, x, step, high = 66, 164, 124, 44
    centre = [x + cell * lane + cell / 2 - 5 for lane in range(lanes)]
    figure.text(x - 14, 76, "lane", SMALL, "end")
    for lane in range(lanes):
        figure.text(centre[lane], 76, str(lane), SMALL, "middle", bold=True)
    for n, row in enumerate(rows):
        y = 94 + step * n
        if n:
            distance = distances[n - 1]
            figure.text(LEFT, y - 40, f"add lane ⊕ {distance}", SMALL)
            for lane in range(lanes):
                for other in (lane, lane ^ distance):
                    colour = "ink" if other == lane else "orange"
                    figure.arrow([(centre[other], y - step + high + 2), (centre[lane], y - 2)],
                                 colour, 1.8)
        for lane, value in enumerate(row):
            colour = "green" if n == len(distances) else "blue"
            figure.box(x + cell * lane, y, cell - 10, high, colour, str(value))
    figure.note(LEFT, 538, "A warp has 32 lanes: five steps, distances 16, 8, 4, 2 and 1.")
    return figure


def coalesced():
    """What a warp's load moves, by stride."""
    strides, shown = (1, 2, 8, 32), 5
    figure = Figure(
        "prologue_coalesced",
        526,
        "32 lanes read 32 floats: what moves?",
        "Lane t reads the float at t times a stride. "
        + " ".join(
            f"Stride {stride}: {sectors} sectors in {lines} lines."
            for stride, (sectors, lines) in zip(strides, map(touched, strides))
        ),
    )
    figure.legend(LEFT, 74,
                  [("ink", "asked for"), ("orange", "sector moved"), ("paper", "not touched")])
    per_line, scale = LINE_BYTES // SECTOR_BYTES, 132 / LINE_BYTES
    for n, stride in enumerate(strides):
        y = 124 + 96 * n
        sectors, lines = touched(stride)
        figure.text(
            LEFT,
            y,
            f"stride {stride}: {sectors} sectors, {lines} line{'s'[:lines > 1]},"
            f" {sectors * SECTOR_BYTES:,} bytes",
            bold=True,
        )
        addresses = [4 * stride * lane for lane in range(LANES)]
        for line in range(shown):
            left = LEFT + line * (LINE_BYTES * scale + 5)
            for part in range(per_line):
                number = line * per_line + part
                moved = any(address // SECTOR_BYTES == number for address in addresses)
                figure.cells(
                    [(left + part * SECTOR_BYTES * scale, y + 18, SECTOR_BYTES * scale, 34)],
                    "orange" if moved else "paper",
                )
            figure.cells(
                [
                    (left + (address % LINE_BYTES) * scale + 0.5, y + 23, 3.2, 24)
                    for address in addresses
                    if address // LINE_BYTES == line
                ],
                "ink",
            )
    figure.note(LEFT, 498,
                f"The first {shown} cache lines, each four sectors of {SECTOR_BYTES} bytes.")
    return figure


def touched(stride):
    """The sectors and the cache lines of a warp's load of floats that are so far apart."""
    addresses = [4 * stride * lane for lane in range(LANES)]
    return len({a // SECTOR_BYTES for a in addresses}), len({a // LINE_BYTES for a in addresses})


def barrier():
    """Eight threads turn a tile round: what the barrier is for."""
    count, cell = 8, 64
    figure = Figure(
        "prologue_barrier",
        400,
        "Write, wait for all, read another's element",
        "Eight threads each write one element of a tile in shared memory. After the barrier thread"
        " t reads element 7 − t, which another thread wrote.",
    )
    x = 150
    for y, label, colour in (
        (74, "threads", "blue"),
        (178, "tile", "orange"),
        (308, "threads", "blue"),
    ):
        figure.text(x - 16, y + 23, label, SMALL, "end")
        for n in range(count):
            figure.box(x + cell * n, y, cell - 8, 46, colour, str(n))
    centre = [x + cell * n + cell / 2 - 4 for n in range(count)]
    for n in range(count):
        figure.arrow([(centre[n], 120), (centre[n], 176)])
        figure.line([(centre[n], 224), (centre[count - 1 - n], 306)], width=1.8)
    figure.line([(x - 130, 240), (x + cell * count - 6, 240)], "red", 5)
    figure.text(x - 16, 262, "barrier", SMALL, "end", bold=True)
    figure.text(x, 380, "out[t] = tile[7 − t]", SMALL, mono=True)
    return figure


def banks():
    """How many wavefronts a column takes, by pitch."""
    pitches, found = (1, 2, 32, 33), {}
    for pitch in pitches:
        words = {lane * pitch for lane in range(LANES)}
        found[pitch] = [sum(word % BANKS == bank for word in words) for bank in range(BANKS)]
    figure = Figure(
        "prologue_banks",
        470,
        "Lane t reads word t · pitch",
        " ".join(
            ["Lane t reads word t times a pitch; word w is in bank w mod 32."]
            + [
                f"Pitch {pitch}: at most {max(counts)} words in a bank."
                for pitch, counts in found.items()
            ]
        ),
    )
    figure.note(LEFT, 70, "How many words each of the banks 0 to 31 must deliver:")
    cell, x = 21, 24
    for n, (pitch, counts) in enumerate(found.items()):
        y, wavefronts = 112 + 88 * n, max(counts)
        figure.text(x, y, f"pitch {pitch}: {wavefronts} wavefront{'s'[:wavefronts > 1]}", bold=True)
        for bank, words in enumerate(counts):
            colour = "paper" if not words else "green" if wavefronts == 1 else "red"
            figure.box(x + cell * bank, y + 18, cell - 2, 36, colour, str(words or ""), SMALL)
    figure.note(LEFT, 448, "A bank delivers one word in a wavefront.")
    return figure


def occupancy():
    """How many blocks an SM holds, by the size of their tile."""
    tiles, block_warps = (16, 64), 4
    figure = Figure(
        "prologue_occupancy",
        618,
        "An SM holds as many blocks as fit",
        (
            "Blocks of 128 threads, with tiles of 16 and of 64 KB, in the shared memory of an SM of"
            " two GPUs. "
            + " ".join(
                f"{gpu[0]}, {tile} KB: {resident(gpu, tile)} blocks."
                for gpu in GPUS
                for tile in tiles
            )
        ),
    )
    scale, y = 660 / max(gpu[1] for gpu in GPUS), 96
    for gpu in GPUS:
        figure.text(LEFT, y, f"{gpu[0]}: {gpu[1]} KB of shared memory per SM", bold=True)
        for tile in tiles:
            blocks = resident(gpu, tile)
            width = (tile + RESERVED_KB) * scale
            figure.box(LEFT, y + 20, gpu[1] * scale, 56, "paper")
            for n in range(blocks):
                figure.box(
                    LEFT + width * n + 1,
                    y + 23,
                    width - 2,
                    50,
                    "orange",
                    f"{tile} KB" if width > 90 else "",
                    SMALL,
                )
            figure.text(
                LEFT,
                y + 98,
                f"tile of {tile} KB: {blocks} block{'s' if blocks > 1 else ''}, "
                f"{blocks * block_warps} of {gpu[2]} warps",
                SMALL,
            )
            y += 106
        y += 34
    figure.note(
        LEFT,
        594,
        f"Each block also takes {RESERVED_KB} KB of its own. A block is {block_warps} warps.",
    )
    return figure


def resident(gpu, tile):
    """The blocks of 4 warps with a tile of that many KB that an SM holds."""
    return min(gpu[1] // (tile + RESERVED_KB), gpu[2] // 4, gpu[3])


def roofline():
    """How fast a kernel can be at most, by its arithmetic intensity."""
    name, peak, rate = GPUS[0][0], F32_TERAFLOPS, HBM_TERABYTES
    ridge, single, once = peak / rate, 0.25, 1024
    figure = Figure(
        "prologue_roofline",
        420,
        f"The roofline of an {name}, f32",
        f"Bandwidth, {rate} TB/s times the FLOPs per byte, rises up to {peak} TFLOP/s at"
        f" {ridge:.0f} FLOPs per byte. From there on the line is flat. At {single} FLOPs per byte"
        f" lies {single * rate:.1f} TFLOP/s; {once} are on the flat part.",
    )
    left, right, bottom, top = 96, 690, 340, 80

    def place(intensity, tera):
        return (left + (right - left) * (log10(intensity) + 1) / 4.6,
                bottom - (bottom - top) * (log10(tera) + 0.5) / 2.6)

    for exponent in range(-1, 4):
        x = place(10**exponent, 1)[0]
        figure.line([(x, top), (x, bottom)], "grey", 0.6)
        figure.note(x, bottom + 20, f"{10.0**exponent:g}", "middle")
    for tera in (1, 10, 100):
        y = place(1, tera)[1]
        figure.line([(left, y), (right, y)], "grey", 0.6)
        figure.note(left - 10, y, str(tera), "end")
    figure.note(LEFT, 64, "TFLOP/s")
    figure.note(right, bottom + 52, "FLOPs per byte", "end")
    figure.line([place(0.1, 0.1 * rate), place(ridge, peak)], "orange", 4)
    figure.line([place(ridge, peak), place(3000, peak)], "blue", 4)
    for intensity, label, anchor, dx, dy in (
        (single, "2 / 8 = 0.25: a score by itself", "start", 16, 18),
        (ridge, f"ridge: {ridge:.0f}", "end", -16, -8),
        (once, "1,024: each loaded once", "end", 76, 30),
    ):
        x, y = place(intensity, min(peak, intensity * rate))
        figure.cells([(x - 6, y - 6, 12, 12)], "ink")
        figure.text(x + dx, y + dy, label, SMALL, anchor)
    return figure


FIGURES = [
    attention(), threads(), warps(), butterfly(), coalesced(), barrier(), banks(), occupancy(),
    roofline(),
]
