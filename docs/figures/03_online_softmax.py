"""Figures of stages/03_online_softmax: the fused kernel, the running maximum, the backward pass."""

from math import exp

from drawing import Figure, LARGE, LEFT, SMALL
from sources import constants

FORWARD, BACKWARD = "stages/03_online_softmax/kernel.cuh", "stages/03_online_softmax/kernel_bwd.cuh"


def fused():
    """Where the numbers of the fused kernel live, and how they flow."""
    config = constants(FORWARD, "Config", bytes=2)
    figure = Figure(
        "03_fused",
        620,
        "One kernel: S and P stay on the chip",
        "Q is loaded once into sQ. For each tile of keys, K and V are loaded into sK and sV, S is"
        " computed into registers, the running maximum and sum are updated, P goes to sP in shared"
        " memory, and O, in registers, is rescaled and grows by P V. O and the LSE are written"
        " once, at the end.",
    )
    figure.legend(LEFT, 72,
                  [("grey", "global memory"), ("orange", "shared memory"), ("blue", "registers")])
    for x, label in ((40, "Q"), (190, "K"), (340, "V")):
        figure.box(x, 104, 110, 46, "grey", label, bold=True)
        figure.arrow([(x + 55, 150), (x + 55, 206)])
        figure.box(x, 208, 110, 46, "orange", "s" + label, bold=True)
    figure.box(530, 104, 150, 46, "grey", "O, LSE", bold=True)
    figure.line([(20, 176), (700, 176)], "grey", 2, dashed=True)
    figure.note(690, 196, "the chip", "end")
    figure.arrow([(95, 254), (95, 298)])
    figure.arrow([(245, 254), (245, 298)])
    figure.box(
        40,
        300,
        260,
        62,
        "blue",
        "S = τ Q Kᵀ",
        below=[f"{config.kBlockKV} keys, a lane for each"],
        bold=True,
    )
    figure.arrow([(170, 362), (170, 396)])
    figure.box(40, 398, 260, 62, "blue", "m, l, o_scale", below=["the row's, so far"], bold=True)
    figure.arrow([(170, 460), (170, 494)])
    figure.box(40, 496, 260, 62, "orange", "sP = exp(S − m)", bold=True)
    figure.arrow([(300, 527), (395, 527), (395, 466)])
    figure.arrow([(395, 254), (395, 398)])
    figure.arrow([(300, 429), (340, 429)])
    figure.box(
        342,
        400,
        338,
        64,
        "blue",
        "O = o_scale · O + P V",
        below=["in registers all the time"],
        bold=True,
    )
    figure.arrow([(605, 400), (605, 152)])
    figure.lines(594, 300, ["once, at", "the end"], SMALL, "end", "quiet")
    figure.note(440, 527, "next tile: K and V again")
    figure.text(LEFT, 594, "Q once · K, V for each tile · no S, no P in global memory", SMALL)
    return figure


def running():
    """The chapter's numbers: two tiles, the second with a larger score."""
    scores, values = [[1, 3], [4]], [[10, 20], [30]]
    m1, m2 = max(scores[0]), max(scores[0] + scores[1])
    alpha = exp(m1 - m2)
    first = [exp(s - m1) for s in scores[0]]
    l1, o1 = sum(first), sum(w * v for w, v in zip(first, values[0]))
    rescaled = [alpha * w for w in first]
    second = rescaled + [exp(s - m2) for s in scores[1]]
    l2 = alpha * l1 + second[-1]
    o2 = alpha * o1 + second[-1] * values[1][0]
    keys = list(zip(scores[0] + scores[1], values[0] + values[1]))
    exact = sum(exp(s) * v for s, v in keys) / sum(exp(s) for s, _ in keys)
    if abs(o2 / l2 - exact) > 1e-12:
        raise ValueError("the running sums do not give softmax's average")
    figure = Figure(
        "03_running",
        540,
        "A larger maximum: rescale once, go on",
        f"Scores 1 and 3 in the first tile give m = {m1}, l = {l1:.3f}, o = {o1:.2f}. The second"
        f" tile has score 4: the old sums are multiplied by {alpha:.3f}, and then l = {l2:.3f}, o ="
        f" {o2:.2f}. O = {o2 / l2:.2f}.",
    )
    base, tall = 316, 190
    panels = [
        ("tile 1", first, m1, l1, o1),
        (f"× α = {alpha:.3f}", rescaled, m2, alpha * l1, alpha * o1),
        ("tile 2", second, m2, l2, o2),
    ]
    for n, (title, weights, m, total, weighted) in enumerate(panels):
        x = LEFT + 236 * n
        figure.text(x + 100, 78, title, LARGE, "middle", bold=True)
        for k, weight in enumerate(weights):
            colour = "orange-full" if k == 2 else "blue-full"
            figure.box(x + 8 + 66 * k, base - tall * weight, 52, tall * weight, colour)
            figure.text(
                x + 34 + 66 * k, base - tall * weight - 14, f"{weight:.3g}", SMALL, "middle"
            )
            figure.text(x + 34 + 66 * k, base + 18, str(keys[k][0]), SMALL, "middle")
            figure.note(x + 34 + 66 * k, base + 44, str(keys[k][1]), "middle")
        figure.line([(x, base), (x + 204, base)], width=1.5)
        figure.lines(x + 8, base + 86, [f"m = {m}", f"l = {total:.3f}", f"o = {weighted:.2f}"], 22)
        if n:
            figure.arrow([(x - 26, base - 90), (x - 4, base - 90)])
    figure.text(LEFT, 510, f"O = o / l = {o2 / l2:.2f}", 22, bold=True)
    figure.note(230, 510, "Bars: exp(score − m). Under them: score, value.")
    return figure


def flow():
    """The backward pass as products."""
    figure = Figure(
        "03_backward",
        556,
        "Backward: five products, two of them twice",
        "S is Q times K transposed, dP is dO times V transposed. From S and the LSE comes P, from"
        " P, dP and delta comes dS. dV is P transposed times dO, dK is dS transposed times Q, dQ is"
        " dS times K. Both kernels compute S and dP, so there are seven products.",
    )
    figure.legend(
        LEFT,
        72,
        [("blue", "product"), ("grey", "element by element"), ("green", "product: a gradient")],
    )
    figure.box(20, 104, 300, 62, "blue", "S = τ Q Kᵀ", below=["in both kernels"], bold=True)
    figure.box(400, 104, 300, 62, "blue", "dP = dO Vᵀ", below=["in both kernels"], bold=True)
    figure.arrow([(170, 166), (170, 206)])
    figure.box(20, 208, 300, 62, "grey", "P = exp(S − LSE)", bold=True)
    figure.arrow([(550, 166), (550, 298)])
    figure.arrow([(320, 239), (430, 239), (430, 298)])
    figure.box(330, 300, 370, 62, "grey", "dS = P ∘ (dP − delta)", bold=True)
    figure.arrow([(90, 270), (90, 404)])
    figure.arrow([(365, 362), (365, 404)])
    figure.arrow([(590, 362), (590, 404)])
    for x, label in ((20, "dV = Pᵀ dO"), (249, "dK = τ dSᵀ Q"), (478, "dQ = τ dS K")):
        figure.box(x, 406, 222, 50, "green", label, bold=True)
    figure.line([(24, 474), (24, 484), (467, 484), (467, 474)], width=1.5)
    figure.line([(482, 474), (482, 484), (696, 484), (696, 474)], width=1.5)
    figure.text(245, 506, "key_value_gradient", SMALL, "middle", mono=True)
    figure.note(245, 532, "owns keys", "middle")
    figure.text(589, 506, "query_gradient", SMALL, "middle", mono=True)
    figure.note(589, 532, "owns queries", "middle")
    return figure


def owners():
    """Which rows of S a block of each kernel owns, and what streams past."""
    config = constants(BACKWARD, "BackwardConfig", kHeadDim=64, bytes=2)
    figure = Figure(
        "03_owners",
        470,
        "Two kernels, two owners",
        f"A block of query_gradient owns {config.kOwned} queries, a row of tiles of S, and streams"
        f" keys past them; it writes their dQ. A block of key_value_gradient owns {config.kOwned}"
        " keys, a column of tiles, and streams queries past them; it writes their dK and dV.",
        heading="",
    )
    cell, top, count = 52, 168, 5
    for x, kernel, across in ((60, "query_gradient", True), (416, "key_value_gradient", False)):
        figure.text(x - 40, 36, kernel, SMALL + 2, mono=True, bold=True)
        own = 1 if across else 2
        owned = [(own, n) if across else (n, own) for n in range(count)]
        figure.text(x - 40, 70, f"owns {config.kOwned} {'queries' if across else 'keys'}", SMALL)
        figure.text(
            x - 40,
            96,
            f"streams {'K, V' if across else 'Q, dO'}, {config.kStreamed} rows at a time",
            SMALL,
        )
        figure.note(x + 2, top - 20, "keys")
        figure.cells([(x + c * cell, top + r * cell, cell, cell) for r, c in owned], "blue")
        figure.grid(x, top, count, count, cell)
        if across:
            figure.arrow(
                [
                    (x + 14, top + (own + 0.5) * cell),
                    (x + count * cell - 14, top + (own + 0.5) * cell),
                ]
            )
            figure.box(x - 44, top + own * cell, 38, cell, "green", "dQ", SMALL, bold=True)
        else:
            figure.arrow(
                [
                    (x + (own + 0.5) * cell, top + 14),
                    (x + (own + 0.5) * cell, top + count * cell - 14),
                ]
            )
            figure.box(
                x + (own - 0.25) * cell,
                top - 48,
                1.5 * cell,
                40,
                "green",
                "dK, dV",
                SMALL,
                bold=True,
            )
    figure.note(368, top + cell * (count - 0.5), "queries", "middle")
    figure.text(
        LEFT, 450, "Each gradient has one owner: no atomics, the same bits every run.", SMALL
    )
    return figure


FIGURES = [fused(), running(), flow(), owners()]
