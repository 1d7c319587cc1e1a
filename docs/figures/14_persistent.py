"""Figures of stages/14_persistent: who takes which tile, the end of a tile, the buffers of Q."""

import re

from drawing import Figure, MARGIN, SMALL
from sources import causal, mask, python, read

KERNEL = "stages/14_persistent/kernel.cuh"
ORDER = "common/device/block_order.h"
LEFT = MARGIN + 4
BLOCKS, TILES, HEADS = 4, 5, 3
COLOURS = ("blue", "orange", "green", "purple", "yellow")


def evaluated(expression, **values):
    """A C++ expression's value."""
    return eval(python(expression), {}, values)  # pylint: disable=eval-used


def lengths():
    """The tiles of keys of each tile of queries, in the order of place_of(), with a causal mask."""
    rows, keys = 128, 128  # head_dim 128
    if not re.search(rf"case 128:\s+return \{{{keys}, {rows // 64}, ", read(KERNEL)):
        raise ValueError(f"{KERNEL}: the figure has another shape")
    nth = re.search(r"tile = unequal \? (.+?) : ", read(ORDER))[1]
    sequence = causal(TILES * rows, TILES * rows)
    tiles = [evaluated(nth, n=n, tiles=TILES, heads=HEADS) for n in range(TILES * HEADS)]
    ranges = [mask().visible_keys(sequence, tile * rows, (tile + 1) * rows) for tile in tiles]
    return [-(-end // keys) - begin // keys for begin, end in ranges]


def taken(choice):
    """Of each block, the (round, length) of what it takes; `choice` is its place in a round."""
    work = lengths()
    rounds = range(-(-len(work) // BLOCKS))
    return [[(n, work[at]) for n in rounds
             for at in [n * BLOCKS + evaluated(choice, n=n, block=block, blocks=BLOCKS)]
             if at < len(work)] for block in range(BLOCKS)]


def zig_zag():
    """The kernel's choice."""
    found = re.search(r"return n \* gridDim\.x \+ \((.+? \? .+? : .+?)\);", read(KERNEL))
    return found[1].replace("gridDim.x", "blocks").replace("blockIdx.x", "block")


def next_free():
    """The same where each piece goes to the block that is done first."""
    blocks = [[] for _ in range(BLOCKS)]
    for n, length in enumerate(lengths()):
        first = min(blocks, key=lambda block: sum(each for _, each in block))
        first.append((n // BLOCKS, length))
    return blocks


def rounds():
    """Who takes which tile of queries: the lengths are tiles of keys."""
    plans = (
        ("Every round in the same order", taken("block")),
        ("Every other round in the opposite order", taken(zig_zag())),
        ("Each tile to the multiprocessor that is free first", next_free()),
    )
    ends = [max(sum(length for _, length in block) for block in plan) for _, plan in plans]
    total = sum(lengths())
    figure = Figure(
        "14_rounds",
        760,
        "Who takes which tile of queries",
        f"{len(lengths())} tiles of queries with a causal mask, {total} tiles of keys in all, on"
        f" {BLOCKS} multiprocessors. Round after round in the same order the last one ends after"
        f" {ends[0]} tiles of keys, in turned order after {ends[1]}, and after {ends[2]} if each"
        " goes to the multiprocessor that is free first.",
    )
    x, unit, high = 66, 30, 36
    for part, ((name, plan), end) in enumerate(zip(plans, ends)):
        y = 34 + 228 * part
        figure.heading(name, y)
        for row, block in enumerate(plan):
            top, at = y + 30 + (high + 5) * row, x
            figure.text(LEFT, top + high / 2, str(row), SMALL)
            for n, length in block:
                figure.box(at + 1, top, unit * length - 2, high, COLOURS[n % 5], str(length), SMALL)
                at += unit * length
        at = x + unit * end
        figure.line([(at + 2, y + 24), (at + 2, y + 34 + 4 * (high + 5))], "red", 3)
        figure.text(at + 10, y + 30 + 2 * (high + 5), f"ends after {end}", SMALL)
    figure.text(LEFT, 718, "A row is a multiprocessor, a box a tile of queries with its tiles of keys,",
                SMALL, style="quiet")
    figure.text(LEFT, 742, f"a colour a round. {total} / {BLOCKS} = {total / BLOCKS:g} would be even.",
                SMALL, style="quiet")
    return figure


# The schematics' bars: begin, end, colour, label. The products of a tile take 3 each, a softmax 9.
BEFORE = (
    ("tensor cores", ((0, 6, "blue", "0"), (6, 12, "sky", "1"), (12, 15, "blue", "0"),
                      (18, 21, "sky", "1"), (32, 35, "blue", "0"), (35, 38, "sky", "1"),
                      (44, 48, "blue", "0"))),
    ("consumer 0", ((3, 12, "green", "softmax"), (15, 19, "purple", "O"),
                    (35, 44, "green", "softmax"))),
    ("consumer 1", ((0, 3, "green", ""), (9, 18, "green", "softmax"), (21, 25, "purple", "O"),
                    (38, 47, "green", "softmax"))),
    ("copy unit", ((27, 32, "orange", "Q, K"),)),
)
AFTER = (
    ("tensor cores", ((0, 6, "blue", "0"), (6, 12, "sky", "1"), (12, 15, "blue", "0"),
                      (18, 21, "sky", "1"), (21, 24, "blue", "0"), (25, 28, "sky", "1"),
                      (33, 39, "blue", "0"), (39, 45, "sky", "1"), (45, 48, "blue", "0"))),
    ("consumer 0", ((3, 12, "green", "softmax"), (15, 19, "purple", "O"),
                    (24, 33, "green", "softmax"), (36, 45, "green", "softmax"))),
    ("consumer 1", ((0, 3, "green", ""), (9, 18, "green", "softmax"), (21, 25, "purple", "O"),
                    (28, 37, "green", "softmax"), (42, 48, "green", ""))),
    ("copy unit", ((6, 10, "orange", "Q"), (10, 14, "orange", "K"))),
)
X, UNIT = 140, 11.4


def bars(figure, y, rows, high=38):
    """Rows of bars over time."""
    for row, (name, parts) in enumerate(rows):
        top = y + (high + 8) * row
        figure.text(LEFT, top + high / 2, name, SMALL)
        for begin, end, colour, label in parts:
            figure.box(X + UNIT * begin + 1, top, UNIT * (end - begin) - 2, high, colour, label,
                       SMALL)


def transition():
    """The end of a tile of queries and the start of the next: a schematic, not a measurement."""
    figure = Figure(
        "14_ends",
        610,
        "From one tile of queries to the next: a schematic",
        "A schematic without a scale. With a block for each tile of queries, the next block begins"
        " when both consumers have written O: it begins its barriers, requests Q and K and waits."
        " With blocks that stay, Q and K are there, and consumer 0 begins with the next tile while"
        " consumer 1 ends this one.",
    )
    figure.heading("A block for each tile of queries (13)")
    bars(figure, 62, BEFORE)
    figure.line([(X + UNIT * 25, 56), (X + UNIT * 25, 246)], "red", 3)
    figure.text(X + UNIT * 25 + 8, 254, "a new block begins", SMALL)
    figure.heading("A block that stays (14)", 306)
    bars(figure, 334, AFTER)
    figure.legend(LEFT, 536, [("blue", "products of consumer 0"), ("sky", "of consumer 1"),
                              ("orange", "a copy")], in_a_row=True)
    figure.legend(LEFT, 566, [("green", "a softmax"), ("purple", "O divided, written, stored")],
                  in_a_row=True)
    figure.text(LEFT, 594, "No scale, not measured.", SMALL, style="quiet")
    return figure


def buffers():
    """What lies in the buffers of Q: the same schematic."""
    figure = Figure(
        "14_buffers",
        356,
        "The buffers of Q and O: a schematic",
        "A schematic without a scale. With two buffers the next Q arrives in the one while the other"
        " still holds this tile's Q and then its O. With one buffer the next Q is requested when"
        " O has been read from there.",
    )
    figure.heading("Two buffers, head_dim 32 to 128")
    bars(figure, 62, (
        ("buffer 0", ((0, 9, "blue", "Q, tile n"), (15, 25, "purple", "O, tile n"))),
        ("buffer 1", ((6, 10, "orange", ""), (21, 40, "blue", "Q, tile n + 1"),
                      (43, 48, "purple", "O"))),
    ))
    figure.heading("One buffer, head_dim 256", 188)
    bars(figure, 216, (
        ("the buffer", ((0, 9, "blue", "Q, tile n"), (15, 25, "purple", "O, tile n"),
                        (25, 30, "orange", "n + 1"), (30, 48, "blue", "Q, tile n + 1"))),
    ))
    figure.legend(LEFT, 292, [("orange", "Q arrives"), ("blue", "Q is read by products")],
                  in_a_row=True)
    figure.legend(LEFT, 322, [("purple", "O is written, and read by a store")], in_a_row=True)
    return figure


def figures():
    """The figures of this chapter."""
    return [transition(), buffers(), rounds()]
