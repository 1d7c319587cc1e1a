"""Figures of stages/04_register_tiles: a thread's tile, lanes, banks, partners."""

from drawing import Figure, LEFT, NORMAL, SMALL
from sources import constants, function

KERNEL = "stages/04_register_tiles/kernel.cuh"
BANKS = 32  # of one float each
HEAD_DIM = 64


def config():
    """The forward kernel's constants for head_dim 64."""
    return constants(KERNEL, "Config", kHeadDim=HEAD_DIM)


def groups():
    """The kernel's functions from a lane to its group of rows and of columns."""
    return function(KERNEL, "row_group"), function(KERNEL, "column_group")


def tile():
    """What a thread loads and what it multiplies."""
    rows, columns = config().kRows, config().kColumns
    loads, products = rows + columns, 4 * rows * columns
    figure = Figure(
        "04_tile",
        440,
        "One thread: its tile of S in registers",
        f"A thread loads four floats from each of {rows} rows of Q and {columns} rows of K, {loads}"
        f" loads, and does {products} multiply-adds with them for its tile of {rows} by {columns}"
        " scores.",
    )
    cell, x, y = 52, 186, 148
    for m in range(rows):
        figure.box(x - 78, y + cell * m + 4, 66, cell - 8, "blue", "4 of Q", SMALL)
    for n in range(columns):
        figure.box(x + cell * n + 3, y - 52, cell - 6, 40, "orange", "4", SMALL)
    figure.text(
        x + cell * columns / 2, y - 72, "4 floats from each of its rows of K", SMALL, "middle"
    )
    figure.cells(
        [(x + cell * n, y + cell * m, cell, cell) for m in range(rows) for n in range(columns)],
        "green",
    )
    figure.text(
        x + cell * columns / 2,
        y + cell * 1.5,
        f"{rows} × {columns} scores",
        NORMAL,
        "middle",
        bold=True,
    )
    figure.text(
        LEFT,
        392,
        f"{rows} + {columns} = {loads} loads of 16 bytes,"
        f" 4 · {rows} · {columns} = {products} multiply-adds:",
    )
    figure.text(
        LEFT,
        420,
        f"{products / loads:.3g} multiply-adds per load. With one score per thread: 2.",
        bold=True,
    )
    return figure


def lanes():
    """Which lane holds which elements of S and O."""
    row_group, column_group = groups()
    chosen, shape = 6, config()
    mine_rows = [row_group(chosen) + 4 * m for m in range(shape.kRows)]
    mine_keys = [column_group(chosen) + 8 * n for n in range(shape.kColumns)]
    mine_columns = [
        4 * column_group(chosen) + 32 * k + e for k in range(shape.kQuads) for e in range(4)
    ]
    figure = Figure(
        "04_lanes",
        716,
        "A warp: 4 row groups × 8 column groups",
        f"A warp's lanes are 4 groups of rows by 8 groups of columns. Lane {chosen} is in row group"
        f" {row_group(chosen)} and column group {column_group(chosen)}. Of a warp's 16 rows of S it"
        f" holds rows {mine_rows} at keys {mine_keys}; of O it holds columns {mine_columns} of the"
        " same rows.",
    )
    width, height, x, y = 66, 34, 150, 92
    for lane in range(32):
        r, c = row_group(lane), column_group(lane)
        figure.box(
            x + width * c,
            y + height * r,
            width - 3,
            height - 3,
            "orange" if lane == chosen else "paper",
            str(lane),
            SMALL,
            bold=lane == chosen,
        )
    figure.note(x - 10, y - 18, "column group", "end")
    for c in range(8):
        figure.note(x + width * (c + 0.5), y - 18, str(c), "middle")
    for r in range(4):
        figure.note(x - 10, y + height * (r + 0.45), f"row group {r}", "end")
    cell, left = 10.3, 44
    for top, name, columns, held in (
        (
            286,
            f"S, 16 rows × {shape.kBlockKV} keys: lane {chosen} holds",
            shape.kBlockKV,
            mine_keys,
        ),
        (516, f"O, 16 rows × {HEAD_DIM} columns: lane {chosen} holds", HEAD_DIM, mine_columns),
    ):
        figure.text(LEFT, top - 20, name, bold=True)
        figure.grid(left, top, columns, 16, cell)
        figure.cells(
            [(left + c * cell, top + r * cell, cell, cell) for r in mine_rows for c in held],
            "orange",
            full=True,
        )
        if held is mine_keys:
            figure.frame(left, top, 8 * cell, 4 * cell, line=2.5)
        for r in (0, 15):
            figure.note(left - 6, top + (r + 0.5) * cell, str(r), "end")
    return figure


def bank_rows():
    """The banks in which eight loads of 16 bytes fall."""
    pitch = config().kPitch
    cases = [
        (f"pitch {HEAD_DIM}, neighbouring rows", HEAD_DIM, 1, "red"),
        (f"pitch {pitch}, every 8th row", pitch, 8, "red"),
        (f"pitch {pitch}, neighbouring rows", pitch, 1, "green"),
    ]
    found = [
        [[(step * n * words + e) % BANKS for e in range(4)] for n in range(8)]
        for _, words, step, _ in cases
    ]
    wavefronts = [max(sum(bank in row for row in rows) for bank in range(BANKS)) for rows in found]
    figure = Figure(
        "04_banks",
        676,
        "Eight rows of sKV, 16 bytes from each",
        "Eight column groups load four floats each. "
        + " ".join(
            f"{case[0].capitalize()}: {count} wavefront{'s'[:count > 1]}."
            for case, count in zip(cases, wavefronts)
        ),
    )
    x = 44
    for k, ((title, _, _, colour), rows, count) in enumerate(zip(cases, found, wavefronts)):
        y = 108 + 180 * k
        figure.text(x, y - 22, f"{title}: {count} wavefront{'s' if count > 1 else ''}", bold=True)
        figure.banks(x, y, rows, colour)
    figure.notes(
        x,
        626,
        [
            "Columns: banks 0 to 31. Rows: column groups 0 to 7.",
            "Every 8th row: if each lane owned 8 neighbouring keys.",
        ],
    )
    return figure


def partner(addresses):
    """The distance, 1 or 2, at which every lane finds a lane with the same address; or 0.

    With such a distance a load of 16 bytes takes two wavefronts, and four without, as measured on
    an H200.
    """
    for distance in (1, 2):
        if all(address == addresses[lane ^ distance] for lane, address in enumerate(addresses)):
            return distance
    return 0


def partners():
    """Which lanes want the same address in the two kinds of loads."""
    row_group, column_group = groups()
    orders = (
        ("the kernel's order", row_group, column_group),
        ("plain order: lane / 8, lane % 8", lambda lane: lane // 8, lambda lane: lane % 8),
    )
    figure = Figure(
        "04_partners",
        520,
        "Partners: lanes that load the same row",
        "The first 16 lanes and the row of Q and of K that each loads. In the kernel's order lanes"
        " 0 and 1 share a row of Q and lanes 0 and 2 a row of K, so both loads take two wavefronts."
        " In plain order no lane shares a row of K within its quarter of the warp, and that load"
        " takes four.",
    )
    cell, x = 33, 174
    shades = ["blue", "orange", "green", "purple", "sky", "yellow", "red", "grey"]
    for k, (title, row, column) in enumerate(orders):
        y = 92 + 208 * k
        figure.text(LEFT, y, title, bold=True)
        figure.note(x - 12, y + 36, "lane", "end")
        for lane in range(16):
            figure.note(x + cell * (lane + 0.5), y + 36, str(lane), "middle")
        for n, (name, group) in enumerate((("Q", row), ("K", column))):
            distance = partner([group(lane) for lane in range(32)])
            at = y + 54 + 54 * n
            figure.text(x - 12, at + 20, f"row of {name}", SMALL, "end")
            for lane in range(16):
                figure.box(
                    x + cell * lane + 1.5,
                    at,
                    cell - 3,
                    40,
                    shades[group(lane)],
                    str(group(lane)),
                    SMALL,
                )
            figure.text(LEFT, at + 20, f"{2 if distance else 4} ×", bold=True)
    figure.line([(x + 8 * cell, 110), (x + 8 * cell, 470)], "grey", 2, dashed=True)
    figure.note(LEFT, 494, "2 ×, 4 ×: wavefronts of one load. Dashed: a quarter of the warp.")
    return figure


FIGURES = [tile(), lanes(), bank_rows(), partners()]
