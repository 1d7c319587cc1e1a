"""Figures of stages/01_naive: who computes what, cache lines, the mask, the backward pass; and the
time of each kernel of 01 to 03, which heads these three chapters."""

import re

from drawing import Figure, LEFT, NORMAL, SMALL
from sources import causal, mask, result

LINE_BYTES = 128
KERNELS = "docs/results/nvidia-h200/kernels.json"
COLOURS = {"scores": "blue", "softmax": "green", "output": "orange", "attention": "purple"}


def bars():
    """The time of each kernel of the forward passes of 01, 02 and 03."""
    stages = {}
    for row_ in result(KERNELS)["rows"]:
        if row_["stage"][:2] in ("01", "02", "03") and row_["pass"] == "forward":
            name = re.search(r"::(\w+)", row_["kernel"])[1]
            stages.setdefault(row_["stage"][:2], []).append((name, row_["ms"]))
    device = result(KERNELS)["provenance"]["device"]
    figure = Figure(
        "01_bars",
        428,
        "Time of each kernel of the forward pass, ms",
        f"Milliseconds on an {device}. "
        + " ".join(
            f"{stage}: " + ", ".join(f"{name} {ms:.0f}" for name, ms in kernels) + "."
            for stage, kernels in stages.items()
        ),
    )
    figure.legend(LEFT, 74, [(colour, name) for name, colour in COLOURS.items()])
    x, closer = 64, 7
    scale = 590 / sum(ms for _, ms in stages["01"])

    def bar(y, stage, unit):
        figure.text(LEFT, y + 19, stage, SMALL, bold=True)
        at = x
        for name, ms in stages[stage]:
            label = f"{ms:.0f}" if unit * ms > 30 else ""
            figure.box(at, y, unit * ms, 38, COLOURS[name], label, SMALL)
            at += unit * ms
        total = sum(ms for _, ms in stages[stage])
        figure.text(at + 8, y + 19, f"{total:.0f}", SMALL, bold=True)

    for n, stage in enumerate(stages):
        bar(106 + 50 * n, stage, scale)
    figure.note(LEFT, 290, f"02 and 03 again, {closer} times as wide:")
    for n, stage in enumerate(("02", "03")):
        bar(316 + 50 * n, stage, closer * scale)
    return figure


def row(n, count):
    """Row n of a matrix with that many columns."""
    return [(n, c) for c in range(count)]


def who():
    """Three kernels, and what one thread of each computes."""
    figure = Figure(
        "01_who",
        612,
        "What one thread computes in the three kernels of 01",
        "A thread of scores computes one element of S from a row of Q and a row of K. A thread of"
        " softmax turns one row of S into a row of P. A thread of output computes one element of O"
        " from a row of P and a column of V. S and P are whole matrices in global memory.",
        heading="",
    )
    cell, i, j, d = 19, 2, 4, 1

    def kernel(y, name, what):
        figure.text(LEFT, y, name, 24, mono=True, bold=True)
        figure.notes(LEFT, y + 34, ["one thread:"] + what)

    kernel(78, "scores", ["one score"])
    figure.matrix(236, 56, "Q", 6, 4, cell, [("blue", row(i, 4))])
    figure.matrix(372, 56, "K", 6, 4, cell, [("orange", row(j, 4))])
    figure.arrow([(466, 113), (526, 113)])
    figure.matrix(546, 56, "S", 6, 6, cell, [("green", [(i, j)])])
    kernel(264, "softmax", ["one row,", "walked three times"])
    figure.matrix(302, 242, "S", 6, 6, cell, [("blue", row(i, 6))])
    figure.arrow([(436, 299), (526, 299)])
    figure.matrix(546, 242, "P", 6, 6, cell, [("green", row(i, 6))])
    kernel(450, "output", ["one element of O"])
    figure.matrix(236, 428, "P", 6, 6, cell, [("blue", row(i, 6))])
    figure.matrix(384, 428, "V", 6, 4, cell, [("orange", [(r, d) for r in range(6)])])
    figure.arrow([(476, 485), (526, 485)])
    figure.matrix(546, 428, "O", 6, 4, cell, [("green", [(i, d)])])
    figure.text(LEFT, 582, "All six matrices lie in global memory, S and P too.", SMALL)
    return figure


def lines():
    """The cache lines that one load of a warp touches."""
    head_dim, element = 64, 2
    row_bytes = head_dim * element
    reads = {
        "scores": [lane * row_bytes for lane in range(32)],
        "output": [lane * element for lane in range(32)],
    }
    touched = {
        name: {address // LINE_BYTES for address in addresses} for name, addresses in reads.items()
    }
    counts = {
        name: f"{len(lines_)} line{'s' if len(lines_) > 1 else ''}"
        for name, lines_ in touched.items()
    }
    figure = Figure(
        "01_lines",
        520,
        "One load of a warp: 32 lanes",
        f"In scores each of 32 lanes reads its own row of K: {counts['scores']} of {LINE_BYTES}"
        " bytes. In output 32 lanes read neighbouring elements of one row of V:"
        f" {counts['output']}.",
    )
    width, pitch, top = 310, 10.5, 158
    for x, name, what in (
        (LEFT, "scores", "a lane for each key: its row of K"),
        (390, "output", "a lane for each column of V"),
    ):
        figure.text(x, 78, f"{name}: {counts[name]}", 24, bold=True)
        figure.note(x, 108, what)
        scale = width / LINE_BYTES
        fetched = [(x, top + pitch * r, width, pitch - 2.5) for r in sorted(touched[name])]
        figure.cells(fetched, "orange")
        figure.cells(
            [
                (
                    x + scale * (a % LINE_BYTES),
                    top + pitch * (a // LINE_BYTES),
                    max(scale * element, 5),
                    pitch - 2.5,
                )
                for a in reads[name]
            ],
            "blue",
            full=True,
        )
    figure.note(LEFT, 138, f"a row = {row_bytes} bytes = a line")
    figure.legend(390, 260,
                  [("blue-full", "what the lanes read"), ("orange", "cache lines touched")],
                  column=True)
    figure.lines(390, 356, ["Assumed: L1 serves", "one line per cycle."], NORMAL)
    return figure


def causal_mask():
    """What `causal` lets through, with as many queries as keys and with fewer."""
    visible = mask().visible
    figure = Figure(
        "01_mask",
        396,
        "causal: the last query sees every key",
        "Two matrices, a row for each query and a column for each key. The last query sees every"
        " key; each query before it sees one key less. With fewer queries than keys the first query"
        " sees several keys.",
    )
    cell = 36
    for x, num_queries, num_keys in ((76, 6, 6), (436, 3, 6)):
        seq = causal(num_queries, num_keys)
        seen = [(i, j) for i in range(num_queries) for j in range(num_keys) if visible(seq, i, j)]
        figure.matrix(
            x,
            104,
            f"{num_queries} queries, {num_keys} keys",
            num_queries,
            num_keys,
            cell,
            [("blue", seen)],
        )
        for i in range(num_queries):
            figure.note(x - 12, 104 + cell * (i + 0.5), str(i), "end")
        for j in range(num_keys):
            figure.note(x + cell * (j + 0.5), 104 + cell * num_queries + 18, str(j), "middle")
    figure.text(LEFT, 370, "Rows: queries. Columns: keys. Filled: visible(seq, i, j).", SMALL)
    return figure


def backward():
    """The backward pass of 01: four kernels with P and dS between them."""
    figure = Figure(
        "01_backward",
        560,
        "Backward: P and dS lie between the kernels",
        "delta reads dO and O. score_gradients reads Q, K, V, dO, the LSE and delta, and writes P"
        " and dS to global memory. From dS and K comes dQ, from P and dO comes dV, from dS and Q"
        " comes dK.",
    )
    figure.box(20, 70, 200, 50, "grey", "dO, O")
    figure.box(290, 70, 410, 50, "grey", "Q, K, V, dO, LSE")
    figure.arrow([(120, 120), (120, 168)])
    figure.box(20, 170, 200, 60, "blue", "delta", mono=True)
    figure.arrow([(220, 200), (288, 200)])
    figure.arrow([(495, 120), (495, 168)])
    figure.box(290, 170, 410, 60, "blue", "score_gradients", mono=True)
    figure.arrow([(385, 230), (385, 276)])
    figure.arrow([(605, 230), (605, 276)])
    figure.box(290, 278, 190, 76, "orange", "P", below=["4 bytes per score"], bold=True)
    figure.box(510, 278, 190, 76, "orange", "dS", below=["4 bytes per score"], bold=True)
    figure.arrow([(340, 354), (340, 378), (131, 378), (131, 408)])
    figure.arrow([(560, 354), (560, 378), (360, 378), (360, 408)])
    figure.arrow([(620, 354), (620, 408)])
    width = 222
    for x, kernel, output in (
        (20, "key_value_gradient", "dV = Pᵀ dO"),
        (249, "key_value_gradient", "dK = τ dSᵀ Q"),
        (478, "query_gradient", "dQ = τ dS K"),
    ):
        figure.box(x, 410, width, 50, "blue", kernel, SMALL, mono=True)
        figure.arrow([(x + width / 2, 460), (x + width / 2, 484)])
        figure.box(x, 486, width, 50, "green", output, bold=True)
    return figure


FIGURES = [bars(), who(), lines(), causal_mask(), backward()]
