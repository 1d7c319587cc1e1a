"""A figure of stages/20_split_kv: the spans of blocks, and the slots of their partial results."""

from drawing import Figure, LEFT, SMALL
from flow import in_order
from sources import read

STAGE = "stages/20_split_kv/"
SEQUENCES = (("orange", 5), ("sky", 2), ("purple", 9))  # colour, tiles of keys
BLOCKS = 4


def check():
    """The stage divides the work, and numbers the slots, as pieces() does."""
    in_order(read(STAGE + "work.cuh"), "return work * block / division.blocks;",
             "piece.is_all = begin == 0 && end == each;", "piece.slot = 2 * block_ + (end == each ? 0 : 1);")


def pieces():
    """(sequence, first unit, last unit + 1, slot or None) of each piece, in the order of the work."""
    work, result, first = sum(tiles for _, tiles in SEQUENCES), [], 0
    bounds = [work * block // BLOCKS for block in range(BLOCKS + 1)]
    for sequence, (_, tiles) in enumerate(SEQUENCES):
        for block in range(BLOCKS):
            begin, end = max(first, bounds[block]), min(first + tiles, bounds[block + 1])
            if begin < end:
                is_all = end - begin == tiles
                result.append((sequence, begin, end,
                               None if is_all else 2 * block + (0 if end == first + tiles else 1)))
        first += tiles
    return bounds, result


def spans():
    """Three sequences on four blocks."""
    bounds, found = pieces()
    cell, top, slots, merged = 42, 104, 240, 354
    width, height = 62, 40
    used = {slot: sequence for sequence, _, _, slot in found if slot is not None}
    places = {2 * block + side: (bounds[block] + 0.5 if side == 0 else bounds[block + 1] - 0.5)
              for block in range(BLOCKS) for side in (0, 1)}
    figure = Figure(
        "20_spans", 0, "Equal spans, and where results go",
        f"Sequences of {', '.join(str(tiles) for _, tiles in SEQUENCES)} tiles of keys lie in a line, which"
        f" {BLOCKS} blocks divide into equal spans. "
        + " ".join(f"Sequence {sequence}, units {begin} to {end - 1}: "
                   + ("O is written at once." if slot is None else f"slot {slot}.")
                   for sequence, begin, end, slot in found)
        + " A second kernel merges the slots of a sequence in the order of its keys.")
    at = 0
    for sequence, (colour, tiles) in enumerate(SEQUENCES):
        figure.text(LEFT + cell * (at + tiles / 2), 74, f"sequence {sequence}", SMALL, "middle", bold=True)
        for tile in range(tiles):
            figure.box(LEFT + cell * (at + tile) + 1, top, cell - 2, cell - 2, colour, str(tile), SMALL)
        at += tiles
    for block in range(BLOCKS):
        begin, end = LEFT + cell * bounds[block], LEFT + cell * bounds[block + 1]
        figure.frame(begin + 1, top - 6, end - begin - 2, cell + 10)
        figure.text((begin + end) / 2, top + cell + 24, f"block {block}", SMALL, "middle")
    for slot, place in places.items():
        x = LEFT + cell * place
        colour = SEQUENCES[used[slot]][0] if slot in used else "paper"
        figure.box(x - cell / 2 + 1, slots, cell - 2, height, colour, str(slot), SMALL, dashed=slot not in used)
    figure.text(LEFT + cell / 2, slots - 18, "slots", SMALL, "middle")
    outputs = {0: 4, 1: 6, 2: 11.5}
    for sequence, place in outputs.items():
        x = LEFT + cell * place
        figure.box(x - width / 2, merged, width, height, SEQUENCES[sequence][0], f"O {sequence}", SMALL, bold=True)
    for sequence, _, _, slot in found:
        x = LEFT + cell * (outputs[sequence] if slot is None else places[slot])
        figure.arrow([(x, top + cell + (44 if slot is None else 40)), (x, (merged if slot is None else slots) - 4)], "grey")
        if slot is not None:
            figure.arrow([(x, slots + height + 4), (LEFT + cell * outputs[sequence], merged - 4)], "grey")
    notes = ("A square above is a tile of keys with its number in the sequence. A",
             "frame is the span of a block. Dashed slots stay empty. A second",
             "kernel merges slots into O 0 and O 2, in the order of the keys.")
    figure.notes(LEFT, merged + height + 30, notes)
    figure.height = merged + height + 32 + 24 * len(notes)
    return figure


check()
FIGURES = [spans()]
