"""A figure of stages/21_paged_kv: two block tables and the pool of pages that they share."""

from drawing import Figure, LEFT, SMALL
from flow import in_order
from sources import read

TABLES = ((7, 2, 5, 0, 8), (7, 2, 3, 6))
PAGES = 9
COLOURS = ("sky", "orange")


def check():
    """The stage looks up a page as the figure shows."""
    in_order(read("stages/21_paged_kv/pages.cuh"), "const int entry = j / size;", "__ldg(table + entry)", "j % size")


def colour_of(page):
    """The colour of the sequence that has the page, or of a page that both have, or of a free one."""
    owners = [colour for table, colour in zip(TABLES, COLOURS) if page in table]
    return "purple" if len(owners) == 2 else owners[0] if owners else "paper"


def pages():
    """The tables above the pool."""
    cell, left, top = 60, 150, 84
    figure = Figure(
        "21_pages", 0, "Two sequences in one pool of pages",
        "The block table of sequence 0 names pages " + ", ".join(map(str, TABLES[0]))
        + ", that of sequence 1 pages " + ", ".join(map(str, TABLES[1]))
        + f". The pool has {PAGES} pages. Pages 7 and 2 belong to both, page 1 and 4 to none.")
    for number, table in enumerate(TABLES):
        y = top + 56 * number
        figure.text(LEFT, y + 20, f"sequence {number}", SMALL)
        for entry, page in enumerate(table):
            figure.box(left + cell * entry, y, cell - 6, 40, colour_of(page), str(page), SMALL)
    low = top + 56 * len(TABLES) + 34
    figure.text(LEFT, low + 24, "pool", SMALL)
    for page in range(PAGES):
        figure.box(left + cell * page, low, cell - 6, 48, colour_of(page), str(page), SMALL)
    figure.legend(LEFT, low + 78, [("sky", "of sequence 0"), ("orange", "of sequence 1"), ("purple", "of both"),
                                   ("paper", "free")])
    figure.height = low + 120
    return figure


check()
FIGURES = [pages()]
