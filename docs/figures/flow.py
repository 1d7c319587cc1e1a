"""Draws the chapters of the backward pass: what reads and writes what, and who waits for whom."""

from drawing import Figure, LEFT, RIGHT, SMALL, WIDTH

GRID, ROW, MARK = 222, 36, 28  # where the columns begin, a row's height, a mark's width
READ, WRITE, ADD, BEFORE = "r", "w", "+", "r'"
MARKS = {READ: "blue", WRITE: "orange", ADD: "purple", BEFORE: "sky"}


def in_order(text, *parts):
    """Raises an error unless the parts stand in a source in this order."""
    at = 0
    for part in parts:
        if part not in text[at:]:
            raise ValueError(f"a figure's order is not the kernel's: {part}")
        at = text.index(part, at) + len(part)


def lives(marks, rows):
    """From which row to which a place holds something that is still needed."""
    spans = []
    for row, mark in sorted(marks.items()):
        if set(marks.values()) == {ADD}:
            return [(-0.5, rows - 0.5)]
        if mark == WRITE:
            spans.append([row, rows - 0.5])
        else:
            if not spans:
                spans.append([-0.5, row])
            spans[-1][1] = row
    return spans


def reads_and_writes(name, title, description, places, steps, meetings=(), notes=()):
    """A grid: places across, steps down. `meetings` are (row, name): all consumers wait there."""
    columns = [column for _, names in places for column in names]
    step = (RIGHT - GRID) / len(columns)
    top = 118
    bottom = top + ROW * len(steps)
    figure = Figure(name, 0, title, description)
    at, middle = GRID, {}
    for group, names in places:
        width = step * len(names)
        figure.text(at + width / 2, 68, group, SMALL, "middle", bold=True)
        figure.line([(at + 4, 82), (at + width - 4, 82)], "grey", 1.5)
        for n, column in enumerate(names):
            middle[column] = at + step * (n + 0.5)
            figure.text(middle[column], 99, column, SMALL, "middle")
        at += width
    for column in columns:
        marks = {row: marks[column] for row, (_, marks) in enumerate(steps) if column in marks}
        for begin, end in lives(marks, len(steps)):
            figure.cells([(middle[column] - 5, top + ROW * (begin + 0.5), 10, ROW * (end - begin))],
                         "grey")
    for row, (label, marks) in enumerate(steps):
        y = top + ROW * (row + 0.5)
        figure.text(LEFT, y, label, SMALL)
        across = [middle[column] for column in marks]
        if len(across) > 1:
            figure.line([(min(across), y), (max(across), y)], "grey", 1.5)
        for column, mark in marks.items():
            figure.box(middle[column] - MARK / 2, y - 13, MARK, 26, MARKS[mark], mark, SMALL)
    for row, what in meetings:
        y = top + ROW * row
        figure.line([(LEFT, y), (RIGHT, y)], "red", 2, dashed=True)
        if what:
            figure.text(RIGHT, y + 1, what, SMALL, "end")
    used = {mark for _, marks in steps for mark in marks.values()}
    figure.legend(LEFT, bottom + 30, [(MARKS[READ], "r: reads"), (MARKS[WRITE], "w: writes"),
                                      (MARKS[ADD], "+: both"), ("grey", "still needed")])
    if BEFORE in used:
        figure.legend(LEFT, bottom + 60, [(MARKS[BEFORE], "r': reads what belongs to the tile before")])
    figure.notes(LEFT, bottom + (92 if BEFORE in used else 62), notes)
    figure.height = bottom + (84 if BEFORE in used else 54) + 24 * len(notes)
    return figure


def fan(figure, y0, y1, colours, x=(100, 620), step=32):
    """Arrows down and up between a box across and two boxes below it, by pairs."""
    for centre in x:
        for side, (colour, down) in zip((-1, 1), colours):
            at = centre + side * step / 2
            figure.arrow([(at, y0), (at, y1)] if down else [(at, y1), (at, y0)], colour)


def entries(figure, y, names, step=58):
    """The names of barriers in their colours, each with what an arrival or a count there says."""
    for n, (colour, what, why) in enumerate(names):
        figure.box(170, y + step * n, 18, 18, colour)
        figure.text(200, y + 9 + step * n, what, SMALL, mono=True)
        figure.text(200, y + 33 + step * n, why, SMALL)


def consumers(figure, top, between, part=None):
    """Two consumers, with arrows between them; `between` is as in who_waits(). Returns the lower end."""
    high = 40 + 74 * len(between)
    for n, x in enumerate((LEFT, RIGHT - 160)):
        figure.box(x, top, 160, high, "grey", f"consumer {n}", below=[part] if part else [])
    for n, (colour, direction, what, why) in enumerate(between):
        y = top + 60 + 74 * n
        line = [(LEFT + 164, y), (RIGHT - 164, y)]
        if direction >= 0:
            figure.arrow(line, colour)
        if direction <= 0:
            figure.arrow(line[::-1], colour)
        figure.text(WIDTH / 2, y - 17, what, SMALL, "middle", mono=True)
        figure.text(WIDTH / 2, y + 18, why, SMALL, "middle")
    return top + high


def who_waits(name, title, description, between, adders, first, *, part=None, notes=()):
    """The producer above, two consumers, and the threads that add below.

    `between` are (colour, direction, what is said), direction -1, 1, or 0 for both; `adders` the
    box below; `first` the names and arrivals of the four barriers that are no consumer's alone."""
    figure = Figure(name, 0, title, description)
    full, empty, dq_full, dq_empty = first
    figure.box(LEFT, 62, RIGHT - LEFT, 66, "yellow", "producer warp",
               below=["Q, dO, LSE and delta of tile after tile"])
    fan(figure, 132, 262, (("orange", True), ("blue", False)))
    entries(figure, 143, (("orange", *full), ("blue", *empty)))
    end = consumers(figure, 266, between, part)
    fan(figure, end + 4, end + 134, (("green", True), ("purple", False)))
    entries(figure, end + 15, (("green", *dq_full), ("purple", *dq_empty)))
    label, below = adders
    figure.box(LEFT, end + 138, RIGHT - LEFT, 66, "yellow", label, below=[below])
    figure.height = end + 138 + 66 + 28 + 24 * len(notes)
    figure.notes(LEFT, end + 138 + 66 + 26, notes)
    return figure
