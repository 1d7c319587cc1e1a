"""Figures of stages/09_async_copy: copies in time, and who adds to dQ."""

from drawing import Figure, LEFT, SMALL
from sources import read

BACKWARD = "stages/09_async_copy/kernel_bwd.cuh"


def time():
    """When copies run, with two buffers and with one."""
    figure = Figure(
        "09_time",
        620,
        "Copies and products in time",
        "With two buffers a warp waits once per tile, requests the next tile and computes while it"
        " arrives. With one buffer V of a tile arrives while its scores are computed, and K of the"
        " next tile while the softmax and the second product run.",
        heading="",
    )
    x, half, gap, height = 116, 118, 16, 44

    def wait(at, y, bottom):
        figure.line([(at, y - 8), (at, bottom + 8)], "red", 4)

    figure.heading("Two buffers of K and V: one wait per tile")
    y, at = 76, x
    for name, down in (("warps", 0), ("buffer 0", 74), ("buffer 1", 126)):
        figure.text(LEFT, y + down + 20, name, SMALL)
    for step, buffers in enumerate(((126, 74), (74, 126))):
        wait(at, y, y + 164)
        figure.box(at + gap / 2, y, half, height, "blue", "S = Q Kᵀ", SMALL)
        figure.box(at + gap / 2 + half, y, half, height, "sky", "softmax, P V", SMALL)
        arrives, used = buffers
        names = ("n", "n + 1", "n + 2")
        figure.box(at + gap / 2, y + used, 2 * half, 38, "blue", f"tile {names[step]} is read",
                   SMALL)
        figure.box(at + gap / 2, y + arrives, 2 * half, 38, "orange",
                   f"tile {names[step + 1]} arrives", SMALL)
        at += 2 * half + gap
    wait(at, y, y + 164)

    figure.heading("One buffer (head_dim 256): two waits per tile", 310)
    y, at = 352, x
    for name, down in (("warps", 0), ("sK", 74), ("sV", 126)):
        figure.text(LEFT, y + down + 20, name, SMALL)
    wide = half - gap / 2
    for step in range(2):
        now, following = ("n", "n + 1") if step == 0 else ("n + 1", "n + 2")
        for n, (label, colour, key, value) in enumerate(
            (
                ("S = Q Kᵀ", "blue", ("blue", f"K {now}"), ("orange", f"V {now}")),
                ("softmax, P V", "sky", ("orange", f"K {following}"), ("blue", f"V {now}")),
            )
        ):
            left = at + n * (wide + gap) + gap / 2
            wait(left - gap / 2, y, y + 164)
            figure.box(left, y, wide, height, colour, label, SMALL)
            figure.box(left, y + 74, wide, 38, key[0], key[1], SMALL)
            figure.box(left, y + 126, wide, 38, value[0], value[1], SMALL)
        at += 2 * (wide + gap)
    wait(at, y, y + 164)
    figure.legend(
        LEFT,
        566,
        [("orange", "a copy is under way"), ("blue", "is read"), ("red", "wait and barrier")],
    )
    return figure


def dq():
    """Who adds to dQ, and into which slice."""
    found = read(BACKWARD)
    if "round * work.splits + (round % 2 == 0 ? split : work.splits - 1 - split)" not in found:
        raise ValueError(f"{BACKWARD} deals its keys in another way")
    splits, key_blocks = 3, 6
    owner = [
        split
        for number in range(key_blocks // splits)
        for split in (range(splits) if number % 2 == 0 else reversed(range(splits)))
    ]
    figure = Figure(
        "09_dq",
        640,
        "Who adds to dQ",
        f"Above: {key_blocks} tiles of keys are {key_blocks} blocks, and all of them add to one dQ"
        " in an unspecified order. Below, in a deterministic call, three blocks walk over the tiles"
        f" back and forth, tiles to splits: {', '.join(map(str, owner))}. Each adds to a slice of its"
        " own, and a last kernel sums the slices in order.",
        heading="",
    )
    colours = ("blue", "orange", "green")
    width, x = 84, 170
    figure.heading("In any order: one dQ for all blocks")
    figure.text(LEFT, 92, "tile of keys", SMALL)
    figure.text(LEFT, 186, "dQ", SMALL)
    for tile in range(key_blocks):
        left = x + width * tile
        figure.box(left + 2, 70, width - 4, 44, "grey", str(tile), SMALL)
        figure.arrow([(left + width / 2, 116), (left + width / 2, 160)])
    figure.box(x + 2, 162, width * key_blocks - 4, 46, "grey", "one sum, added to by red.add",
               SMALL)
    figure.heading("Deterministic: a slice for each split", 270)
    figure.text(LEFT, 330, "tile of keys", SMALL)
    figure.text(LEFT, 442, "slices of dQ", SMALL)
    slot = width * key_blocks / splits
    for tile, split in enumerate(owner):
        left = x + width * tile
        figure.box(left + 2, 308, width - 4, 44, colours[split], str(tile), SMALL)
        figure.arrow([(left + width / 2, 354), (x + slot * (split + 0.5), 416)])
    for split in range(splits):
        left = x + slot * split
        figure.box(left + 6, 418, slot - 12, 46, colours[split], f"split {split}", SMALL)
        figure.arrow([(left + slot / 2, 466), (left + slot / 2, 512)])
    figure.text(LEFT, 536, "query_gradient", SMALL)
    figure.box(x + 2, 514, slot * splits - 4, 46, "sky", "dQ = slice 0 + slice 1 + slice 2", SMALL)
    figure.note(LEFT, 604, "A split is one block. It takes its tiles one after the other.")
    return figure


FIGURES = [time(), dq()]
