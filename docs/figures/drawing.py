"""Draws the book's figures: SVG with boxes, arrows, grids and text.

A figure is a card of its own: its background is opaque, and its style sheet has light and dark
colours, so it is legible on any page. The colours are those of Okabe and Ito, which colour-blind
readers can tell apart. Coordinates are units of a card 720 wide. A phone shows it at half that
size, so no text is smaller than 18. The same calls give the same bytes.
"""

import pathlib
from xml.sax.saxutils import escape

FOLDER = pathlib.Path(__file__).resolve().parent
WIDTH = 720
SMALL, NORMAL, LARGE = 18, 20, 24
MARGIN = 16
LEFT, RIGHT = MARGIN + 4, WIDTH - MARGIN - 4  # where text and boxes begin and end
MOST_BYTES = 40_000

# Okabe and Ito's palette, and a grey.
COLOURS = {
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "green": "#009e73",
    "yellow": "#f0e442",
    "blue": "#0072b2",
    "red": "#d55e00",
    "purple": "#cc79a7",
    "grey": "#8c959f",
}
# What each theme calls paper, ink and faint lines; and how much of a colour its soft fills hold.
THEMES = {
    "light": ("#ffffff", "#1b1f24", "#d0d7de", 0.30),
    "dark": ("#161b22", "#e6edf3", "#3d444d", 0.42),
}


def mixed(colour, share, paper):
    """The colour on paper, as if it covered only that share of it."""
    parts = [(int(colour[n : n + 2], 16), int(paper[n : n + 2], 16)) for n in (1, 3, 5)]
    return "#" + "".join(f"{round(share * c + (1 - share) * p):02x}" for c, p in parts)


def rules(theme):
    """The style sheet of a theme: a class name and its declarations."""
    paper, ink, faint, share = THEMES[theme]
    result = {
        "paper": f"fill:{paper};stroke:{faint}",
        "ink": f"fill:{ink}",
        "quiet": f"fill:{mixed(ink, 0.72, paper)}",
        "ink-line": f"stroke:{ink}",
        "faint": f"fill:none;stroke:{faint}",
    }
    for name, colour in COLOURS.items():
        soft = mixed(colour, share, paper)
        result[name] = f"fill:{soft};stroke:{colour}"
        result[f"{name}-full"] = f"fill:{colour}"
        result[f"{name}-line"] = f"stroke:{colour}"
    return result


def number(value):
    """12.0 -> '12', 12.345 -> '12.3'."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def estimated_width(text, size, mono=False, bold=False):
    """A bound on a line's width that holds for the usual fonts."""
    if mono:
        return 0.61 * size * len(text)
    narrow = sum(character in "ijltfrI1.,:;|'() " for character in text)
    return size * (0.63 * (len(text) - narrow) + 0.39 * narrow) * (1.08 if bold else 1)


class Figure:
    """One SVG. Its heading is its title, if no other is given; "" is none."""

    def __init__(self, name, height, title, description, *, heading=None):
        self.name, self.height = name, height
        self.title, self.description = title, description
        self.parts, self.classes = [], {"paper"}
        if heading != "":
            self.heading(heading or title)

    def _add(self, tag, classes, attributes, content=None):
        self.classes.update(classes.split())
        shown = "".join(
            f' {key.replace("_", "-")}="{value if isinstance(value, str) else number(value)}"'
            for key, value in attributes.items()
        )
        end = "/>" if content is None else f">{content}</{tag}>"
        self.parts.append(f'<{tag} class="{classes}"{shown}{end}')

    # ---- Text ----------------------------------------------------------------------------------

    def text(self, x, y, text, size=NORMAL, anchor="start", style="ink", *, mono=False, bold=False):
        """A line of text; y is its middle. It must lie within the card."""
        width = estimated_width(text, size, mono, bold)
        left = x - {"start": 0, "middle": width / 2, "end": width}[anchor]
        if size < SMALL or left < 4 or left + width > WIDTH - 4:
            raise ValueError(f"{self.name}: too small or too wide: {text}")
        attributes = {"x": x, "y": y + 0.35 * size, "font_size": size}
        if anchor != "start":
            attributes["text_anchor"] = anchor
        if bold:
            attributes["font_weight"] = "bold"
        if mono:
            attributes["font_family"] = "monospace"
        self._add("text", style, attributes, escape(text))

    def lines(self, x, y, texts, size=NORMAL, anchor="start", style="ink", **kind):
        """Lines of text, one below the other; y is the middle of the first."""
        for n, text in enumerate(texts):
            self.text(x, y + n * 1.3 * size, text, size, anchor, style, **kind)

    def note(self, x, y, text, anchor="start"):
        """A line of small, quiet text."""
        self.text(x, y, text, SMALL, anchor, "quiet")

    def notes(self, x, y, texts):
        """Such lines, one below the other."""
        self.lines(x, y, texts, SMALL, style="quiet")

    def heading(self, text, y=34):
        """What the figure, or a part of it, says."""
        self.text(MARGIN + 4, y, text, LARGE, bold=True)

    # ---- Shapes --------------------------------------------------------------------------------

    def box(
        self,
        x,
        y,
        width,
        height,
        colour="grey",
        label="",
        size=NORMAL,
        *,
        below=(),
        mono=False,
        bold=False,
        dashed=False,
    ):
        """A box in a soft colour with a label in its middle, and smaller lines below that."""
        attributes = {
            "x": x,
            "y": y,
            "width": width,
            "height": height,
            "rx": 5,
            "stroke_width": 1.6,
        }
        if dashed:
            attributes["stroke_dasharray"] = "6 5"
        self._add("rect", colour, attributes)
        texts = ([(label, size)] if label else []) + [(text, SMALL) for text in below]
        at = y + height / 2 - sum(1.3 * size for _, size in texts) / 2
        for text, its_size in texts:
            self.text(
                x + width / 2,
                at + 0.65 * its_size,
                text,
                its_size,
                "middle",
                mono=mono and text == label,
                bold=bold and text == label,
            )
            at += 1.3 * its_size

    def boxes(self, x, y, width, height, rows, size=NORMAL):
        """Rows of boxes, (colour, label) each, with small gaps."""
        for r, row in enumerate(rows):
            for c, (colour, label) in enumerate(row):
                at = x + width * c + 2, y + height * r + 2
                self.box(*at, width - 4, height - 4, colour, label, size)

    def cells(self, rectangles, colour, full=False):
        """Many rectangles (x, y, width, height) of one colour."""
        path = "".join(
            f"M{number(x)} {number(y)}h{number(w)}v{number(h)}h{number(-w)}z"
            for x, y, w, h in rectangles
        )
        if path:
            self._add("path", f"{colour}-full" if full else colour, {"d": path})

    def grid(self, x, y, columns, rows, width, height=None):
        """Faint lines around cells of that size."""
        height = height or width
        path = "".join(
            f"M{number(x)} {number(y + r * height)}h{number(columns * width)}"
            for r in range(rows + 1)
        )
        path += "".join(
            f"M{number(x + c * width)} {number(y)}v{number(rows * height)}"
            for c in range(columns + 1)
        )
        self._add("path", "faint", {"d": path})

    def banks(self, x, y, rows, colour):
        """A row for each access: which of shared memory's 32 banks it meets."""
        width, height = 20.5, 15
        met = [(x + width * bank, y + height * n, width, height)
               for n, row in enumerate(rows) for bank in row]
        self.cells(met, colour, full=True)
        self.grid(x, y, 32, len(rows), width, height)

    def matrix(self, x, y, name, rows, columns, cell, marks=()):
        """A matrix under its name; marks are (colour, [(row, column), …])."""
        self.text(x + columns * cell / 2, y - 16, name, NORMAL, "middle", bold=True)
        for colour, cells in marks:
            self.cells(
                [(x + c * cell, y + r * cell, cell, cell) for r, c in cells], colour, full=True
            )
        self.grid(x, y, columns, rows, cell)

    def bars(self, x, unit, y, rows, step=46, high=38):
        """Rows of bars over time, which begins at x: (name, [(begin, end, colour, label), …])."""
        for row, (name, parts) in enumerate(rows):
            top = y + step * row
            self.text(LEFT, top + high / 2, name, SMALL)
            for begin, end, colour, label in parts:
                width = unit * (end - begin) - 2
                self.box(x + unit * begin + 1, top, width, high, colour, label, SMALL)

    def frame(self, x, y, width, height, colour="ink", line=3):
        """The outline of a region."""
        self._add(
            "rect",
            f"{colour}-line",
            {
                "x": x,
                "y": y,
                "width": width,
                "height": height,
                "fill": "none",
                "stroke_width": line,
            },
        )

    def line(self, points, colour="ink", width=2.0, dashed=False):
        """A line through points."""
        attributes = {
            "points": " ".join(f"{number(x)},{number(y)}" for x, y in points),
            "fill": "none",
            "stroke_width": width,
        }
        if dashed:
            attributes["stroke_dasharray"] = "6 5"
        self._add("polyline", f"{colour}-line", attributes)

    def arrow(self, points, colour="ink", width=2.4, dashed=False):
        """A line through points with a head at its last one."""
        (x0, y0), (x1, y1) = points[-2:]
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        back = [(x1 - 12 * dx - 6 * side * dy, y1 - 12 * dy + 6 * side * dx) for side in (1, -1)]
        self.line(points[:-1] + [(x1 - 9 * dx, y1 - 9 * dy)], colour, width, dashed)
        head = " ".join(f"{number(x)},{number(y)}" for x, y in [(x1, y1)] + back)
        self._add("polygon", "ink" if colour == "ink" else f"{colour}-full", {"points": head})

    def legend(self, x, y, entries, *, column=False):
        """Coloured squares with what they mean, in a row or one below the other."""
        for colour, text in entries:
            self.box(x, y - 9, 18, 18, colour)
            self.text(x + 28, y, text, SMALL)
            if column:
                y += 30
            else:
                x += 28 + estimated_width(text, SMALL) + 18

    # ---- The file ------------------------------------------------------------------------------

    def svg(self):
        """The file's text."""

        def sheet(theme):
            return "".join(
                f".{name}{{{declarations}}}"
                for name, declarations in rules(theme).items()
                if name in self.classes
            )

        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}"'
            f' width="{WIDTH}" height="{self.height}" role="img" aria-labelledby="title desc"'
            ' font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial,'
            ' sans-serif">'
        )
        style = (
            f'<style>{sheet("light")}@media(prefers-color-scheme:dark){{{sheet("dark")}}}</style>'
        )
        card = (
            f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}"'
            ' rx="10"/>'
        )
        text = "\n".join(
            [
                head,
                f'<title id="title">{escape(self.title)}</title>',
                f'<desc id="desc">{escape(self.description)}</desc>',
                style,
                card,
            ]
            + self.parts
            + ["</svg>", ""]
        )
        if len(text.encode()) > MOST_BYTES:
            raise ValueError(f"{self.name}: {len(text.encode())} bytes are more than {MOST_BYTES}")
        return text

    @property
    def path(self):
        """Where the figure lies."""
        return FOLDER / f"{self.name}.svg"
