"""Figures of stages/08_swizzle: the layout, the banks, a lane's chunks, two buffers in time."""

from drawing import Figure, LEFT, SMALL
from sources import constants, function

KERNEL = "stages/08_swizzle/kernel.cuh"
PADDED = "stages/07_mma_registers/kernel.cuh"
BANKS = 32  # of two elements each
CHUNK = 8  # elements of 16 bytes
HEAD_DIM = 64


def layout(rows, columns):
    """The kernel's index() and step() of a tile, and the columns of its panels."""
    panel = constants(KERNEL, "Swizzled", kCols=columns).kPanelCols
    known = {"kPanelCols": panel, "kRows": rows}
    return function(KERNEL, "index", **known), function(KERNEL, "step", **known), panel


def panels():
    """Which chunk of a row lies where, in panels of 64 and of 32 columns."""
    figure = Figure(
        "08_layout",
        608,
        "Eight rows in memory: which chunk lies where",
        "Eight rows of a panel of 64 columns and of one of 32. Each field is a chunk of 16 bytes"
        " and holds the number of the chunk that lies there. In the first, chunk 2 of row r lies in"
        " place 2 XOR r mod 8. In the second, two rows fill the 32 banks and share what they are"
        " XORed with.",
    )
    width, height, x, chosen = 62, 24, 150, 2
    for y, columns in ((116, 64), (410, 32)):
        index = layout(64, columns)[0]
        chunks = columns // CHUNK
        lines = 8 * chunks // 8
        title = f"{columns} columns: rows of {2 * columns} bytes"
        figure.text(LEFT, y - 46, title, bold=True)
        for place in range(8):
            label = f"{4 * place}-{4 * place + 3}"
            figure.note(x + width * (place + 0.5), y - 18, label, "middle")
        figure.note(x - 12, y - 18, "banks", "end")
        for r in range(8):
            for c in range(chunks):
                at = index(r, CHUNK * c) // CHUNK
                figure.box(
                    x + width * (at % 8) + 1,
                    y + height * (at // 8) + 1,
                    width - 2,
                    height - 2,
                    "orange" if c == chosen else "paper",
                    str(c),
                    SMALL,
                    bold=c == chosen,
                )
        for line in range(lines):
            first = line * 8 // chunks
            label = f"row {first}" if lines == 8 else f"rows {first}, {first + 1}"
            figure.note(x - 12, y + height * (line + 0.5), label, "end")
    figure.lines(
        LEFT,
        548,
        [
            f"Orange: chunk {chosen} of eight rows, one matrix of ldmatrix.",
            "In both layouts its 128 bytes use each bank once.",
        ],
        SMALL,
    )
    return figure


def bank_rows():
    """The banks of one matrix of ldmatrix in three layouts."""
    pad, chunk, keys = constants(PADDED, "Config", kHeadDim=HEAD_DIM, kMmaM=16).kPad, 2, 64
    index = layout(keys, HEAD_DIM)[0]
    pitch = HEAD_DIM + pad
    cases = [
        ("no padding", keys * HEAD_DIM, lambda r: r * HEAD_DIM + chunk * CHUNK, "red"),
        (f"{pad} elements of padding", keys * pitch, lambda r: r * pitch + chunk * CHUNK, "green"),
        ("XOR", keys * HEAD_DIM, lambda r: index(r, chunk * CHUNK), "green"),
    ]
    found = [[[(at(r) // 2 + w) % BANKS for w in range(4)] for r in range(8)]
             for _, _, at, _ in cases]
    wavefronts = [max(sum(bank in row for row in rows) for bank in range(BANKS)) for rows in found]
    figure = Figure(
        "08_banks",
        650,
        f"ldmatrix: chunk {chunk} of rows 0 to 7",
        f"ldmatrix reads chunk {chunk} of eight rows of a tile with head_dim {HEAD_DIM}. "
        + " ".join(
            f"With {case[0]}: {count} wavefront{'s'[:count > 1]}, a tile of {2 * case[1]} bytes."
            for case, count in zip(cases, wavefronts)
        ),
    )
    x = 44
    for k, ((title, elements, _, colour), rows, count) in enumerate(zip(cases, found, wavefronts)):
        y = 108 + 180 * k
        words = f"{title}: {count} wavefront{'s'[:count > 1]}"
        figure.text(x, y - 22, words, bold=True)
        figure.text(x + 656, y - 22, f"tile: {2 * elements:,} bytes", SMALL, "end")
        figure.banks(x, y, rows, colour)
    figure.note(x, 624, "Columns: banks 0 to 31. Rows: rows 0 to 7.")
    return figure


def steps():
    """The places of one lane's chunks: an XOR within a panel, a constant beyond it."""
    columns, rows, row = 128, 64, 5
    index, step, panel = layout(rows, columns)
    start = index(row, 0)
    count = columns // 16
    figure = Figure(
        "08_steps",
        470,
        f"Row {row}, every 16th column: one index, {panel // 16 - 1} XORs",
        f"A lane names row {row}, column 0, and then every 16th column: "
        + ", ".join(str(2 * step(start, 0, right)) for right in range(count))
        + f" bytes into the tile. The first is found by index(); within a panel of {panel} columns"
        " an XOR leads to the others, and the second panel is a constant away.",
    )
    width, x = 62, 150
    for n in range(columns // panel):
        y = 118 + 150 * n
        figure.text(LEFT, y - 42, f"panel {n}: columns {n * panel} to {(n + 1) * panel - 1}",
                    bold=True)
        figure.note(x - 12, y + 22, f"row {row}", "end")
        named = {}
        for right in range(panel // 16):
            at = step(start, 0, n * panel // 16 + right)
            if at != index(row, n * panel + 16 * right):
                raise ValueError("step() does not lead there")
            named[at % panel // CHUNK] = right
        for place in range(panel // CHUNK):
            right = named.get(place)
            label = "" if right is None else "index" if right == 0 else f"^ {32 * right}"
            figure.box(x + width * place + 1, y, width - 2, 44,
                       "paper" if right is None else "orange", label, SMALL)
            figure.note(x + width * (place + 0.5), y + 60, f"{16 * place}", "middle")
        figure.note(x - 12, y + 60, "byte", "end")
    constant = 2 * (step(start, 0, panel // 16) - start)
    figure.lines(
        LEFT,
        396,
        [
            f"^ 32: the index with 32 bytes XORed. Panel 1: {constant:,} bytes on.",
            f"16 rows down: {2 * (step(start, 1, 0) - start):,} bytes on.",
            "Both are constants in the instruction.",
        ],
        SMALL,
    )
    return figure


def buffers():
    """One buffer and two in time."""
    shape = constants(KERNEL, "Config", kHeadDim=HEAD_DIM, kMmaM=16)
    figure = Figure(
        "08_buffers",
        500,
        "One buffer of K and V, and two, in time",
        "With one buffer a tile has two barriers: one after the load and one after the products."
        " With two buffers the next tile is loaded into the other buffer, and one barrier per tile"
        " is left.",
        heading="One buffer: two barriers per tile (07)",
    )
    x, load, products, gap, height = 112, 84, 138, 26, 46

    def barrier(at, y, bottom):
        figure.line([(at, y - 8), (at, bottom + 8)], "red", 4)

    y, at = 74, x
    figure.text(LEFT, y + height / 2, "warps", SMALL)
    for tile in range(2):
        figure.box(at, y, load, height, "orange", f"load {tile}", SMALL)
        at += load
        barrier(at + gap / 2, y, y + height)
        at += gap
        figure.box(at, y, products, height, "blue", f"products {tile}", SMALL)
        at += products
        barrier(at + gap / 2, y, y + height)
        at += gap
    figure.heading("Two buffers: one barrier per tile (08)", 190)
    y, at = 232, x
    figure.text(LEFT, y + height / 2, "warps", SMALL)
    figure.text(LEFT, y + 84 + 18, "buffer 0", SMALL)
    figure.text(LEFT, y + 136 + 18, "buffer 1", SMALL)
    bottom = y + 176
    figure.box(at, y, load, height, "orange", "load 0", SMALL)
    figure.box(at, y + 84, load, 36, "orange", "written", SMALL)
    at += load
    for tile in range(2):
        barrier(at + gap / 2, y, bottom)
        at += gap
        figure.box(at, y, load, height, "orange", f"load {tile + 1}", SMALL)
        figure.box(at + load, y, products, height, "blue", f"products {tile}", SMALL)
        own, other = y + 84 + 52 * (tile % 2), y + 84 + 52 * (1 - tile % 2)
        figure.box(at + load, own, products, 36, "blue", "read", SMALL)
        figure.box(at, other, load, 36, "orange", "written", SMALL)
        at += load + products
    figure.legend(LEFT, 444, [("red", "__syncthreads()")])
    figure.note(LEFT, 476,
                f"{shape.kWarps} warps, {shape.kBlockQ} queries, tiles of {shape.kBlockKV} keys.")
    return figure


FIGURES = [panels(), bank_rows(), steps(), buffers()]
