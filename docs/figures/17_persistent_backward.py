"""Figures of stages/17_persistent_backward: who waits for whom, and in which order blocks add to dQ."""

import heapq

from drawing import Figure, LEFT, SMALL
from flow import RIGHT, consumers, entries, fan, in_order
from sources import read

STAGE = "stages/17_persistent_backward/"


def check():
    """The kernel does what the figures show, in this order."""
    in_order(read(STAGE + "storage.cuh"), "mbarrier_init(&storage.k_full[slot], 2)",
             "mbarrier_init(&storage.k_empty[slot], C::kWarps + C::kConsumers)",
             "mbarrier_init(&storage.full[stage], 2 + 32)", "mbarrier_init(&storage.empty[stage], C::kWarps)",
             "mbarrier_init(&storage.v_full, 1)", "mbarrier_init(&storage.v_empty, C::kWarps)",
             "mbarrier_init(&storage.ds_full, C::kWarps)",
             "mbarrier_init(&storage.dq_full[consumer], kWarpgroupWarps)",
             "mbarrier_init(&storage.dq_empty[consumer], 1)")
    in_order(read("common/device/tile_order.h"), "const int first = group_of(n) * group_heads",
             "return {first + rest % width, rest / width}",
             "std::clamp<std::int64_t>(blocks / tiles, 1, heads)")


def waits():
    """Who waits for whom."""
    figure = Figure(
        "17_waits", 0, "Who waits for whom",
        "The producer waits at k_empty until the eight warps of both consumers and the two threads that add"
        " have read a piece, at v_empty until those of the consumers have read V, and at"
        " empty until both consumers have read a buffer of Q and dO. The consumers wait at k_full"
        " for the piece and K, at v_full for V, and at full for a tile of Q and dO. A consumer waits for its"
        " turn at a named barrier of its own, where the other arrives, and at ds_full for the dS of both. A"
        " thread that adds waits at dq_full for what a consumer has written, and the consumer waits at dq_empty"
        " until TMA has read it. That thread waits at k_full for a piece, too.")
    figure.box(LEFT, 62, RIGHT - LEFT, 66, "yellow", "producer warp",
               below=["pieces; K, V; Q, dO, LSE and delta of tile after tile"])
    down = 476
    fan(figure, 132, down, (("orange", True), ("blue", False)), x=(50, 670), step=28)
    fan(figure, 132, down, (("yellow", True), ("purple", False)), x=(98, 622), step=28)
    fan(figure, 132, down, (("green", True), ("sky", False)), x=(146, 574), step=28)
    entries(figure, 146, (
        ("orange", "k_full[slot]", "2 arrivals: a piece, and its K"),
        ("blue", "k_empty[slot]", "10 arrivals: all have read them"),
        ("yellow", "v_full", "1 arrival: V is there"),
        ("purple", "v_empty", "8 arrivals: both have read it"),
        ("green", "full[stage]", "34 arrivals: Q, dO, LSE, delta"),
        ("sky", "empty[stage]", "8 arrivals: both have read them")), step=54)
    between = (("red", 1, "kTurn + 1", "consumer 1 may compute P and dS"),
               ("red", -1, "kTurn", "consumer 0 may"),
               ("ink", 0, "ds_full", "both have written dS of a tile"))
    end = consumers(figure, down + 4, between, "64 keys")
    fan(figure, end + 4, end + 128, (("orange", True), ("purple", False)))
    entries(figure, end + 18, (
        ("orange", "dq_full[consumer]", "4 arrivals: it has written its part"),
        ("purple", "dq_empty[consumer]", "1 arrival: TMA has read it")), step=54)
    adder = end + 132
    figure.box(LEFT, adder, RIGHT - LEFT, 66, "yellow", "two threads that add",
               below=["dQ of each tile, a thread for each consumer"])
    notes = ("An arrow goes from those that arrive to those that wait. Not shown: the",
             "threads that add wait at k_full for the piece, and arrive at k_empty.")
    figure.notes(LEFT, adder + 92, notes)
    figure.height = adder + 94 + 24 * len(notes)
    return figure


def additions(blocks, heads, tiles, together):
    """(block, head, tile, step by step when it begins) of each piece, and when the last one ends. A head has
    as many tiles of queries as of keys. Blocks take pieces in order; a step takes a unit of time, and its
    end adds to a tile of dQ, a unit after the tile of keys before has been added."""
    pieces = [(head, tile) for first in range(0, heads, together) for tile in range(tiles)
              for head in range(first, min(first + together, heads))]
    free, added, taken = [(0, block) for block in range(blocks)], {}, []
    for head, tile in pieces:
        now, block = heapq.heappop(free)
        begins = []
        for query in range(tiles):
            begins.append(max(now, added.get((head, query), -1)))
            now = added[head, query] = begins[-1] + 1
        heapq.heappush(free, (now, block))
        taken.append((block, head, tile, begins))
    return taken, max(now for now, _ in free)


def order():
    """The order of pieces in a deterministic call without a mask."""
    blocks, heads, tiles, left, cell, high = 8, 6, 4, 132, 30, 24
    colours = ("sky", "orange", "green", "purple", "yellow", "blue")
    panels = [(name, *additions(blocks, heads, tiles, together)) for name, together in
              (("one head after the other", 1), (f"{blocks // tiles} heads together", blocks // tiles))]
    ends = [end for _, _, end in panels]
    figure = Figure(
        "17_order", 0, "Which pieces blocks compute at a time",
        f"{blocks} blocks compute {heads} heads of {tiles} tiles of keys and {tiles} of queries, and add to a tile"
        " of dQ in ascending order of the tiles of keys. Above, one head after the other: in each round blocks that"
        f" begin together have different tiles of a head, and wait for each other; it takes {ends[0]} steps. Below,"
        f" {blocks // tiles} heads together: after the first round a block begins with a tile when the tile before"
        f" it is one step ahead, and none waits; it takes {ends[1]} steps.")
    top = 62
    for name, taken, end in panels:
        figure.text(LEFT, top + 12, f"{name}: {end} steps", SMALL, bold=True)
        y0 = top + 30
        for block in range(blocks):
            figure.text(LEFT, y0 + high * (block + 0.5), f"block {block}", SMALL)
        for head, colour in enumerate(colours):
            figure.cells([(left + cell * begin, y0 + high * block, cell, high)
                          for block, of, _, begins in taken if of == head for begin in begins], colour)
        figure.grid(left, y0, max(ends), blocks, cell, high)
        for block, _, tile, begins in taken:
            figure.text(left + cell * (begins[0] + 0.5), y0 + high * (block + 0.5), str(tile), SMALL, "middle")
        top = y0 + high * blocks + 18
    figure.legend(LEFT, top, [(colour, f"head {head}") for head, colour in enumerate(colours)])
    notes = ("A schematic: a square is a step, the number that of the tile of keys with",
             "which a block begins. White: the block waits until the tile before it has",
             "been added; at the right end, no tile is left for it.")
    figure.notes(LEFT, top + 36, notes)
    figure.height = top + 38 + 24 * len(notes)
    return figure


check()
FIGURES = [waits(), order()]
