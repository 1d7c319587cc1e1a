"""What the figures take from the sources: constants, small pure functions, screens and results.

A figure that shows a tile's extent or a lane's row asks the kernel for it, so it changes when the
kernel does. The C++ understood here is what such lines need: integers, arithmetic, a conditional,
min and max.
"""

import json
import pathlib
import re
from types import SimpleNamespace

ROOT = pathlib.Path(__file__).resolve().parents[2]
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


def read(path):
    """The text of a file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def result(path):
    """A JSON file of the repository."""
    return json.loads(read(path))


def integer(path, name):
    """The constant with this name."""
    return int(re.search(rf"\b{name} = (\d+)", read(path))[1])


def tile_shape(kernel, head_dim):
    """The keys of a tile and the consumers of a block, of a kernel whose shape() has them first."""
    found = re.search(rf"case {head_dim}:\s+return \{{(\d+), (\d+), ", read(kernel))
    return tuple(map(int, found.groups()))


class Unsigned(int):
    """C++'s unsigned int: sums and differences wrap."""

    def __new__(cls, value):
        return super().__new__(cls, int(value) % 2**32)

    def __add__(self, other):
        return Unsigned(int(self) + int(other))

    def __sub__(self, other):
        return Unsigned(int(self) - int(other))


def python(expression):
    """A C++ expression as one of Python."""
    expression = re.sub(r"std::int64_t\{([^{}]*)\}", r"(\1)", expression)
    expression = expression.replace("static_cast<unsigned>", "Unsigned").replace(
        "static_cast<int>", "int"
    )
    expression = expression.replace("&&", " and ").replace("||", " or ")
    expression = re.sub(r"(?<!/)/(?!/)", "//", expression)
    conditional = re.fullmatch(r"(.+?)\?(.+):(.+)", expression, re.DOTALL)
    if conditional:
        test, yes, no = conditional.groups()
        expression = f"({yes}) if ({test}) else ({no})"
    return " ".join(expression.split())


def members(path, struct):
    """The text between the braces of a struct."""
    found = re.search(rf"struct {struct}\b[^{{]*\{{(.*?)\n\}};", read(path), re.DOTALL)
    if not found:
        raise ValueError(f"{path} has no struct {struct}")
    return found[1]


def constants(path, struct, **known):
    """The integers that a struct of constants declares, as attributes.

    Names that they need from elsewhere, such as kHeadDim, are given; sizeof(T) is `bytes`.
    """
    values = dict(known)
    for name, expression in re.findall(r"static constexpr int (\w+) = ([^;]+);", members(path, struct)):
        expression = expression.replace("sizeof(T)", str(known.get("bytes")))
        values[name] = eval(python(expression), {}, values)  # pylint: disable=eval-used
    return SimpleNamespace(**values)


def function(path, name, **known):
    """A small pure function of a source, to be called. It may call those that are given."""
    found = re.search(
        rf"(?:__forceinline__|constexpr) \w+ {name}\(([^)]*)\) \{{\s*(.*?)\s*\}}\n",
        read(path),
        re.DOTALL,
    )
    if not found:
        raise ValueError(f"{path} has no function {name}")
    parameters = [part.split()[-1].lstrip("&") for part in found[1].split(",")]
    *declarations, returned = [part.strip() for part in found[2].split(";") if part.strip()]
    if not returned.startswith("return "):
        raise ValueError(f"{path}: {name} does more than declare and return")
    returned = re.sub(r"^\{(.*)\}$", r"(\1)", returned.removeprefix("return "), flags=re.DOTALL)

    def call(*arguments):
        values = dict(zip(parameters, arguments, strict=True))
        names = {"Unsigned": Unsigned, "min": min, "max": max, "int": int, **known}
        for declaration in declarations:
            declared = re.sub(r"^const(?:expr)? \S+ ", "", declaration)
            for part in re.split(r",\s*(?=\w+ = )", declared):
                left, right = part.split(" = ", 1)
                values[left] = eval(python(right), names, values)  # pylint: disable=eval-used
        return eval(python(returned), names, values)  # pylint: disable=eval-used

    return call


def lane_map(path, struct):
    """A struct's row(lane, i) and col(lane, i) or row(lane) and col(lane), to be called."""
    result = {}
    for name, parameters, returned in re.findall(
        r"constexpr int (row|col)\(([^)]*)\) \{\s*return ([^;]+);", members(path, struct)
    ):
        names = ", ".join(
            part.replace("/*", "").replace("*/", "").split()[-1] for part in parameters.split(",")
        )
        result[name] = eval(f"lambda {names}: {python(returned)}")  # pylint: disable=eval-used
    return SimpleNamespace(**result)


def mask():
    """The functions of device/mask.h."""
    path = "common/device/mask.h"
    visible = function(path, "visible")
    return SimpleNamespace(
        visible=visible,
        all_visible=function(path, "all_visible", visible=visible),
        visible_keys=function(path, "visible_keys"),
        visible_queries=function(path, "visible_queries"),
    )


def causal(num_queries, num_keys):
    """The Sequence of a causal mask: as Band's constructor makes it."""
    last = num_keys - num_queries
    band = SimpleNamespace(
        first_diagonal=INT_MIN, last_diagonal=last, width=Unsigned(last - INT_MIN)
    )
    return SimpleNamespace(num_queries=num_queries, num_keys=num_keys, band=band)


def storage(screen, kernel):
    """A kernel's arrays in shared memory, from a screen of `ladder --map`."""
    arrays, current = [], None
    for line in read(f"docs/results/cpu-simulator/{screen}").splitlines():
        row = re.match(r"(\w+)?\s+(\w+)\s+((?:\[\d+\])+)\s+\d+ B\s+([\d,]+)\s+([\d,]+)", line)
        if row:
            current = row[1] or current
            if current == kernel:
                offset, size = (int(figure.replace(",", "")) for figure in row.groups()[3:])
                arrays.append(
                    SimpleNamespace(name=row[2], extents=row[3], offset=offset, bytes=size)
                )
    if not arrays:
        raise ValueError(f"{screen} has no kernel {kernel}")
    return arrays


def speeds(path, **wanted):
    """TFLOP/s of a result's timed rows that have these values, by stage."""
    return {
        row["stage"]: row["tflops"]
        for row in result(path)["rows"]
        if "tflops" in row and wanted.items() <= row.items()
    }


def first_queries(rows, seq):
    """The first query of each tile of queries of a head, where the last tile is full."""
    tiles = -(-seq // rows)
    first_query = function("common/device/warpgroup.h", "first_query", kWgmmaM=64)
    return [first_query(seq, rows, tiles, tile) for tile in range(tiles)]
