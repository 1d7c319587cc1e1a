"""Draws a measured timeline: what the warpgroups of one multiprocessor do when."""

import sys
from bisect import bisect_right

from drawing import Figure, MARGIN, SMALL, WIDTH, estimated_width
from sources import ROOT, result

sys.path.insert(0, str(ROOT / "bench/timeline"))
import spans as timelines  # noqa: E402, it lies there

LEFT, RIGHT = 136, WIDTH - MARGIN - 4
LANE, STEP = 32, 40
TILES = 3  # that a figure shows

COLOURS = {"S": "blue", "P V": "purple", "softmax": "green", "barrier": "red"}
WAIT, TURN, REQUEST = "yellow", "orange", "red"


class Panel:
    """A stage's timeline with one head_dim."""

    def __init__(self, path, head_dim):
        measured = result(path)
        self.stage = measured["stage"]
        self.timeline = timelines.chosen(measured, head_dim)
        self.lanes = timelines.lanes_of(self.timeline, measured["lines"])
        first = next(lane for lane in self.lanes if lane.computes)
        begins = timelines.tiles_of(first.events)
        middle = bisect_right(begins, sum(timelines.inner_of_all(self.lanes)) / 2) - 1
        shown = begins[middle - TILES // 2 :][: TILES + 1]
        self.begin, self.cycles = shown[0], shown[-1] - shown[0]

    @property
    def height(self):
        """What the panel takes of a card."""
        blocks = len(self.timeline["blocks"])
        return 34 + STEP * len(self.lanes) + 12 * (blocks - 1) + 34


def colour_of(name):
    """The colour of a span."""
    if name == timelines.FOR_A_TURN:
        return TURN
    return WAIT if name.startswith("wait") else COLOURS[name]


def draw_lane(figure, panel, lane, y, scale):
    """The spans of a warpgroup."""
    end = panel.begin + (RIGHT - LEFT) / scale
    shared = timelines.overlaps(lane)  # Then P V is a strip below the others.
    for span in timelines.clipped(lane.spans, panel.begin, end):
        x, width = LEFT + (span.begin - panel.begin) * scale, (span.end - span.begin) * scale
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
        if lane.block != block:
            block = lane.block
            figure.line([(MARGIN, y + 2), (RIGHT, y + 2)], "grey", 1, dashed=True)
            y += 12
        figure.text(MARGIN + 4, y + LANE / 2, lane.name, SMALL)
        draw_lane(figure, panel, lane, y, scale)
        y += STEP
    draw_axis(figure, y, scale * 1000 * panel.timeline["clock_ghz"])


def draw_axis(figure, y, scale):
    """A time axis, `scale` units a microsecond."""
    step = next(step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10) if step * scale > 90)
    for n in range(int((RIGHT - LEFT) / scale / step) + 1):
        x, label = LEFT + n * step * scale, f"{n * step:.3g} µs"
        figure.line([(x, y - 4), (x, y + 4)], width=1.5)
        if x + estimated_width(label, SMALL) / 2 < WIDTH - 6:
            figure.text(x, y + 16, label, SMALL, "middle", "quiet")


def not_measured(name, title, paths):
    """The card that stands for a figure without a result."""
    figure = Figure(name, 110, title, f"Not measured yet: there is no {' or '.join(paths)}.")
    figure.heading(title)
    figure.text(MARGIN + 4, 74, "Not measured yet.", SMALL)
    return figure


def figure_of(name, title, paths, head_dim):
    """The timelines of several stages, one below the other on one scale."""
    if not all((ROOT / path).is_file() for path in paths):
        return not_measured(name, title, paths)
    panels = [Panel(path, head_dim) for path in paths]
    scale = (RIGHT - LEFT) / max(panel.cycles for panel in panels)
    shares = [
        f"{panel.stage}: {100 * timelines.products_in_flight(panel.lanes):.0f} % of the time at"
        " least one product of these warpgroups is in flight."
        for panel in panels
    ]
    figure = Figure(
        name,
        56 + sum(panel.height for panel in panels) + 150,
        title,
        f"What the recorded warpgroups of a multiprocessor do during {TILES} tiles. "
        + " ".join(shares),
    )
    figure.heading(title)
    top = 66
    for panel in panels:
        draw(figure, panel, top, scale)
        top += panel.height + 16
    entries = [("blue", "S = Q Kᵀ"), ("green", "softmax"), ("purple", "P V"), (WAIT, "wait")]
    names = {span.name for panel in panels for lane in panel.lanes for span in lane.spans}
    entries += [(TURN, timelines.FOR_A_TURN)] if timelines.FOR_A_TURN in names else []
    figure.legend(MARGIN + 4, top + 14, entries, in_a_row=True)
    notes = (
        "A product's bar: from its issue to the end of the wait for it.",
        "Red: a request of K or of V.",
    )
    figure.lines(MARGIN + 4, top + 46, notes, SMALL, style="quiet")
    return figure
