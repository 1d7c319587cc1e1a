"""Figures of stages/13_ping_pong: the order inside a consumer, the turns, the softmax, timelines."""

from drawing import Figure, LEFT, SMALL
from sources import causal, first_queries, integer, mask, tile_shape
from timeline import figure_of

SHAPE = "stages/13_ping_pong/shape.cuh"
X, UNIT, HIGH = 132, 17, 40  # where time begins, its scale, the height of a lane
LAST = 33  # units of time that a figure shows
S, P_V, SOFTMAX, PACK = 4, 4, 6, 1  # a schematic: units of time
COLOURS = {"S": "blue", "P V": "purple", "softmax": "green", "pack": "orange"}


def schedule(consumers, tiles):
    """Bars (consumer, kind, tile, begin, end) and turns (consumer, passed), in the kernel's order.

    The tensor cores take products as they are issued. A consumer issues S of a tile and P V of the
    one before it, computes its softmax once S is there, and packs P once P V is, too."""
    bars, turns, free = [], [], 0
    ready, turn = [0] * consumers, 0
    for tile in range(tiles):
        for consumer in range(consumers):
            issue = max(ready[consumer], turn)
            turn = issue
            turns.append((consumer, issue))
            s_end = max(free, issue) + S
            bars.append((consumer, "S", tile, s_end - S, s_end))
            free = s_end
            if tile > 0:
                free += P_V
                bars.append((consumer, "P V", tile - 1, s_end, free))
            soft_end = s_end + SOFTMAX
            bars.append((consumer, "softmax", tile, s_end, soft_end))
            pack = max(soft_end, free if tile > 0 else 0)
            bars.append((consumer, "pack", tile, pack, pack + PACK))
            ready[consumer] = pack + PACK
    return bars, turns


def lanes(parts, consumer=""):
    """The rows of a consumer's bars (kind, tile, begin, end), as far as they are within the figure. The walk
    counts down to tile 0, the third."""
    rows = {"products": [], "arithmetic": []}
    for kind, tile, begin, end in parts:
        end = min(end, LAST)
        if begin < end:
            label = "" if kind == "pack" or UNIT * (end - begin) < 62 else f"{kind} {2 - tile}"
            lane = "products" if kind in ("S", "P V") else "arithmetic"
            rows[lane].append((begin, end, COLOURS[kind], label))
    return [(name + consumer, bars) for name, bars in rows.items()]


def order():
    """One consumer alone, in the order of 12 and in that of 13."""
    figure = Figure(
        "13_order",
        536,
        "One consumer alone: a schematic, not measured",
        "A schematic without a scale. In 12 the scores, the softmax and the product with V of a"
        " tile follow each other. In 13 the scores of a tile and the product with V of the previous"
        " tile are issued together, and the softmax of the tile runs under the latter. P is"
        " packed when that product has ended.",
    )
    figure.text(LEFT, 80, "12: one after the other", SMALL, bold=True)
    alone = []
    for tile in range(3):
        begin = tile * (S + SOFTMAX + PACK + P_V)
        for kind, length in (("S", S), ("softmax", SOFTMAX), ("pack", PACK), ("P V", P_V)):
            alone.append((kind, tile, begin, begin + length))
            begin += length
    figure.bars(X, UNIT, 102, lanes(alone), 48, HIGH)
    figure.text(LEFT, 230, "13: the softmax of a tile under P V of the previous one", SMALL, bold=True)
    bars, turns = schedule(1, 4)
    figure.bars(X, UNIT, 252, lanes(part for _, *part in bars), 48, HIGH)
    for n, (_, issue) in enumerate(turns[1:3], 1):
        s_end = next(end for _, kind, tile, _, end in bars if (kind, tile) == ("S", n))
        packed = next(begin for _, kind, tile, begin, _ in bars if (kind, tile) == ("pack", n))
        for letter, at in (("a", issue), ("b", s_end), ("c", packed)):
            if at > LAST:
                continue
            x = X + UNIT * at
            figure.line([(x, 246), (x, 352)], width=1.5, dashed=True)
            figure.text(x, 366, letter, SMALL, "middle", bold=True)
    figure.lines(LEFT, 402, ("a  S of a tile and P V of the previous one are issued, in this order",
                             "b  wait: S is there    c  wait: O is there, too"), SMALL)
    figure.legend(LEFT, 470,
                  [("blue", "S"), ("purple", "P V"), ("green", "softmax"), ("orange", "O rescaled, P packed")])
    figure.note(LEFT, 510, "No scale. The number is the tile's: the walk counts down.")
    return figure


def turns_of_two():
    """Two consumers that take turns."""
    figure = Figure(
        "13_turns",
        476,
        "Two consumers take turns: not measured",
        "A schematic without a scale. Consumer 0 issues its products and passes the turn; consumer 1"
        " issues its own as soon as it is ready, and passes the turn back. The tensor cores take the"
        " products of one after those of the other, and each consumer's softmax runs while the"
        " tensor cores have products, its own or the other's.",
    )
    bars, turns = schedule(2, 4)
    for consumer, y in enumerate((78, 226)):
        mine = [part for who, *part in bars if who == consumer]
        figure.bars(X, UNIT, y, lanes(mine, f" {consumer}"), 48, HIGH)
    for consumer, issue in turns:
        if issue <= LAST:
            x, y = X + UNIT * issue, 72 if consumer == 0 else 220
            figure.line([(x, y), (x, y + 100)], width=1.5, dashed=True)
    for (consumer, passed), (_, taken) in zip(turns, turns[1:]):
        if taken > LAST:
            break
        y0, y1 = (172, 220) if consumer == 0 else (220, 172)
        figure.arrow([(X + UNIT * passed, y0), (X + UNIT * taken, y1)], "red")
    figure.lines(LEFT, 344, ("Dashed: a consumer issues its products. Red: it passes the turn.",
                             "Products run in the order of issue, when those before have ended."),
                 SMALL)
    figure.legend(LEFT, 412,
                  [("blue", "S"), ("purple", "P V"), ("green", "softmax"), ("orange", "O rescaled, P packed")])
    figure.note(LEFT, 450, "No scale. The number is the tile's: the walk counts down.")
    return figure


def budget(head_dim):
    """A consumer's registers: all, and those of S, P and O; and the consumers and keys of a tile."""
    keys, consumers = tile_shape(SHAPE, head_dim)
    producer = integer(SHAPE, "kProducerRegisters")
    warpgroups = 1 + consumers
    launch = 65536 // (128 * warpgroups) // 8 * 8
    per_thread = (warpgroups * launch - producer) // consumers // 8 * 8
    # 64 rows by 128 threads: a thread holds half as many elements as a row has, and P in pairs.
    return per_thread, {"S": keys // 2, "P": keys // 4, "O": head_dim // 2}, consumers, keys


def registers():
    """What a consumer's registers hold."""
    budgets = {dim: budget(dim) for dim in (64, 128)}
    said = " ".join(
        f"With head_dim {dim} each of {consumers} consumers has {total}: S takes {parts['S']}, P"
        f" {parts['P']} and O {parts['O']}." for dim, (total, parts, consumers, _) in budgets.items())
    figure = Figure("13_registers", 330, "Registers of a consumer's thread", said)
    scale, high = 2.8, 52
    for row, (dim, (total, parts, consumers, keys)) in enumerate(budgets.items()):
        y = 108 + 104 * row
        figure.text(LEFT, y - 22, f"head_dim {dim}: {consumers} consumers, tiles of {keys} keys, "
                                  f"{total} registers", SMALL, bold=True)
        at = LEFT
        for name, colour in (("S", "blue"), ("P", "orange"), ("O", "purple")):
            figure.box(at, y, scale * parts[name] - 2, high, colour, f"{name} {parts[name]}", SMALL)
            at += scale * parts[name]
        rest = total - sum(parts.values())
        figure.box(at, y, scale * rest - 2, high, "grey", f"rest {rest}", SMALL, dashed=True)
    figure.note(LEFT, 300, "S and P of neighbouring tiles, and O, live at the same time.")
    return figure


def last_tile():
    """Where the tiles of queries of a head lie: from its begin on, or up to its end."""
    keys, consumers = tile_shape(SHAPE, 64)
    rows, height, past = 64 * consumers, 10, consumers - 1  # squares of 64 queries, of which some do not exist
    seq = 64 * height
    both = list(range(0, seq, rows)), first_queries(rows, seq)
    lengths = [[-(-mask().visible_keys(causal(seq, seq), max(begin, 0), begin + rows)[1] // keys)
                for begin in begins] for begins in both]
    front, back = (f"{', '.join(map(str, each))} tiles of keys, {sum(each)} together" for each in lengths)
    figure = Figure(
        "13_last_tile",
        546,
        "Where the tiles of queries lie",
        f"A head of {seq} queries and keys with a causal mask. If the first tile of {rows} queries begins with"
        f" the head, the last one has {seq % rows} queries, and the tiles take {front}. If the last tile ends"
        f" with the head, the first one has {seq % rows} queries, and they take {back}.",
        heading="",
    )
    wide, high, top = 60, 27, 88
    for part, (name, begins, each) in enumerate(zip(
            ("The first tile is full", "The last tile is full"), both, lengths)):
        x = LEFT + 4 + 362 * part
        figure.text(x, 34, name, bold=True)
        figure.note(x, 64, f"{' + '.join(map(str, each))} = {sum(each)} tiles of keys")
        for begin, length, colour in zip(begins, each, ("blue", "orange", "green", "purple")):
            places = [(begin // 64 + row, column) for row in range(consumers) for column in range(length)]
            for seen in (True, False):
                figure.cells([(x + wide * column, top + high * (past + row), wide, high)
                              for row, column in places
                              if (0 <= row < height and keys * column < 64 * (row + 1)) == seen],
                             colour if seen else "grey", full=seen)
        figure.grid(x, top + high * past, seq // keys, height, wide, high)
        figure.frame(x, top + high * past, wide * seq // keys, high * height, "ink", 2)
    y = top + high * (height + 2 * past) + 24
    figure.legend(LEFT, y, [("blue", "tile 0"), ("orange", "1"), ("green", "2"), ("purple", "3"),
                            ("grey", "computed for nothing")])
    figure.note(LEFT, y + 32, f"A box: 64 queries, those of a consumer, and a tile of {keys} keys.")
    return figure


def before_the_maximum():
    """What runs under what in a tile of keys, for one consumer: a schematic."""
    figure = Figure(
        "13_before_maximum",
        606,
        "P before the maximum: a schematic",
        "A schematic without a scale, of one consumer and one tile of keys. With the maximum first, the"
        " exponentials begin when all scores have been compared and the lanes have told each other. With"
        " the maximum so far they begin as soon as S is there, and the next products come earlier. If"
        " terms are too large, a warp computes S of its rows again when O is there, and the maximum and the"
        " exponentials follow.",
        heading="",
    )
    products, x, unit, y = ((0, 8, "blue", "S"), (8, 16, "purple", "P V")), 132, 11.6, 34
    for name, issued, arithmetic, end in (
        ("The maximum first", products, ((8, 13, "yellow", "max"), (13, 25, "green", "exp"), (25, 28, "orange", "")), 28),
        ("The maximum so far", products, ((8, 20, "green", "exp"), (20, 23, "orange", "")), 23),
        ("The same, if terms are too large", (*products, (23, 29, "blue", "S")),
         ((8, 20, "green", "exp"), (20, 23, "orange", ""), (29, 34, "yellow", "max"), (34, 46, "green", "exp"),
          (46, 48, "orange", "")), None),
    ):
        figure.heading(name, y)
        figure.bars(x, unit, y + 26, (("products", issued), ("arithmetic", arithmetic)))
        if end:
            at = x + unit * end
            figure.line([(at + 2, y + 20), (at + 2, y + 116)], "red", 3)
            figure.text(at + 12, y + 45, "the next products", SMALL)
        y += 164
    figure.legend(LEFT, 530,
                  [("blue", "S"), ("purple", "P V of the tile before"), ("yellow", "max"), ("green", "exp, sums")])
    figure.legend(LEFT, 560, [("orange", "O rescaled, P packed")])
    figure.note(LEFT, 588, "No scale, not measured. The second S is that of one warp, by mma.sync.")
    return figure


def measured(head_dim, stages):
    """The timelines of stages with this head dimension."""
    return figure_of(f"13_timeline_d{head_dim}", "Who waits for whom: measured",
                     [f"docs/results/nvidia-h200/timeline_{stage}.json" for stage in stages], head_dim)


STAGES = ("12_warp_specialized", "13_ping_pong")
FIGURES = [order(), turns_of_two(), registers(), before_the_maximum(), last_tile(),
           measured(64, STAGES[1:]), measured(128, STAGES)]
