"""Figures of stages/16_overlapped_backward: what reads and writes what, and the turns."""

import heapq
import itertools

from drawing import Figure, LEFT, SMALL
from flow import ADD, BEFORE, READ, WRITE, in_order, reads_and_writes
from sources import read

KERNEL = "stages/16_overlapped_backward/kernel_bwd.cuh"
X, UNIT, HIGH = 132, 17.5, 40  # where time begins, its scale, the height of a lane
LAST = 32  # units of time that a figure shows
PRODUCT, EXP, DS, WRITES = 2, 3, 2, 1  # a schematic: units of time
COLOURS = {"S": "blue", "dP": "sky", "dV": "purple", "dK": "yellow", "dQ": "yellow", "P": "green",
           "dS": "orange", "write": "grey"}


def check():
    """The kernel does what the figures show, in this order."""
    in_order(read(KERNEL), "const auto compute_tile", "mbarrier_wait(&full[stage]", "issue_abt<T>(rS, sK",
             "issue_abt<T>(rdP, sV", "wgmma_wait<1>();  // S is there.", "wait_for_turn(consumer);", "ptx::exp2",
             "issue_ab<T>(rdV, rA, sdO", "wgmma_wait<1>();  // dP is there.", "prob.x * fmaf(rdP",
             "pass_turn(consumer);", "wgmma_wait<0>();  // dV is there: no product reads P", "issue_ab<T>(rdK, rA, sQ",
             "issue_dq(rdQ, storage, n - 1", "pair(storage.sdS[n % 2]", "wgmma_wait<0>();      // dK and dQ",
             "mbarrier_arrive(&storage.ds_full)", "mbarrier_arrive(&empty[stage])", "hand_on_dq(rdQ, storage, n - 1")


def data():
    """What each step of a consumer's tile reads and writes."""
    steps = (
        ("TMA copies", {"sQ": WRITE, "sdO": WRITE}),
        ("Sᵀ = K Qᵀ", {"sK": READ, "sQ": READ, "rS": WRITE}),
        ("dPᵀ = V dOᵀ", {"sV": READ, "sdO": READ, "rdP": WRITE}),
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
        steps, notes=("rA has P, rounded, and then dS. Two buffers: sQ, sdO, sdS.",
                      "dQ belongs to the previous tile: its product, sdQ, the addition."))


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
    """Bars (consumer, kind, tile, begin, end), queued products (consumer, from, to), and turns (from, passed, taken)."""
    bars, queued, turns, ends = [], [], [], {}
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
            queued.append((who, now, begin))
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
    return bars, queued, [(who, at, taken if taken is not None else min(
        (begin for begin in begins[1 - who] if begin >= at), default=LAST + 1))
        for who, at, taken in turns]


def turns():
    """Two consumers that take turns at P and dS."""
    bars, queued, passed = schedule()
    figure = Figure(
        "16_turns", 512, "Turns at P and dS: a schematic, not measured",
        "A schematic without a scale. Consumer 0 computes P and dS of its tile, and passes the turn;"
        " then consumer 1 computes P and dS, while the products of consumer 0 run: dK and dQ, and S and"
        " dP of its next tile. A product that has been issued may have to wait for one of the other consumer, so"
        " dS is computed while dV runs or waits to run.",
    )
    rows = {("products", 0): 70, ("arithmetic", 0): 118, ("arithmetic", 1): 218, ("products", 1): 266}
    for (name, consumer), y in rows.items():
        figure.text(LEFT, y + HIGH / 2, f"{name} {consumer}", SMALL)
    for consumer, issued, begin in queued:
        y = rows["products", consumer] + HIGH / 2
        if issued < min(begin, LAST):
            figure.line([(X + UNIT * issued + 1, y), (X + UNIT * min(begin, LAST) - 1, y)], "grey", 3)
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
                             "dV, dK and dQ run, and S and dP of its next tile. A grey line: a product",
                             "has been issued, and waits until the tensor cores get to it."), SMALL)
    figure.note(LEFT, 488, "No scale. dQ belongs to the previous tile.")
    return figure


check()
FIGURES = [data(), turns()]
