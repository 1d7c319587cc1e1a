"""The ladder as bars: the speed of every stage beside its peers'."""

from drawing import Figure, LARGE, MARGIN, SMALL
from sources import result, speeds

LADDER, PEERS = "docs/results/nvidia-h200/ladder.json", "docs/results/nvidia-h200/peers.json"
PROBLEM = "b4_h32_q4096k4096_d64_f16"
CELL = {"seq": 4096, "head_dim": 64, "dtype": "f16", "causal": False}  # the same in peers.json
# Name, and how many lines of text lie between the name and the bars.
PEER_NAMES = {
    "efficient": ("memory-efficient", 0),
    "fa2": ("FlashAttention-2", 1),
    "fa3": ("FlashAttention-3", 2),
    "fa4": ("FlashAttention-4", 3),
    "cudnn": ("cuDNN", 0),
}
LEFT, RIGHT, BAR, STEP, HEAD = 248, 700, 26, 33, 96


def peers_of(direction):
    """TFLOP/s of all implementations in the same cell."""
    cell = {**CELL, "pass": direction}
    row = next(row for row in result(PEERS)["rows"] if cell.items() <= row.items())
    return {name: speed for name, (speed, _) in row["tflops"].items()}


def panel(figure, top, direction, colour, stages, scale):
    """The bars of one direction, with a dashed line for each of the peers."""
    peers = peers_of(direction)
    figure.text(MARGIN + 4, top, direction.capitalize(), LARGE, bold=True)
    first = top + HEAD
    end = first + STEP * len(stages)
    for peer, (name, row) in PEER_NAMES.items():
        x, label = LEFT + scale * peers[peer], f"{name} {peers[peer]:.0f}"
        y = first - 24 - 24 * row
        figure.line([(x, y + 12), (x, end)], "grey", 2.4, dashed=True)
        figure.note(x, y, label, "end")
    for n, (stage, speed) in enumerate(stages.items()):
        y = first + STEP * n
        figure.text(LEFT - 12, y + BAR / 2, stage.replace("_", " "), SMALL, "end")
        figure.cells([(LEFT, y, max(2, scale * speed), BAR)], colour, full=True)
        figure.text(LEFT + scale * speed + 8, y + BAR / 2, f"{speed:.3g}", SMALL, bold=True)
    figure.line([(LEFT, first - 6), (LEFT, end)], width=1.5)


def ladder():
    """Both directions."""
    by_pass = {
        direction: speeds(LADDER, problem=PROBLEM, **{"pass": direction})
        for direction in ("forward", "backward")
    }
    fastest = max(max(peers_of(direction).values()) for direction in by_pass)
    scale = (RIGHT - 40 - LEFT) / fastest
    device = result(LADDER)["provenance"]["device"]
    forward, backward = by_pass.values()
    height = 164 + 2 * HEAD + STEP * (len(forward) + len(backward))
    figure = Figure(
        "ladder",
        height,
        "The ladder's speed, in TFLOP/s",
        (
            f"Bars for {PROBLEM} on an {device}. "
            + " ".join(
                f"{direction.capitalize()}: "
                + ", ".join(f"{stage} {speed:.3g}" for stage, speed in stages.items())
                + "."
                for direction, stages in by_pass.items()
            )
            + " Dashed lines: PyTorch's attention, FlashAttention-3 and FlashAttention-4."
        ),
        heading="",
    )
    panel(figure, 36, "forward", "blue", forward, scale)
    panel(figure, 36 + HEAD + STEP * len(forward) + 44, "backward", "orange", backward, scale)
    figure.note(MARGIN + 4, height - 52,
                f"TFLOP/s on an {device}, f16, batch 4, 32 heads, 4,096 tokens,")
    figure.note(MARGIN + 4, height - 26,
                "head_dim 64, no mask. Dashed: PyTorch, FlashAttention-3 and 4.")
    return figure


FIGURES = [ladder()]
