"""A figure of stages/18_dq_on_the_way: when dQ gets its zeros and is rounded."""

from drawing import Figure, LEFT, SMALL
from flow import in_order
from sources import read

STAGE = "stages/18_dq_on_the_way/"


def check():
    """The kernel does what the figure shows, in this order."""
    in_order(read(STAGE + "producer.cuh"), "later = number + schedule.lead, earlier = number - schedule.lag",
             "zero_slices", "round_slice")
    in_order(read(STAGE + "pieces.cuh"), "std::min<std::int64_t>(pieces, group_pieces + 3 * blocks)")


def slices():
    """When the slices of dQ get their zeros, and when they are rounded."""
    group, groups, blocks = 6, 3, 1
    pieces, lead = group * groups, group + 3 * blocks
    left, cell, row, top = 152, 30, 54, 118
    moments = [("before", None)] + [(f"piece {n}", n) for n in (1, 7, 13)] + [("after", pieces)]
    figure = Figure(
        "18_slices", 0, "Slices of dQ: zeros ahead, rounding behind",
        f"The slices of dQ of {pieces} pieces, in {groups} groups of {group}, at {len(moments)} moments, with"
        f" one block, and a lead and a lag of {lead} pieces. Before the pass those of the first {lead} are zeros."
        " While a piece is computed, blocks add to all the slices of its group; the keepers write zeros for"
        f" the piece {lead} pieces later and round the slices of the one {lead} pieces before, whose group is"
        f" complete. After the pass those of the last {lead} pieces are left to round.")
    for q in range(groups):
        x = left + cell * group * q
        figure.text(x + cell * group / 2, 76, f"group {q}", SMALL, "middle", bold=True)
        figure.line([(x + 4, 92), (x + cell * group - 4, 92)], "grey", 1.5)
    for n, (label, now) in enumerate(moments):
        y = top + row * n
        figure.text(LEFT, y + cell / 2, label, SMALL)
        zeroed = lead if now is None else min(pieces, now + lead + (now < pieces))
        rounded = 0 if now is None else max(0, min(now + 1, pieces) - lead)
        begin = 0 if now is None else now // group * group
        adding = range(begin, begin + group if now is not None and now < pieces else begin)
        colours = {"green": [], "purple": [], "orange": [], "sky": []}
        for piece in range(zeroed):
            colour = ("green" if piece < rounded else "orange" if piece in adding
                      else "purple" if now is not None and piece < begin else "sky")
            colours[colour].append((left + cell * piece, y, cell, cell))
        for colour, cells in colours.items():
            figure.cells(cells, colour)
        figure.grid(left, y, pieces, 1, cell)
        for piece in (() if now is None else (now + lead, now - lead)):
            if now < pieces and 0 <= piece < pieces:
                figure.frame(left + cell * piece, y, cell, cell)
        if now is not None and now < pieces:
            figure.text(left + cell * (now + 0.5), y + cell / 2, str(now), SMALL, "middle")
    y = top + row * len(moments) + 8
    figure.legend(LEFT, y,
                  [("sky", "zeros"), ("orange", "blocks add"), ("purple", "complete"), ("green", "rounded")])
    notes = ("A square has the slices of a piece. A frame: they get their zeros, or are",
             f"rounded, while the piece with the number is computed. Groups of {group} pieces",
             f"and one block, so lead and lag are {group} + 3 = {lead}.")
    figure.notes(LEFT, y + 36, notes)
    figure.height = y + 38 + 24 * len(notes)
    return figure


check()
FIGURES = [slices()]
