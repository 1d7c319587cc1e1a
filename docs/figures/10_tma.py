"""Figures of stages/10_tma: a head's tail, a box on its way, the phases of barriers, the walk."""

import re

from drawing import Figure, LEFT, NORMAL, SMALL
from sources import causal, function, integer, mask, read

KERNEL, SWIZZLE = "stages/10_tma/kernel.cuh", "common/device/swizzle.h"
STAGES = 2


def tile_rows():
    """kBlockQ and kBlockKV with head_dim 64."""
    strips = int(re.search(r"case 64:\s+return \{(\d+),", read(KERNEL))[1])
    return 16 * strips * integer(KERNEL, "kWarps"), integer(KERNEL, "kBlockKV")


def phases():
    """Two buffers of K in time: copies, reads, and the phases of their barriers."""
    slot_of = function(KERNEL, "slot_of", kStages=STAGES)
    tiles = 4
    slots = [slot_of(n) for n in range(tiles)]
    figure = Figure(
        "10_phases",
        600,
        "Two buffers of K and the phases of their barriers",
        "Time runs to the right. A tile arrives, which ends a phase of its buffer's full barrier;"
        " the warps read it, which ends a phase of its empty barrier; and the buffer is free."
        " The next tile arrives in the other buffer during the softmax and the second product."
        + "".join(
            f" Tile {n} lies in buffer {stage}, and its phases have parity {parity}."
            for n, (stage, parity) in enumerate(slots)
        ),
    )
    x, unit, high = 166, 66, 40
    # The scores of tile n need it in step 2 n + 1. Then the next tile is requested.
    arrives = [2 * n for n in range(tiles)]
    figure.bars(x, unit, 70, [("warps", [
        part for n, begin in enumerate(arrives)
        for part in ((begin + 1, begin + 2, "blue", f"S {n}"),
                     (begin + 2, begin + 3, "sky", f"P V {n}"))][:-1])], high=high)
    for buffer in range(STAGES):
        y = 138 + 206 * buffer
        rows = (("buffer", y), ("k_full", y + 58), ("k_empty", y + 116))
        for name, at in rows:
            figure.text(LEFT, at + high / 2, f"{name}[{buffer}]" if "_" in name else
                        f"buffer {buffer}", SMALL, mono="_" in name)
        own = [n for n in range(tiles) if slots[n][0] == buffer]
        for n in own:
            at = x + unit * arrives[n]
            figure.box(at + 2, y, unit - 4, high, "orange", f"tile {n}", SMALL)
            figure.box(at + unit + 2, y, unit - 4, high, "blue", f"tile {n}", SMALL)
        for (_, at), delay in zip(rows[1:], (1, 2)):
            ends = [arrives[n] + delay for n in own] + [2 * tiles]
            for phase, (begin, end) in enumerate(zip([0] + ends, ends)):
                if begin == end:
                    continue
                parity = slots[own[phase]][1] if phase < len(own) else phase % 2
                label = f"phase {phase}" if end - begin > 1 else str(phase)
                figure.box(x + unit * begin + 2, at, unit * (end - begin) - 4, high,
                           ("paper", "green")[parity], label, SMALL)
    figure.legend(LEFT, 544,
                  [("orange", "the copy"), ("blue", "warps read it"), ("sky", "softmax, P V"),
                   ("paper", "parity 0"), ("green", "parity 1")])
    figure.note(LEFT, 576, "A copy ends a phase of full. The last warp's arrival ends one of empty.")
    return figure


def box():
    """A box of K on its way into shared memory, when half of its bytes have arrived."""
    rows, columns, chosen = tile_rows()[1], 64, 2
    chunks, size = columns // 8, 2 * rows * columns
    twist = function(SWIZZLE, "twist", kChunks=chunks)
    figure = Figure(
        "10_box",
        618,
        "A box of K arrives by TMA",
        f"Thread 0 promises {size:,} bytes at k_full and requests the box of {rows} rows that begins at row"
        f" {rows}. The copy unit reads its rows of {2 * columns} bytes, however far apart they lie, and writes"
        f" chunk c of row r in place c XOR r mod {chunks} of that row of the tile. It counts the bytes at k_full:"
        f" {size // 2:,} of {size:,} have arrived. When all have, the phase ends.",
    )
    figure.box(LEFT, 62, 680, 82, "blue")
    figure.text(LEFT + 14, 86, "thread 0:", SMALL, bold=True)
    figure.text(LEFT + 114, 86, f"arrive.expect_tx [k_full], {size}", SMALL, mono=True)
    figure.text(LEFT + 114, 120, f"copy [sK], [map, {{0, {rows}, head, batch}}], [k_full]", SMALL, mono=True)
    cell, high, step, left, right, y = 25, 26, 32, 108, 494, 216
    half = chunks // 2
    figure.text(left, y - 26, "K in memory", SMALL, bold=True)
    figure.text(right, y - 26, "the tile sK", SMALL, bold=True)
    for n in range(chunks):  # The first rows, and the last, which have not arrived.
        row = n if n < half else rows - chunks + n
        arrived, at = n < half, y + step * n + (26 if n >= half else 0)
        figure.text(left - 12, at + high / 2, f"row {rows + row}", SMALL, "end")
        for place in range(chunks):
            for x, chunk in ((left, place), (right, place ^ twist(row))):
                colour = "orange" if chunk == chosen else "grey"
                there = arrived or x == left
                figure.box(x + cell * place, at, cell - 2, high, colour if there else "paper",
                           str(chunk) if there else "", SMALL, dashed=not there)
        if arrived:
            figure.line([(left + cell * chunks + 4, at + high / 2), (352, at + high / 2)], "red")
            figure.arrow([(424, at + high / 2), (right - 6, at + high / 2)], "red")
    middle, bottom = y + step * half + 10, y + step * chunks + 58
    for x in (left, right):
        figure.text(x + cell * chunks / 2, middle, "⋮", NORMAL, "middle")
    figure.box(352, y - 4, 72, step * half, "yellow", "TMA", bold=True)
    figure.arrow([(388, 144), (388, y - 6)], "blue")
    figure.arrow([(388, middle - 12), (388, bottom - 4)], "green")
    figure.note(378, middle + 40, "counts", "end")
    figure.note(378, middle + 64, "bytes", "end")
    figure.text(LEFT, bottom + 20, "k_full", SMALL, mono=True)
    figure.box(left, bottom, 584, 40, "paper")
    figure.box(left, bottom, 292, 40, "green", f"{size // 2:,} of {size:,} bytes", SMALL)
    figure.note(left + 306, bottom + 20, "arrivals: 1 of 1 (thread 0)")
    figure.note(LEFT, bottom + 64, "Numbers: chunks of 16 bytes. The phase ends when all are there.")
    return figure


def tail():
    """What fills a tile past the last row of a head: zeros, or the next head's rows."""
    rows = integer(KERNEL, "kBlockKV")
    keys = rows + 6
    figure = Figure(
        "10_tail",
        560,
        f"The second tile of a head with {keys} keys",
        f"A head has {keys} keys, and its second tile begins at row {rows}. With a map of four"
        f" dimensions the tile gets {keys - rows} rows and {2 * rows - keys} rows of zeros. If the"
        f" heads were one long matrix, it would get {2 * rows - keys} rows of the next head.",
    )
    scale, y, wide = 3, 110, 150
    memory, right, wrong = 36, 282, 528
    tail_rows, others = keys - rows, 2 * rows - keys
    for at, name in ((memory, "V in memory"), (right, "four dimensions: the tile"),
                     (wrong, "flattened: the tile")):
        figure.text(at + wide / 2, y - 30, name, SMALL, "middle", bold=True)
    begins = y + scale * rows
    figure.box(memory, y, wide, scale * rows, "grey", "head 0", SMALL,
               below=(f"rows 0-{rows - 1}",))
    figure.box(memory, begins, wide, scale * tail_rows, "blue")
    figure.box(memory, begins + scale * tail_rows, wide, scale * others, "orange", "head 1", SMALL,
               below=(f"rows 0-{others - 1}",))
    for at, colour, label, below in ((right, "paper", "zeros", f"{others} rows"),
                                     (wrong, "orange", "head 1", f"rows 0-{others - 1}")):
        figure.box(at, begins, wide, scale * tail_rows, "blue")
        figure.box(at, begins + scale * tail_rows, wide, scale * others, colour, label, SMALL,
                   below=(below,), dashed=colour == "paper")
    figure.text(right + wide + 8, begins + scale * tail_rows / 2, f"{rows}-{keys - 1}", SMALL)
    figure.arrow([(memory + wide + 6, begins + 9), (right - 6, begins + 9)])
    figure.lines(LEFT, y + scale * 2 * rows + 26, [
        f"Blue: rows {rows} to {keys - 1} of head 0.",
        "P is 0 past the tail. 0 times a NaN of another head is NaN.",
    ], SMALL)
    return figure


def walk():
    """The order of blocks and tiles under a causal mask, and which tiles are masked."""
    block_q, block_kv = tile_rows()
    queries = keys = 4 * block_q
    path = "common/device/mask.h"
    to_all, seq = function(path, "keys_visible_to_all"), causal(queries, keys)
    visible = mask().visible_keys
    blocks, counts = [], [0, 0]
    for block in range(queries // block_q):
        i0 = block * block_q
        begin, end = visible(seq, i0, i0 + block_q)
        full_begin, full_end = to_all(seq, i0, i0 + block_q)
        row = {}
        for order, tile in enumerate(range((end - 1) // block_kv, begin // block_kv - 1, -1)):
            inner = -(-full_begin // block_kv) <= tile < full_end // block_kv
            row[tile] = (order, inner)
            counts[inner] += 1
        blocks.append(row)
    figure = Figure(
        "10_walk",
        480,
        "A causal mask: masked tiles first, then inner ones",
        f"{queries} queries and keys, blocks of {block_q} queries, tiles of {block_kv} keys. Each"
        f" block takes its tiles from the last to the first. {counts[0]} tiles need the mask and"
        f" {counts[1]} do not. The block with most keys is the first of the grid.",
    )
    cell, high, x, y = 58, 62, 208, 112
    columns = keys // block_kv
    for tile in range(columns):
        figure.note(x + cell * (tile + 0.5), y - 18, str(tile), "middle")
    figure.note(x - 12, y - 18, "tile of keys", "end")
    for block, row in enumerate(blocks):
        at = y + high * block
        name = f"queries {block * block_q}-{(block + 1) * block_q - 1}"
        figure.text(x - 12, at + high / 2 - 12, name, SMALL, "end")
        figure.note(x - 12, at + high / 2 + 12, f"block {len(blocks) - block} to start", "end")
        for tile in range(columns):
            order, inner = row.get(tile, ("", None))
            colour = "paper" if inner is None else "green" if inner else "orange"
            figure.box(x + cell * tile + 1, at + 1, cell - 2, high - 2, colour, str(order),
                       bold=True, dashed=inner is None)
    bottom = y + high * len(blocks)
    figure.legend(
        LEFT,
        bottom + 34,
        [("orange", "masked loop"), ("green", "loop without a mask"), ("paper", "skipped")],
    )
    figure.note(LEFT, bottom + 74, "Numbers: n, the order in which a block takes its tiles.")
    return figure


FIGURES = [tail(), box(), phases(), walk()]
