"""Figures of stages/02_tiled: the walk over tiles, who computes what, barriers, banks."""

from drawing import Figure, LEFT, SMALL
from sources import constants

KERNEL = "stages/02_tiled/kernel.cuh"
BANKS, BANK_BYTES = 32, 4


def walk():
    """A block's queries stay, tiles of keys pass."""
    config = constants(KERNEL, "Config", bytes=2)
    figure = Figure(
        "02_walk",
        570,
        "One block: queries stay, keys pass",
        f"The matrix of scores is cut into tiles of {config.kBlockQ} queries by {config.kBlockKV}"
        " keys. A block owns a row of tiles. Its queries stay in shared memory in sQ while tiles"
        " of keys pass through sK, one after the other.",
    )
    cell, x, y, rows, columns, own, now = 88, 222, 172, 4, 5, 1, 2
    for c in range(columns):
        figure.box(
            x + cell * c + 3,
            y - 68,
            cell - 6,
            54,
            "orange" if c == now else "paper",
            "sK" if c == now else "",
            bold=True,
        )
    figure.text(x, y - 86, f"K: {config.kBlockKV} keys per tile", SMALL)
    for r in range(rows):
        figure.box(
            x - 72,
            y + cell * r + 3,
            58,
            cell - 6,
            "blue" if r == own else "paper",
            "sQ" if r == own else "",
            bold=True,
        )
    figure.lines(
        LEFT, y + cell * own + 18, [f"{config.kBlockQ} queries", "of this", "block"], SMALL
    )
    figure.text(x - 72, y + cell * rows + 20, "Q", SMALL)
    for c in range(columns):
        label = "written" if c < now else "now" if c == now else ""
        figure.box(
            x + cell * c + 3,
            y + cell * own + 3,
            cell - 6,
            cell - 6,
            "green" if c <= now else "paper",
            label,
            SMALL,
            bold=c == now,
        )
    figure.grid(x, y, columns, rows, cell)
    figure.arrow(
        [
            (x + cell * (now + 1) + 12, y + cell * (own + 0.5)),
            (x + cell * columns - 12, y + cell * (own + 0.5)),
        ]
    )
    figure.text(x + cell * columns, y + cell * rows + 20, "S, in global memory", SMALL, "end")
    return figure


def who():
    """Which thread computes which scores of a tile."""
    config = constants(KERNEL, "Config", bytes=2)
    warp, lane = 1, 5
    rows = range(warp, config.kBlockQ, config.kWarps)
    figure = Figure(
        "02_who",
        460,
        f"{config.kBlockQ} × {config.kBlockKV} scores, {config.kThreads} threads",
        f"In a tile of {config.kBlockQ} by {config.kBlockKV} scores, warp {warp} computes rows "
        f"{', '.join(map(str, rows))}. Its lane {lane} has the scores of key {lane} in these rows.",
    )
    cell, x, y = 11, LEFT + 30, 84
    figure.cells([(x + lane * cell, y, cell, config.kBlockQ * cell)], "orange")
    figure.cells([(x, y + r * cell, config.kBlockKV * cell, cell) for r in rows], "blue")
    figure.cells([(x + lane * cell, y + r * cell, cell, cell) for r in rows], "red", full=True)
    figure.grid(x, y, config.kBlockKV, config.kBlockQ, cell)
    figure.note(x, y - 18, "keys 0 to 31: a lane for each")
    for r in rows:
        figure.note(x - 6, y + (r + 0.5) * cell, str(r), "end")
    figure.legend(
        438,
        108,
        [
            ("blue", f"warp {warp}: rows"),
            ("orange", f"lane {lane}: key {lane}"),
            ("red-full", "this thread's scores"),
        ],
        column=True,
    )
    figure.lines(
        438, 220, ["In each step all lanes", "read the same number of", "sQ, and a column of sK."], SMALL
    )
    return figure


def barriers():
    """The two hazards, as a diagram of time."""
    figure = Figure(
        "02_barriers",
        490,
        "Two barriers, two hazards",
        "Time runs to the right. Warps 0 and 1 load their parts of a tile, wait at barrier 1,"
        " compute from the whole tile, wait at barrier 2, and load the next tile. Without barrier 1"
        " a warp reads what is not yet written. Without barrier 2 a warp overwrites what another"
        " still reads.",
    )
    top = 122
    for y, name, parts in (
        (top, "warp 0", ((108, 100, "load"), (236, 110, "compute"), (506, 100, "load"))),
        (top + 92, "warp 1", ((108, 122, "load"), (236, 256, "compute"), (506, 122, "load"))),
    ):
        figure.text(LEFT, y + 28, name, bold=True)
        for x, width, label in parts:
            figure.box(x, y, width, 58, "orange" if label == "load" else "blue", label)
    for x, label in ((233, "(1)"), (499, "(2)")):
        figure.line([(x, top - 20), (x, top + 172)], "red", 5)
        figure.text(x, top - 36, label, bold=True, anchor="middle")
    figure.note(370, top + 28, "waits")
    figure.note(108, top + 192, "tile 0")
    figure.note(506, top + 192, "tile 1, over tile 0")
    figure.text(LEFT, 366, "Without (1):", bold=True)
    figure.text(166, 366, "warp 0 reads rows that warp 1 has not written.")
    figure.note(166, 394, "Read after write.")
    figure.text(LEFT, 432, "Without (2):", bold=True)
    figure.text(166, 432, "warp 0 overwrites rows that warp 1 still reads.")
    figure.note(166, 460, "Write after read.")
    return figure


def banks():
    """The banks of sK that the 32 lanes of a warp read, without padding and with it."""
    element, head_dim = 2, 64
    config = constants(KERNEL, "Config", bytes=element)
    pitches = [head_dim, head_dim + config.kPad]
    lanes_banks = {
        pitch: [lane * pitch * element // BANK_BYTES % BANKS for lane in range(32)]
        for pitch in pitches
    }
    passes = {pitch: max(map(found.count, found)) for pitch, found in lanes_banks.items()}
    figure = Figure(
        "02_banks",
        480,
        "32 lanes read one column of sK, in f16",
        (
            "Each of 32 lanes reads the first element of its own row of sK. "
            + " ".join(
                f"With a pitch of {pitch} halves the column lies in {len(set(found))}"
                f" bank{'s'[:len(set(found)) > 1]} and takes {passes[pitch]}"
                f" wavefront{'s'[:passes[pitch] > 1]}."
                for pitch, found in lanes_banks.items()
            )
        ),
    )
    cell, top = 9.8, 128
    for x, pitch, colour in ((44, pitches[0], "red"), (386, pitches[1], "green")):
        count = passes[pitch]
        figure.text(
            x, 74, f"[32][{pitch}]: {count} wavefront{'s'[:count > 1]}", 22, bold=True
        )
        figure.note(x, 104, "banks 0 to 31")
        figure.grid(x, top, BANKS, 32, cell)
        figure.cells(
            [
                (x + cell * bank, top + cell * lane, cell, cell)
                for lane, bank in enumerate(lanes_banks[pitch])
            ],
            colour,
            full=True,
        )
        figure.note(x - 6, top + 8, "0", "end")
        figure.note(x - 6, top + 32 * cell - 8, "31", "end")
    figure.text(40, 462, "A row of each square is a lane's row of sK.", SMALL)
    return figure


FIGURES = [walk(), who(), barriers(), banks()]
