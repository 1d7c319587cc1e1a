"""Figures of stages/14_persistent: the end of a tile, the buffers of Q, who takes which tile,
three consumers instead of two."""

import heapq
import pathlib
import re
import subprocess
import tempfile

from drawing import Figure, LEFT, SMALL
from sources import causal, first_queries, mask, python, read, tile_shape
from timeline import figure_of

SHAPE = "stages/14_persistent/shape.cuh"
ORDER = "common/device/tile_order.h"
LONGEST_FIRST = "common/device/block_order.h"
BLOCKS, TILES, HEADS = 4, 5, 6  # of the example
COLOURS = ("blue", "sky", "orange", "yellow", "green", "purple")


def lengths():
    """The tiles of keys of each tile of queries of a head, with a causal mask and head_dim 128."""
    keys, consumers = tile_shape(SHAPE, 128)
    rows = 64 * consumers
    sequence = causal(TILES * rows, TILES * rows)
    ranges = [mask().visible_keys(sequence, max(begin, 0), begin + rows)
              for begin in first_queries(rows, TILES * rows)]
    return [-(-end // keys) - begin // keys for begin, end in ranges]


# Prints a line for each block of the example: its tiles.
PRINT = """
#include <cstdio>
int main() {
  const TileRounds order = tile_rounds(HEADS, TILES, BLOCKS, true);
  for (int block = 0; block < BLOCKS; ++block, std::puts("")) {
    for (int round = 0; order.at(block, round).head < HEADS; ++round) {
      std::printf("%d %d ", order.at(block, round).head, order.at(block, round).tile);
    }
  }
}
"""


def plan():
    """Of each block of the example the (head, tile of queries) that it takes: by the kernel's own source,
    compiled."""
    source = "".join(re.search(rf"^{words} \w* ?\{{.*?^\}};?$", read(ORDER), re.DOTALL | re.MULTILINE)[0]
                     for words in ("struct HeadTile", "struct TileRounds", r"constexpr TileRounds \w+\([^)]*\)"))
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "order")
        subprocess.run(["g++", "-std=c++17", "-D__host__=", "-D__device__=", f"-DHEADS={HEADS}",
                        f"-DTILES={TILES}", f"-DBLOCKS={BLOCKS}", "-x", "c++", "-", "-o", program],
                       input=source + PRINT, text=True, check=True)
        printed = subprocess.run([program], text=True, check=True, stdout=subprocess.PIPE).stdout
    numbers = [list(map(int, line.split())) for line in printed.splitlines()]
    return [list(zip(line[::2], line[1::2])) for line in numbers]


def next_free(each):
    """The same with a block for each tile of queries, in the order of place_of_block(), where the next
    goes to the SM that is free first."""
    taken, free = [[] for _ in range(BLOCKS)], [(0, block) for block in range(BLOCKS)]
    for n in range(TILES * HEADS):
        at, block = free[0]
        place = n % HEADS, TILES - 1 - n // HEADS
        taken[block].append(place)
        heapq.heapreplace(free, (at + each[place[1]], block))
    parts = [re.search(rf"{name} = unequal \? (.+?) : ", read(LONGEST_FIRST))[1] for name in ("head", "tile")]
    values = {"n": HEADS + 1, "tiles": TILES, "heads": HEADS}
    second = [eval(python(part), {}, values) for part in parts]  # pylint: disable=eval-used
    if second != [1, TILES - 2]:
        raise ValueError(f"{LONGEST_FIRST}: the figure has another order")
    return taken


def order():
    """Which SM takes which tile of queries: the lengths are tiles of keys."""
    each = lengths()
    shown = (("In pairs, the last two heads single (14)", plan()),
             ("Longest first, to the next free SM (13)", next_free(each)))
    last = [max(sum(each[tile] for _, tile in taken) for taken in blocks) for _, blocks in shown]
    total = sum(each) * HEADS
    figure = Figure(
        "14_order",
        34 + 216 * len(shown) + 76,
        "Which SM takes which tile of queries",
        f"{TILES * HEADS} tiles of queries of {HEADS} heads with a causal mask, {total} tiles of keys in"
        f" all, on {BLOCKS} SMs. In 14 a long tile of a head and a short one of its partner make a"
        " pair, and neighbours take pairs of the same two heads. The tiles of heads 4 and 5 follow, the longest"
        f" first. The last one ends after {last[0]} tiles of keys. If the longest of all heads come first, to"
        f" the next free SM, all heads are in work until nearly the end, and the last one ends after {last[1]}.",
        heading="",
    )
    x, high = 56, 34
    unit = 556 / max(last)
    for part, ((name, blocks), end) in enumerate(zip(shown, last)):
        y = 34 + 216 * part
        figure.heading(name, y)
        for row, taken in enumerate(blocks):
            top, at = y + 26 + (high + 5) * row, x
            figure.text(LEFT, top + high / 2, str(row), SMALL)
            for head, tile in taken:
                figure.box(at + 1, top, unit * each[tile] - 2, high, COLOURS[head], str(each[tile]),
                           SMALL)
                at += unit * each[tile]
        at = x + unit * end
        figure.line([(at + 2, y + 20), (at + 2, y + 30 + 4 * (high + 5))], "red", 3)
        figure.text(at + 10, y + 26 + 2 * (high + 5), f"ends: {end}", SMALL)
    y = 34 + 216 * len(shown)
    figure.legend(LEFT, y - 4, [(colour, f"head {n}") for n, colour in enumerate(COLOURS)])
    figure.note(LEFT, y + 26, "A row is an SM, a box a tile of queries with its tiles of keys.")
    figure.note(LEFT, y + 50, f"{total} / {BLOCKS} = {total / BLOCKS:g} would be even.")
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
        heading="A block for each tile of queries (13)",
    )
    figure.bars(X, UNIT, 62, BEFORE)
    figure.line([(X + UNIT * 25, 56), (X + UNIT * 25, 246)], "red", 3)
    figure.text(X + UNIT * 25 + 8, 254, "a new block begins", SMALL)
    figure.heading("A block that stays (14)", 306)
    figure.bars(X, UNIT, 334, AFTER)
    figure.legend(LEFT, 536, [("blue", "products of consumer 0"), ("sky", "of consumer 1"), ("orange", "a copy")])
    figure.legend(LEFT, 566, [("green", "a softmax"), ("purple", "O divided, written, stored")])
    figure.note(LEFT, 594, "No scale, not measured.")
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
        heading="Two buffers, head_dim 32 to 128",
    )
    figure.bars(X, UNIT, 62, (
        ("buffer 0", ((0, 9, "blue", "Q, tile n"), (15, 25, "purple", "O, tile n"))),
        ("buffer 1", ((6, 10, "orange", ""), (21, 40, "blue", "Q, tile n + 1"),
                      (43, 48, "purple", "O"))),
    ))
    figure.heading("One buffer, head_dim 256", 188)
    figure.bars(X, UNIT, 216, (
        ("the buffer", ((0, 9, "blue", "Q, tile n"), (15, 25, "purple", "O, tile n"),
                        (25, 30, "orange", "n + 1"), (30, 48, "blue", "Q, tile n + 1"))),
    ))
    figure.legend(LEFT, 292, [("orange", "Q arrives"), ("blue", "Q is read by products")])
    figure.legend(LEFT, 322, [("purple", "O is written, and read by a store")])
    return figure


# A consumer's way with 128 columns and 128 keys, in cycles: its softmax, and what else it does before its
# next products, both from the timeline of two consumers.
SOFTMAX, OTHER = 1230, 510


def rounds_of(consumers, keys):
    """A model of consumers that take turns. The products of all run one after the other. Returns the bars
    (row, begin, end, what) of one round of each, row 0 being the tensor cores, and the round's length."""
    product, softmax = 512 * keys // 128, SOFTMAX * keys // 128  # of S, and as much of P V
    free, ready, bars_, starts = 0, [0] * consumers, [], []
    for n in range(12 * consumers):
        who = n % consumers
        begin = max(free, ready[who])
        scores, free = begin + product, begin + 2 * product
        done = max(scores + softmax, free)
        ready[who] = done + OTHER
        if who == 0:
            starts.append(begin)
        bars_ += [(0, begin, scores, ("S", who)), (0, scores, free, ("PV", who)),
                  (1 + who, scores, scores + softmax, ("softmax", who)),
                  (1 + who, done, ready[who], ("other", who))]
    return bars_, starts[8], starts[9] - starts[8]


def three_consumers():
    """Two consumers with tiles of 128 keys, and three with tiles of 64: a model."""
    shapes = ((2, 128), (3, 64))
    models = [rounds_of(*each) for each in shapes]
    products = [1024 * consumers * keys // 128 for consumers, keys in shapes]
    spare = models[0][2] - products[0]
    figure = Figure(
        "14_three_consumers",
        528,
        "Two consumers and three, with 128 columns: a model",
        "A model, not a measurement. The products of all consumers run one after the other. With two"
        f" consumers and tiles of 128 keys a consumer comes back after {models[0][2]:,} cycles, and the"
        f" products of both take {products[0]:,}: the tensor cores wait {spare} cycles of each round. With"
        f" three consumers and tiles of 64 keys the products of a round take {products[1]:,} cycles, and"
        " each consumer is back before they end, so that the tensor cores never wait.",
        heading="",
    )
    span, y = 4700, 34
    for (consumers, keys), (parts, start, length) in zip(shapes, models):
        figure.heading(f"{consumers} consumers, {keys} keys: a round in {length:,} cycles", y)
        rows = [("tensor cores", [])] + [(f"consumer {n}", []) for n in range(consumers)]
        for row, begin, end, (what, who) in parts:
            begin, end = max(begin - start, 0), min(end - start, span)
            if end - begin < 20:
                continue
            colour = {"softmax": "green", "other": "orange"}.get(what, ("blue", "sky", "purple")[who])
            label = str(who) if row == 0 and end - begin > 200 else ""
            if what == "softmax" and end - begin > 700:
                label = "softmax"
            rows[row][1].append((begin, end, colour, label))
        figure.bars(X, 540 / span, y + 28, rows, 40, 34)
        y += 58 + 40 * len(rows)
    figure.legend(LEFT, y + 8, [("blue", "products of consumer 0"), ("sky", "1"), ("purple", "2")])
    figure.legend(LEFT, y + 38, [("green", "a softmax"), ("orange", "P packed, waits, the turn")])
    figure.note(LEFT, y + 68, "A model. A gap in the first row: the tensor cores wait.")
    return figure


def measured():
    """The timelines of 13 and of this stage."""
    return figure_of("14_timeline_d128", "Who waits for whom: measured",
                     [f"docs/results/nvidia-h200/timeline_{stage}.json"
                      for stage in ("13_ping_pong", "14_persistent")], 128)


FIGURES = [transition(), buffers(), three_consumers(), order(), measured()]
