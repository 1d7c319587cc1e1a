"""Figures of stages/06_forward_backward: a step, the walk, the mask, shared memory."""

from drawing import Figure, LEFT, SMALL
from sources import causal, constants, integer, mask, storage

FORWARD = "stages/06_forward_backward/kernel.cuh"
BACKWARD = "stages/06_forward_backward/kernel_bwd.cuh"
HEAD_DIM = 64
KERNELS = ("query_gradient", "key_value_gradient")


def known():
    """What the kernels' constants need."""
    return {"kHeadDim": HEAD_DIM, "kMma": integer("common/device/fragments.h", "kMma")}


def step():
    """What a warp does with one square of pairs, in both kernels."""
    figure = Figure(
        "06_step",
        900,
        "One step of a warp in the two backward kernels",
        "query_gradient: two products give S and dP in fragments; P and dS are computed there,"
        " element by element; dS goes through the warp's scratch to become an operand, and the"
        " third product adds to dQ. key_value_gradient does the same with S transposed and dP"
        " transposed; P and dS both become operands, for dV and dK: four products.",
        heading="",
    )
    figure.legend(LEFT, 28,
                  [("blue", "product"), ("grey", "in fragments"), ("orange", "shared memory")])

    figure.text(LEFT, 76, "query_gradient: 3 products", 22, bold=True)
    figure.box(20, 102, 310, 46, "blue", "1. S = Q Kᵀ", bold=True)
    figure.box(390, 102, 310, 46, "blue", "2. dP = dO Vᵀ", bold=True)
    figure.arrow([(175, 148), (175, 178)])
    figure.arrow([(545, 148), (545, 178)])
    figure.box(20, 180, 680, 46, "grey", "P = exp(S − LSE),  dS = P ∘ (dP − delta)")
    figure.arrow([(360, 226), (360, 256)])
    figure.box(160, 258, 400, 46, "orange", "scratch: mask, round → sdS")
    figure.arrow([(360, 304), (360, 334)])
    figure.box(160, 336, 400, 46, "blue", "3. dQ += dS K", bold=True)

    figure.line([(20, 408), (700, 408)], "grey", 2, dashed=True)
    figure.text(LEFT, 442, "key_value_gradient: 4 products", 22, bold=True)
    figure.note(LEFT, 470, "rows are keys: transposed from the start")
    figure.box(20, 494, 310, 46, "blue", "1. Sᵀ = K Qᵀ", bold=True)
    figure.box(390, 494, 310, 46, "blue", "2. dPᵀ = V dOᵀ", bold=True)
    figure.arrow([(175, 540), (175, 570)])
    figure.arrow([(545, 540), (545, 570)])
    figure.box(20, 572, 680, 46, "grey", "Pᵀ = exp(Sᵀ − LSE),  dSᵀ = Pᵀ ∘ (dPᵀ − delta)")
    for x, name, product in ((20, "P", "3. dV += Pᵀ dO"), (390, "dS", "4. dK += dSᵀ Q")):
        figure.arrow([(x + 155, 618), (x + 155, 648)])
        figure.box(x, 650, 310, 76, "orange", f"scratch → s{name}", below=["mask, round"])
        figure.arrow([(x + 155, 726), (x + 155, 756)])
        figure.box(x, 758, 310, 46, "blue", product, bold=True)
    figure.text(LEFT, 846, "Seven products, where a kernel with atomics needs five.", bold=True)
    figure.note(LEFT, 874, "LSE and delta are fragments of the same type as S and dP.")
    return figure


def walk():
    """Blocks, strips and steps of the two kernels."""
    shape = constants(BACKWARD, "BackwardConfig", **known())
    mma = known()["kMma"]
    figure = Figure(
        "06_walk",
        560,
        "The walk of the two backward kernels over tiles",
        f"A block owns {shape.kOwned} rows and streams tiles of {shape.kStreamed} rows of the other"
        f" kind. Each of its {shape.kWarps} warps owns {mma} rows and takes {mma} of the streamed"
        f" rows at a time: a step is a square of {mma} by {mma} pairs. query_gradient walks along"
        " the keys, key_value_gradient along the queries.",
        heading="",
    )
    cell, count, top, per_tile = 104, 3, 158, shape.kStreamed // mma
    square, warp = cell / shape.kWarps, 1
    for x, kernel, across in ((28, KERNELS[0], True), (386, KERNELS[1], False)):
        figure.text(x, 36, kernel, SMALL + 2, mono=True, bold=True)
        figure.text(x, 70, f"block: {shape.kOwned} {'queries' if across else 'keys'}", SMALL)
        figure.text(x, 96, f"streams {'K, V' if across else 'Q, dO, LSE, delta'}", SMALL)
        figure.note(x, 132, "keys →")
        figure.note(x + cell * count, 132, "queries ↓", "end")
        own = 1

        def place(owned, streamed, x=x, across=across):
            """A square's corner: `owned` along the owned rows, `streamed` along the others."""
            along, down = (streamed, owned) if across else (owned, streamed)
            return x + along, top + down

        figure.cells([(*place(own * cell, n * cell), cell, cell) for n in range(count)], "sky")
        strip = [
            (*place(own * cell + warp * square, n * cell / per_tile), square, square)
            for n in range(count * per_tile)
        ]
        figure.cells(strip, "orange")
        figure.grid(x, top, count, count, cell)
        figure.cells([strip[per_tile + 1]], "red", full=True)
        start = place(own * cell + (warp + 0.5) * square, cell + 2 * square + 4)
        end = place(own * cell + (warp + 0.5) * square, count * cell - 8)
        figure.arrow([start, end])
    figure.legend(LEFT, 500, [("sky", "the block's tiles"), ("orange", f"warp {warp}: {mma} rows")])
    figure.legend(LEFT, 532, [("red-full", f"one step: {mma} × {mma} pairs")])
    return figure


def causal_tiles():
    """Which tiles the causal mask skips, masks and passes: asked of device/mask.h."""
    shape, functions = constants(FORWARD, "Config", **known()), mask()
    figure = Figure(
        "06_mask",
        548,
        "causal: most tiles are whole or skipped",
        "Scores cut into tiles. Tiles above the diagonal are not walked, tiles on the diagonal and"
        " a ragged last one are masked, the others need no mask.",
    )
    names = {"whole": "blue", "masked": "orange", "skipped": "paper"}
    figure.legend(LEFT, 76, [(colour, name) for name, colour in names.items()])
    for x, num_queries, num_keys, cell in ((24, 320, 320, 66), (404, 128, 300, 58)):
        seq = causal(num_queries, num_keys)
        rows, columns = -(-num_queries // shape.kBlockQ), -(-num_keys // shape.kBlockKV)
        found = {name: [] for name in names}
        for r in range(rows):
            keys = functions.visible_keys(seq, r * shape.kBlockQ, (r + 1) * shape.kBlockQ)
            for c in range(columns):
                walked = keys[0] // shape.kBlockKV <= c and c * shape.kBlockKV < keys[1]
                whole = functions.all_visible(
                    seq, r * shape.kBlockQ, shape.kBlockQ, c * shape.kBlockKV, shape.kBlockKV
                )
                found["whole" if walked and whole else "masked" if walked else "skipped"].append(
                    (r, c)
                )
        figure.lines(x, 120, [f"{num_queries} queries,", f"{num_keys} keys"], SMALL, bold=True)
        for name, tiles in found.items():
            for r, c in tiles:
                figure.box(x + cell * c + 1, 170 + cell * r + 1, cell - 3, cell - 3, names[name])
        counts = [f"{len(found[name])} {name}" for name in names]
        figure.lines(x, 170 + cell * rows + 24, [", ".join(counts)], SMALL)
    figure.notes(
        404,
        400,
        [
            f"A tile: {shape.kBlockQ} queries",
            f"by {shape.kBlockKV} keys.",
            "Only masked tiles ask",
            "visible() for each score.",
        ],
    )
    return figure


def memory():
    """What the shared memory of both kernels holds."""
    most = 64 * 1024
    maps = {kernel: storage("06_map.txt", kernel) for kernel in KERNELS}
    ends = {kernel: arrays[-1].offset + arrays[-1].bytes for kernel, arrays in maps.items()}
    figure = Figure(
        "06_memory",
        540,
        "What a block holds in shared memory",
        " ".join(
            f"{kernel}: "
            + ", ".join(f"{array.name} {array.extents}" for array in arrays)
            + f"; {ends[kernel]:,} bytes."
            for kernel, arrays in maps.items()
        ),
    )
    scale, colours = 660 / most, {
        "sQ": "blue",
        "sdO": "sky",
        "sK": "orange",
        "sV": "yellow",
        "scratch": "grey",
        "sP": "green",
        "sdS": "purple",
    }
    for k, (kernel, arrays) in enumerate(maps.items()):
        y = 92 + 200 * k
        figure.text(LEFT, y, kernel, SMALL + 2, mono=True, bold=True)
        figure.text(290, y, f"{ends[kernel]:,} bytes", SMALL)
        for array in arrays:
            x, width = LEFT + scale * array.offset, scale * array.bytes
            large = width > 80
            figure.box(
                x,
                y + 24,
                width,
                74,
                colours.get(array.name, "red"),
                array.name if large else "",
                bold=True,
            )
            if not large and array.name in colours:
                last = array is arrays[-1]
                figure.text(
                    x + 8 if last else x + width,
                    y + 122,
                    array.name,
                    SMALL,
                    "start" if last else "end",
                )
        for first, what in ((0, "owned"), (2, "streamed")):
            left, right = (
                LEFT + scale * arrays[first].offset,
                LEFT + scale * arrays[first + 2].offset - 4,
            )
            figure.line([(left, y + 104), (right, y + 104)])
            figure.text(left, y + 122, what, SMALL)
    figure.line([(LEFT + scale * most, 100), (LEFT + scale * most, 408)], "red", 2.5, dashed=True)
    figure.lines(
        LEFT,
        464,
        [
            "Dashed: the 64 KB of a T4.",
            "Red: LSE and delta of the rows.",
            "The accumulators of the gradients are in registers.",
        ],
        SMALL,
    )
    return figure


FIGURES = [step(), walk(), causal_tiles(), memory()]
