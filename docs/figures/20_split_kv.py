"""A figure of stages/20_split_kv: the work of three sequences in equal spans."""

from drawing import Figure, LEFT, SMALL
from flow import in_order
from sources import read

STAGE = "stages/20_split_kv/"
TILES, BLOCKS = (5, 3, 4), 4
COLOURS = ("sky", "orange", "green", "purple")


def check():
    """The kernel divides as the figure shows."""
    in_order(read(STAGE + "work.cuh"), "return work * block / division.blocks;",
             "piece.slot = 2 * block_ + (end == each ? 0 : 1);")


def pieces():
    """Of each piece its block, its first unit, its end and its slot, or None if it is all."""
    work, found = sum(TILES), []
    for block in range(BLOCKS):
        at, end = work * block // BLOCKS, work * (block + 1) // BLOCKS
        first = 0
        for tiles in TILES:
            begin, stop = max(at, first), min(end, first + tiles)
            if begin < stop:
                whole = begin == first and stop == first + tiles
                slot = None if whole else 2 * block + (0 if stop == first + tiles else 1)
                found.append((block, begin, stop, slot))
            first += tiles
    return found


def spans():
    """The line of units, its spans and its slots."""
    cell, left, top = 46, 130, 118
    figure = Figure(
        "20_spans", 0, "Twelve units in four equal spans",
        "The units of three sequences, with 5, 3 and 4 tiles of keys, in one line. Four blocks have three"
        " units each. The tile of rows of sequence 0 is cut behind its third unit, that of sequence 1 behind"
        " its first, and that of sequence 2 behind its first. The six pieces have the slots "
        + ", ".join(str(slot) for *_, slot in pieces()) + ".")
    figure.text(LEFT, 92, "sequence", SMALL)
    first = 0
    for number, tiles in enumerate(TILES):
        x = left + cell * first
        figure.text(x + cell * tiles / 2, 80, str(number), SMALL, "middle", bold=True)
        figure.line([(x + 4, 98), (x + cell * tiles - 4, 98)], "grey", 1.5)
        first += tiles
    figure.text(LEFT, top + cell / 2, "tile of keys", SMALL)
    for block, begin, end, _ in pieces():
        figure.cells([(left + cell * unit, top, cell, cell) for unit in range(begin, end)], COLOURS[block])
    figure.grid(left, top, sum(TILES), 1, cell)
    units = [tile for tiles in TILES for tile in range(tiles)]
    for unit, tile in enumerate(units):
        figure.text(left + cell * (unit + 0.5), top + cell / 2, str(tile), SMALL, "middle")
    low = top + cell + 30
    figure.text(LEFT, low, "slot", SMALL)
    for _, begin, end, slot in pieces():
        figure.frame(left + cell * begin, top, cell * (end - begin), cell)
        figure.text(left + cell * (begin + end) / 2, low, "O" if slot is None else str(slot), SMALL, "middle")
    figure.legend(LEFT, low + 34, [(COLOURS[block], f"block {block}") for block in range(BLOCKS)])
    figure.height = low + 76
    return figure


check()
FIGURES = [spans()]
