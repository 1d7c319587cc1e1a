"""Figures of stages/16_overlapped_backward: what reads and writes what, the turns, who waits for whom, when
dQ gets its zeros and is rounded, and in which order blocks add to it."""

import heapq
import itertools

from drawing import Figure, LEFT, SMALL, WIDTH
from flow import (ADD, BEFORE, READ, RIGHT, WRITE, consumers, entries, fan, in_order,
                  reads_and_writes)
from sources import read

KERNEL = "stages/16_overlapped_backward/kernel_bwd.cuh"
WORK = "stages/16_overlapped_backward/work.cuh"
X, UNIT, HIGH = 132, 17.5, 40  # where time begins, its scale, the height of a lane
LAST = 32  # units of time that a figure shows
PRODUCT, EXP, DS, WRITES = 2, 3, 2, 1  # a schematic: units of time
COLOURS = {"S": "blue", "dP": "sky", "dV": "purple", "dK": "yellow", "dQ": "yellow", "P": "green",
           "dS": "orange", "write": "grey"}


def check():
    """The kernel does what the figures show, in this order."""
    in_order(read(KERNEL), "const auto tile_of_queries", "mbarrier_wait(&full[stage]", "issue_abt<T>(rS, sK",
             "issue_abt<T>(rdP, sV", "wgmma_wait<kWantsDs>();  // S is there.", "wait_for_turn();", "ptx::exp2",
             "issue_ab<T>(rdV, rA, sdO", "wgmma_wait<kWantsDv>();  // dP is there.",
             "mbarrier_arrive(&v_empty[consumer])", "prob.x * fmaf(rdP",
             "pass_turn();", "wgmma_wait<0>();  // No product reads P", "issue_ab<T>(rdK, rA, sQ",
             "issue_dq(rdQ, n - 1, cuflash::uniform(slot", "pair(sdS[n % 2]",
             "!kWantsDs) ptx::wgmma_wait<0>();",
             "mbarrier_arrive(&storage.ds_full)", "mbarrier_arrive(&empty[stage])",
             "(n == begin)) ptx::mbarrier_arrive(&k_empty[slot ^ 1])", "hand_on_dq(n - 1, rdQ)")
    in_order(read(KERNEL), "mbarrier_init(&k_full[slot], 2)", "mbarrier_init(&k_empty[slot], C::kWarps + 3)",
             "mbarrier_init(&full[stage], 2 + 32)", "mbarrier_init(&empty[stage], C::kWarps)",
             "mbarrier_init(&storage.ds_full, C::kWarps)", "mbarrier_init(&v_full[consumer], 1)",
             "mbarrier_init(&v_empty[consumer], kWarpgroupWarps)",
             "mbarrier_init(&dq_full[consumer], kWarpgroupWarps)", "mbarrier_init(&dq_empty[consumer], 1)")
    in_order(read(KERNEL), "later = n + schedule.lead, earlier = n - schedule.lag", "zero_parts", "round_part")
    in_order(read(WORK), "const int first = n / (tiles * together) * together",
             "return {first + rest % width, rest / width}", "std::clamp<std::int64_t>(blocks / tiles, 1, heads)",
             "std::min<std::int64_t>(schedule.pieces(), queue + 3 * blocks)")


def data():
    """What each step of a consumer's tile reads and writes."""
    steps = (
        ("TMA copies", {"sQ": WRITE, "sdO": WRITE}),
        ("S = K Qᵀ", {"sK": READ, "sQ": READ, "rS": WRITE}),
        ("dP = V dOᵀ", {"sV": READ, "sdO": READ, "rdP": WRITE}),
        ("P = exp(S − LSE)", {"rS": READ, "rA": WRITE}),
        ("dV += Pᵀ dO", {"sdO": READ, "rA": READ, "rdV": ADD}),
        ("dS = P ∘ (dP − delta)", {"rdP": ADD, "rA": READ}),
        ("dS rounded", {"rA": WRITE, "rdP": READ}),
        ("dK += dSᵀ Q", {"sQ": READ, "rA": READ, "rdK": ADD}),
        ("dQ = dS K", {"sK": READ, "sdS": BEFORE, "rdQ": WRITE}),
        ("dS to the other", {"sdS": WRITE, "rA": READ}),
        ("dQ handed on", {"sdQ": WRITE, "rdQ": READ}),
        ("TMA adds to dQ", {"sdQ": READ}),
    )
    return reads_and_writes(
        "16_data", "What reads and writes what, in a tile",
        "For each step of a tile of queries the places it reads and writes. In shared memory: K"
        " until the product of dQ, V until that of dP; Q and dO from their copies to the products with dV and"
        " dK; dS, written by both consumers, read a tile later by the product of dQ; dQ until TMA has added"
        " it. In registers: S"
        " until P is there, dP until dS is, the rounded P and then the rounded dS in the same registers,"
        " dV and dK in all tiles, and dQ until it is handed on.",
        (("shared memory", ("sK", "sV", "sQ", "sdO", "sdS", "sdQ")),
         ("registers", ("rS", "rdP", "rA", "rdV", "rdK", "rdQ"))),
        steps, notes=("rA has P, rounded, and then dS. Two buffers: sK, sQ, sdO, sdS.",
                      "K and V belong to a piece; the grey line of V is for its last tile.",
                      "dQ is that of the tile before: its product, sdQ, the addition. If",
                      "that tile was the last of a piece, the product reads its K."))


def consumer_steps():
    """What a consumer does in a tile: the order of the kernel."""
    for tile in itertools.count():
        yield "issue", "S", tile
        yield "issue", "dP", tile
        yield "await", "S", tile
        yield "turn", None, tile
        yield "work", "P", tile
        yield "issue", "dV", tile
        yield "await", "dP", tile
        yield "work", "dS", tile
        yield "pass", None, tile
        yield "await", "dV", tile
        yield "issue", "dK", tile
        if tile > 0:
            yield "issue", "dQ", tile - 1
        yield "work", "write", tile
        yield "await", "dK", tile
        if tile > 0:
            yield "await", "dQ", tile - 1
            yield "work", "write", tile - 1


LENGTHS = {"P": EXP, "dS": DS, "write": WRITES}


def schedule():
    """Bars (consumer, kind, tile, begin, end), and turns (from, passed, taken)."""
    bars, turns, ends = [], [], {}
    free, passed, waiting = 0, {0: [0], 1: []}, {}
    walks = [consumer_steps(), consumer_steps()]
    ready = [(0, 0), (0, 1)]  # when, who
    while ready:
        now, who = heapq.heappop(ready)
        if now > LAST + 20:
            continue
        kind, what, tile = next(walks[who])
        if kind == "issue":
            begin = max(now, free)
            free = begin + PRODUCT
            ends[who, what, tile] = free
            bars.append((who, what, tile, begin, free))
        elif kind == "await":
            now = max(now, ends[who, what, tile])
        elif kind == "work":
            bars.append((who, what, tile, now, now + LENGTHS[what]))
            now += LENGTHS[what]
        elif kind == "turn":
            if not passed[who]:
                waiting[who] = now
                continue
            at = passed[who].pop(0)
            now = max(now, at)
        elif kind == "pass":
            other = 1 - who
            if other in waiting:
                taken = max(waiting.pop(other), now)
                turns.append((who, now, taken))
                heapq.heappush(ready, (taken, other))
            else:
                passed[other].append(now)
                turns.append((who, now, None))
        heapq.heappush(ready, (now, who))
    begins = {who: [begin for w, kind, _, begin, _ in bars if (w, kind) == (who, "P")]
              for who in (0, 1)}
    return bars, [(who, at, taken if taken is not None else min(
        (begin for begin in begins[1 - who] if begin >= at), default=LAST + 1))
        for who, at, taken in turns]


def turns():
    """Two consumers that take turns at P and dS."""
    bars, passed = schedule()
    figure = Figure(
        "16_turns", 488, "Turns at P and dS: a schematic, not measured",
        "A schematic without a scale. Consumer 0 computes P and dS of its tile, and passes the turn;"
        " then consumer 1 computes P and dS, while the products of consumer 0 run: dK and dQ, and S and"
        " dP of its next tile.",
    )
    rows = {("products", 0): 70, ("arithmetic", 0): 118, ("arithmetic", 1): 218, ("products", 1): 266}
    for (name, consumer), y in rows.items():
        figure.text(LEFT, y + HIGH / 2, f"{name} {consumer}", SMALL)
    for consumer, kind, _, begin, end in bars:
        if begin >= LAST:
            continue
        y = rows["arithmetic" if kind in LENGTHS else "products", consumer]
        width = UNIT * (min(end, LAST) - begin) - 2
        label = kind if kind != "write" and width > 26 else ""
        figure.box(X + UNIT * begin + 1, y, width, HIGH, COLOURS[kind], label, SMALL)
    for who, at, taken in passed:
        if taken <= LAST:
            y0, y1 = (162, 214) if who == 0 else (214, 162)
            figure.arrow([(X + UNIT * at, y0), (X + UNIT * taken, y1)], "red")
    figure.legend(LEFT, 346, [("green", "P"), ("orange", "dS"), ("grey", "dS or dQ is written")])
    figure.lines(LEFT, 384, ("A red arrow is a turn: from when a consumer has computed dS to when",
                             "the other begins with P. Until it has the turn again, dS is written, and",
                             "dV, dK and dQ run, and S and dP of its next tile."), SMALL)
    figure.note(LEFT, 464, "No scale. dQ is that of the tile before.")
    return figure


def waits():
    """Who waits for whom."""
    figure = Figure(
        "16_waits", 0, "Who waits for whom",
        "The producer waits at k_empty until the eight warps of both consumers and the three other warps of"
        " its own warpgroup have read a piece, at v_empty until the four warps of a consumer have read its half"
        " of V, and at empty until both consumers have read a buffer of Q and dO. The consumers wait at k_full"
        " for the piece and K, at v_full for V, and at full for a tile of Q and dO. A consumer waits for its"
        " turn at a named barrier of its own, where the other arrives, and at ds_full for the dS of both. A"
        " thread that adds waits at dq_full for what a consumer has written, and the consumer waits at dq_empty"
        " until TMA has read it. The keepers' count of zeros is what the thread that adds waits for, and its"
        " count of what has been added is what the keepers of all blocks wait for. That thread and the keepers"
        " wait at k_full for a piece, too.")
    figure.box(LEFT, 62, RIGHT - LEFT, 66, "yellow", "producer warp",
               below=["pieces; K, V; Q, dO, LSE and delta of tile after tile"])
    down = 476
    fan(figure, 132, down, (("orange", True), ("blue", False)), x=(50, 670), step=28)
    fan(figure, 132, down, (("yellow", True), ("purple", False)), x=(98, 622), step=28)
    fan(figure, 132, down, (("green", True), ("sky", False)), x=(146, 574), step=28)
    entries(figure, 146, (
        ("orange", "k_full[slot]", "2 arrivals: a piece, and its K"),
        ("blue", "k_empty[slot]", "11 arrivals: all have read them"),
        ("yellow", "v_full[consumer]", "1 arrival: its half of V is there"),
        ("purple", "v_empty[consumer]", "4 arrivals: it has read it"),
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
    figure.box(LEFT, adder, RIGHT - LEFT, 66, "yellow", "a thread that adds",
               below=["dQ of each tile, of one consumer and then of the other"])
    fan(figure, adder + 70, adder + 194, (("green", True), ("blue", False)))
    entries(figure, adder + 84, (
        ("green", "counts.added[queue]", "all blocks have added a queue's dQ"),
        ("blue", "counts.zeroed[queue]", "all blocks have written its zeros")), step=54)
    keeper = adder + 198
    figure.box(LEFT, keeper, RIGHT - LEFT, 66, "yellow", "two keepers, of a warp each",
               below=["zeros for later shares of dQ; earlier ones rounded"])
    notes = ("An arrow goes from those that arrive to those that wait. The counts are",
             "in global memory, for all blocks. Not shown: the thread that adds and",
             "the keepers wait at k_full for the piece, and arrive at k_empty. In a",
             "deterministic call two threads add, one for each consumer, and there is",
             "one keeper.")
    figure.notes(LEFT, keeper + 92, notes)
    figure.height = keeper + 94 + 24 * len(notes)
    return figure


def shares():
    """When the shares of dQ get their zeros, and when they are rounded."""
    queue, queues, blocks = 6, 3, 1
    pieces, lead = queue * queues, queue + 3 * blocks
    left, cell, row, top = 152, 30, 54, 118
    moments = [("before", None)] + [(f"piece {n}", n) for n in (1, 7, 13)] + [("after", pieces)]
    figure = Figure(
        "16_shares", 0, "Shares of dQ: zeros ahead, rounding behind",
        f"The shares of dQ of {pieces} pieces, in {queues} queues of {queue}, at {len(moments)} moments, with"
        f" one block, and a lead and a lag of {lead} pieces. Before the pass the first {lead} shares are zeros."
        " While a piece is computed, blocks add to all the shares of its queue; the keepers write zeros for"
        f" the share {lead} pieces later and round the one {lead} pieces before, whose queue is complete."
        f" After the pass the last {lead} shares are left to round.")
    for q in range(queues):
        x = left + cell * queue * q
        figure.text(x + cell * queue / 2, 76, f"queue {q}", SMALL, "middle", bold=True)
        figure.line([(x + 4, 92), (x + cell * queue - 4, 92)], "grey", 1.5)
    for n, (label, now) in enumerate(moments):
        y = top + row * n
        figure.text(LEFT, y + cell / 2, label, SMALL)
        zeroed = lead if now is None else min(pieces, now + lead + (now < pieces))
        rounded = 0 if now is None else max(0, min(now + 1, pieces) - lead)
        begin = 0 if now is None else now // queue * queue
        adding = range(begin, begin + queue if now is not None and now < pieces else begin)
        colours = {"green": [], "purple": [], "orange": [], "sky": []}
        for share in range(zeroed):
            colour = ("green" if share < rounded else "orange" if share in adding
                      else "purple" if now is not None and share < begin else "sky")
            colours[colour].append((left + cell * share, y, cell, cell))
        for colour, cells in colours.items():
            figure.cells(cells, colour)
        figure.grid(left, y, pieces, 1, cell)
        for share in (() if now is None else (now + lead, now - lead)):
            if now < pieces and 0 <= share < pieces:
                figure.frame(left + cell * share, y, cell, cell)
        if now is not None and now < pieces:
            figure.text(left + cell * (now + 0.5), y + cell / 2, str(now), SMALL, "middle")
    y = top + row * len(moments) + 8
    figure.legend(LEFT, y,
                  [("sky", "zeros"), ("orange", "blocks add"), ("purple", "complete"), ("green", "rounded")])
    notes = ("A frame: this share gets its zeros, or is rounded, while the piece with",
             f"the number is computed. Queues of {queue} pieces and one block, so lead and",
             f"lag are {queue} + 3 = {lead}.")
    figure.notes(LEFT, y + 36, notes)
    figure.height = y + 38 + 24 * len(notes)
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
        "16_order", 0, "Which pieces blocks compute at a time",
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
             "been added.")
    figure.notes(LEFT, top + 36, notes)
    figure.height = top + 38 + 24 * len(notes)
    return figure


check()
FIGURES = [data(), turns(), waits(), shares(), order()]
