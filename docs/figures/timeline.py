"""Draws a measured timeline: what the warpgroups of one SM do when."""

import sys

from drawing import Figure, MARGIN, SMALL, WIDTH, estimated_width
from sources import ROOT, result

sys.path.insert(0, str(ROOT / "bench/timeline"))
import spans as timelines  # noqa: E402, it lies there

LEFT, RIGHT = 136, WIDTH - MARGIN - 4
LANE, STEP = 32, 40

COLOURS = {"S": "blue", "P V": "purple", "softmax": "green", "barrier": "red"}
WAIT, TURN, REQUEST = "yellow", "orange", "red"


class Panel:
    """A stage's timeline with one head_dim."""

    def __init__(self, path, head_dim):
        measured = result(path)
        self.stage = measured["stage"]
        self.timeline = timelines.chosen(measured, head_dim)
        self.lanes = self.timeline["lanes"]
        self.cycles = self.timeline["shown_cycles"]

    @property
    def height(self):
        """What the panel takes of a card."""
        return 34 + STEP * len(self.lanes) + 12 * self.lanes[-1]["block"] + 34


def overlaps(spans):
    """True if a product with V runs beside a softmax of the same warpgroup."""
    spans = sorted((s for s in spans if s.name in ("P V", "softmax")), key=lambda s: s.begin)
    return any(a.end > b.begin for a, b in zip(spans, spans[1:]))


def colour_of(name):
    """The colour of a span."""
    if name == timelines.FOR_A_TURN:
        return TURN
    return WAIT if name.startswith("wait") else COLOURS[name]


def draw_lane(figure, lane, y, scale):
    """The spans of a warpgroup."""
    spans = [timelines.Span(*span) for span in lane["spans"]]
    shared = overlaps(spans)  # Then P V is a strip below the others.
    for span in timelines.clipped(spans, 0, (RIGHT - LEFT) / scale):
        x, width = LEFT + span.begin * scale, (span.end - span.begin) * scale
        if span.name.startswith("request"):
            figure.line([(x, y - 3), (x, y + LANE + 3)], REQUEST, 3)
            continue
        if width < 1:
            continue
        label = span.name if estimated_width(span.name, SMALL) < width - 2 else ""
        top, high = (0, LANE) if not shared else (21, 11) if span.name == "P V" else (0, 20)
        label = "" if high < SMALL else label
        figure.box(x, y + top, width, high, colour_of(span.name), label, SMALL)


def draw(figure, panel, top, scale):
    """A panel from `top` on, `scale` units a cycle."""
    head_dim = panel.timeline["problem"].split("_d")[1].split("_")[0]
    figure.heading(f"{panel.stage.replace('_', ' ')}, head_dim {head_dim}", top + 12)
    y, block = top + 38, 0
    for lane in panel.lanes:
        if lane["block"] != block:
            block = lane["block"]
            figure.line([(MARGIN, y + 2), (RIGHT, y + 2)], "grey", 1, dashed=True)
            y += 12
        figure.text(MARGIN + 4, y + LANE / 2, lane["name"], SMALL)
        draw_lane(figure, lane, y, scale)
        y += STEP
    draw_axis(figure, y, scale * 1000 * panel.timeline["clock_ghz"])


def draw_axis(figure, y, scale):
    """A time axis, `scale` units a microsecond."""
    step = next(step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10) if step * scale > 90)
    for n in range(int((RIGHT - LEFT) / scale / step) + 1):
        x, label = LEFT + n * step * scale, f"{n * step:.3g} µs"
        figure.line([(x, y - 4), (x, y + 4)], width=1.5)
        if x + estimated_width(label, SMALL) / 2 < WIDTH - 6:
            figure.note(x, y + 16, label, "middle")


def figure_of(name, title, paths, head_dim):
    """The timelines of several stages, one below the other on one scale."""
    panels = [Panel(path, head_dim) for path in paths]
    scale = (RIGHT - LEFT) / max(panel.cycles for panel in panels)
    shares = [
        f"{panel.stage}: {100 * panel.timeline['products_in_flight']:.0f} % of the time at"
        " least one product of these warpgroups is in flight."
        for panel in panels
    ]
    figure = Figure(
        name,
        56 + sum(panel.height for panel in panels) + 150,
        title,
        f"What the recorded warpgroups of an SM do during {timelines.TILES} tiles. "
        + " ".join(shares),
    )
    top = 66
    for panel in panels:
        draw(figure, panel, top, scale)
        top += panel.height + 16
    entries = [("blue", "S = Q Kᵀ"), ("green", "softmax"), ("purple", "P V"), (WAIT, "wait")]
    names = {name for panel in panels for lane in panel.lanes for name, _, _ in lane["spans"]}
    entries += [(TURN, timelines.FOR_A_TURN)] if timelines.FOR_A_TURN in names else []
    figure.legend(MARGIN + 4, top + 14, entries)
    notes = (
        "A product's bar: from its issue to the end of the wait for it.",
        "Red: a request of K or of V.",
    )
    figure.notes(MARGIN + 4, top + 46, notes)
    return figure
