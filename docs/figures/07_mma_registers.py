"""Figures of stages/07_mma_registers: the fragments, S that becomes P, what ldmatrix deals out."""

from drawing import Figure, LEFT, SMALL
from sources import lane_map

MAPS = "common/device/mma_fragments.h"
LANE = 13  # the one that the chapter follows
COLOURS = ("sky", "orange", "green", "purple")  # by the lane's place in its quad


def places(struct, elements):
    """(row, column) -> (lane, element) of a fragment."""
    fragment = lane_map(MAPS, struct)
    return {
        (fragment.row(lane, i), fragment.col(lane, i)): (lane, i)
        for lane in range(32)
        for i in range(elements)
    }


def draw(figure, x, y, cell, held, *, pair):
    """A fragment whose elements lie in pairs, with each pair's lane; pair is (rows, columns)."""
    width, height = cell[0] * pair[1], cell[1] * pair[0]
    rectangles = {colour: [] for colour in COLOURS}
    texts = []
    for (row, column), (lane, element) in sorted(held.items()):
        if element % 2 == 0:
            at = (x + column * cell[0], y + row * cell[1])
            rectangles[COLOURS[lane % 4]].append((*at, width, height))
            texts.append((at[0] + width / 2, at[1] + height / 2, lane))
    for colour, cells in rectangles.items():
        figure.cells(cells, colour)
    for at_x, at_y, lane in texts:
        figure.text(at_x, at_y, str(lane), SMALL, "middle", bold=lane == LANE)
    for (row, column), (lane, element) in sorted(held.items()):
        if lane == LANE and element % 2 == 0:
            figure.frame(x + column * cell[0], y + row * cell[1], width, height)


def fragments():
    """Which lane holds which element."""
    figure = Figure(
        "07_fragments",
        576,
        "The lane of each pair of elements",
        "Three grids: A of 16 by 16, B of 16 by 8, the accumulator of 16 by 8. Each pair of"
        " neighbouring elements bears the number of its lane. In A and the accumulator a row"
        f" belongs to four lanes. Lane {LANE} has a frame: four pairs of A, two of B, two of the"
        " accumulator.",
    )
    y = 120
    for x, name, size, struct, elements, cell, pair in (
        (24, "A", "16 × 16", "MmaA", 8, (15, 24), (1, 2)),
        (288, "B", "16 × 8", "MmaB", 4, (30, 24), (2, 1)),
        (556, "accumulator", "16 × 8", "MmaAccumulator", 4, (15, 24), (1, 2)),
    ):
        held = places(struct, elements)
        columns = 1 + max(column for _, column in held)
        middle = x + columns * cell[0] / 2
        figure.text(middle, y - 46, name, anchor="middle", bold=True)
        figure.note(middle, y - 20, size, "middle")
        draw(figure, x, y, cell, held, pair=pair)
    figure.text(
        LEFT,
        y + 16 * 24 + 26,
        "A cell is two neighbours: of a row, and in B of a column.",
        SMALL,
    )
    figure.note(LEFT, y + 16 * 24 + 50, f"Framed: lane {LANE}. Colours: the lane modulo 4.")
    return figure


def in_place():
    """Two accumulators are a left operand."""
    figure = Figure(
        "07_in_place",
        470,
        f"Lane {LANE}: its part of S is its part of P",
        f"Left: two accumulators of 16 by 8, for keys 0 to 7 and 8 to 15. Lane {LANE} holds two"
        " elements of two rows in each. Right: the left operand of 16 by 16. The same lane holds"
        " the same eight places, in four registers.",
    )
    cell, y = 16, 116
    accumulator = lane_map(MAPS, "MmaAccumulator")
    operand = lane_map(MAPS, "MmaA")
    left, right = 40, 424
    figure.text(left + 4 * cell, y - 22, "rS[2k]", SMALL, "middle", mono=True)
    figure.text(left + 12 * cell, y - 22, "rS[2k + 1]", SMALL, "middle", mono=True)
    figure.text(right + 8 * cell, y - 22, "rP[k]", SMALL, "middle", mono=True)
    numbers = []
    for n, colour in enumerate(COLOURS):
        figure.cells(
            [
                (
                    left + (n // 2 * 8 + accumulator.col(LANE, i)) * cell,
                    y + accumulator.row(LANE, i) * cell,
                    cell,
                    cell,
                )
                for i in (n % 2 * 2, n % 2 * 2 + 1)
            ],
            colour,
            full=True,
        )
        figure.cells(
            [
                (right + operand.col(LANE, i) * cell, y + operand.row(LANE, i) * cell, cell, cell)
                for i in (2 * n, 2 * n + 1)
            ],
            colour,
            full=True,
        )
        for x, row, column in (
            (left, accumulator.row(LANE, n % 2 * 2), n // 2 * 8 + accumulator.col(LANE, 0)),
            (right, operand.row(LANE, 2 * n), operand.col(LANE, 2 * n)),
        ):
            at = (x + (column + 2) * cell + 12, y + (row + 0.5) * cell)
            numbers.append((*at, str(n)))
    figure.grid(left, y, 16, 16, cell)
    figure.frame(left, y, 8 * cell, 16 * cell, line=2)
    figure.frame(left + 8 * cell, y, 8 * cell, 16 * cell, line=2)
    figure.grid(right, y, 16, 16, cell)
    figure.frame(right, y, 16 * cell, 16 * cell, line=2)
    for at_x, at_y, text in numbers:
        figure.text(at_x, at_y, text, SMALL, "middle", bold=True)
    figure.arrow([(left + 16 * cell + 14, y + 8 * cell), (right - 14, y + 8 * cell)])
    figure.text((left + 16 * cell + right) / 2, y + 8 * cell - 44, "exp2,", SMALL, "middle")
    figure.text((left + 16 * cell + right) / 2, y + 8 * cell - 20, "pack", SMALL, "middle")
    below = y + 16 * cell + 28
    figure.note(left + 4 * cell, below, "keys 0–7", "middle")
    figure.note(left + 12 * cell, below, "keys 8–15", "middle")
    figure.note(right + 8 * cell, below, "16 keys", "middle")
    figure.text(LEFT, below + 40, "The number: in which register of P the two elements end.", SMALL)
    return figure


def ldmatrix():
    """One matrix of 8 × 8, without and with .trans."""
    figure = Figure(
        "07_ldmatrix",
        440,
        "One matrix: addresses and data",
        "Two grids of 8 by 8 elements. Lanes 0 to 7 pass the addresses of the rows in both. Without .trans a lane"
        " receives two neighbours of a row; with .trans two neighbours of a column.",
    )
    received = lane_map(MAPS, "LdMatrix")
    y, cell = 128, 30
    plain = {
        (received.row(lane, i), received.col(lane, i)): (lane, i)
        for lane in range(32)
        for i in range(2)
    }
    turned = {(column, row): held for (row, column), held in plain.items()}
    for x, title, held, pair in (
        (96, "ldmatrix", plain, (1, 2)),
        (444, "ldmatrix .trans", turned, (2, 1)),
    ):
        figure.text(x + 4 * cell, y - 26, title, SMALL, "middle", mono=True)
        for row in range(8):
            figure.note(x - 12, y + (row + 0.5) * cell, f"{row} →", "end")
        draw(figure, x, y, (cell, cell), held, pair=pair)
    figure.text(LEFT, y + 8 * cell + 28, "Beside a row: the lane that passes its address.", SMALL)
    figure.text(
        LEFT, y + 8 * cell + 54, "In a cell: the lane that receives these two elements.", SMALL
    )
    return figure


FIGURES = [fragments(), in_place(), ldmatrix()]
