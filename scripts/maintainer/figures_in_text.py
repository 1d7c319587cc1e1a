#!/usr/bin/env python3
"""Numbers in prose that come from the committed results, by a marker around each:

    <!--= ms("13_ping_pong") / ms("14_persistent") -->1.14<!----> times as fast

The first part is a Python expression over the functions below and the constants of docs/constants.txt. The text has one
number; update_pages.py writes the value there with as many decimals. A marker does not begin a line: Markdown would
end the paragraph there. Results are named by folder and file:
"nvidia-h200/ladder" is docs/results/nvidia-h200/ladder.json.

    scripts/maintainer/figures_in_text.py [PAGE...]

names the numbers with a unit or a × that stand in the prose of a section with results without a marker, and are no
constant of docs/constants.txt either. Without a page it looks at all but the notebooks, whose entries are dated.
"""
import functools
import json
import pathlib
import re
import sys

from repository import ROOT, files

sys.path.append(str(ROOT / "bench/peers"))
import tables  # noqa: E402, it lies there

MARKER = re.compile(r"(<!--= (.+?) -->)(.*?)(<!---->)", re.DOTALL)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
CONSTANT = re.compile(r"(\w+) = ([\d.e]+) ?(\S*) *#")
LADDER = "nvidia-h200/ladder"
UNITS = r"×|%|[mµn]?s|TFLOP/s|TFLOPs?|[kMG]B|TB|[GT]B/s|[MG]Hz|cycles|clocks"
FIGURE = re.compile(rf"(?<![\w.,])\d[\d,]*(?:(?:\.\d+)?[\s\N{{NO-BREAK SPACE}}](?:{UNITS})|\.\d+\stimes)(?![\w/])(?!\s\d)")
# What is no prose: results, other generated pieces, listings, tables, markers with their numbers, code, formulas, comments.
NO_PROSE = re.compile(r"<!-- (results|code|screen) .*?<!-- end \1 -->|^```.*?^```|^\|.*?$|<!--= .*?<!---->|`[^`]*`"
                      r"|\$[^$]+\$|<!--.*?-->", re.DOTALL | re.MULTILINE)


@functools.cache
def load(file):
    """A result file."""
    return json.loads((ROOT / f"docs/results/{file}.json").read_text(encoding="utf-8"))


def row(file, **where):
    """The one row of a result that has these values; of peers, a row for each implementation, `impl`."""
    result = load(file)
    rows = tables.rows_of(result) if "ceilings" in result else result["rows"]
    found = [one for one in rows if all(one.get(key) == value for key, value in where.items())]
    if len(found) != 1:
        raise SystemExit(f"{file} has {len(found)} rows with {where}")
    return found[0]


def timed(stage, which="forward", file=LADDER):
    """The row of the ladder in which a pass of a stage is timed."""
    found = [one for one in load(file)["rows"] if (one["stage"], one["pass"]) == (stage, which) and "ms" in one]
    if len(found) != 1:
        raise SystemExit(f"{file} times {stage}, {which}, {len(found)} times")
    return found[0]


def ms(stage, which="forward", file=LADDER):
    """Milliseconds of a pass in the ladder."""
    return timed(stage, which, file)["ms"]


def tflops(stage, which="forward", file=LADDER):
    """TFLOP/s of a pass in the ladder."""
    return timed(stage, which, file)["tflops"]


def share(stage, which="forward", file=LADDER):
    """Per cent of its ceiling that a pass in the ladder reaches."""
    return 100 * timed(stage, which, file)["ceiling_share"]


def kernel(stage, name, file="nvidia-h200/kernels", **where):
    """The row of Nsight Compute for the kernel of a stage whose name contains `name`."""
    named = [one for one in load(file)["rows"] if one["stage"] == stage and name in one["kernel"]
             and all(one.get(key) == value for key, value in where.items())]
    if len(named) != 1:
        raise SystemExit(f"{file} has {len(named)} rows of {stage} with {name} in the kernel's name")
    return named[0]


def cells(file, which, head_dims, causal):
    """The cells of a result of peers.py; the best peer's speed as "best"."""
    rows = [one for one in tables.with_head_dim(tables.rows_of(load(file)), head_dims)
            if one["pass"] == which and causal in (None, one["causal"])]
    return {key: {**cell, "best": max(cell[name] for name in cell if name in tables.PEERS)}
            for key, cell in tables.by_cell(rows).items()}


def ratio(name, peer="best", file="nvidia-h200/peers", which="forward", head_dims=(64, 128), causal=None):
    """How many times as fast as a peer an implementation is: harmonic means over the cells that both ran."""
    return tables.ratio(cells(file, which, head_dims, causal), name, peer)[0]


def ratios(name, peer="best", file="nvidia-h200/peers", which="forward", head_dims=(64, 128), causal=None):
    """The same in each of these cells."""
    return [cell[name] / cell[peer] for cell in cells(file, which, head_dims, causal).values()
            if name in cell and peer in cell]


def constants():
    """{name: (value, text with its unit)} of docs/constants.txt."""
    found = CONSTANT.findall((ROOT / "docs/constants.txt").read_text(encoding="utf-8"))
    return {name: (float(value), f"{value} {unit}".strip()) for name, value, unit in found}


@functools.cache
def names():
    """What an expression may use."""
    functions = (load, row, ms, tflops, share, kernel, ratio, ratios, min, max, sum, abs, len)
    return {"__builtins__": {}, **{function.__name__: function for function in functions},
            **{name: value for name, (value, _) in constants().items()}}


def number(value, like):
    """The value as text, with as many decimals as `like` has."""
    decimals = len(like.partition(".")[2])
    return f"{value:,.{decimals}f}" if "," in like or value >= 9999.5 else f"{value:.{decimals}f}"


def renewed(text):
    """A page with the numbers that its markers stand for."""
    def renew(found):
        before, expression, shown, after = found.groups()
        if len(NUMBER.findall(shown)) != 1:
            raise SystemExit(f"not exactly one number: {found[0]}")
        try:
            value = eval(" ".join(expression.split()), names())  # pylint: disable=eval-used
        except (NameError, SyntaxError, KeyError, TypeError, ZeroDivisionError) as error:
            raise SystemExit(f"{found[0]}: {error}") from error
        return before + NUMBER.sub(lambda old: number(value, old[0]), shown) + after
    if found := re.search(r"^ *<!--= .*", text, re.MULTILINE):
        raise SystemExit(f"a line begins with a marker: {found[0]}")
    return MARKER.sub(renew, text)


def loose(text):
    """The numbers with a unit in the prose of sections with results, without markers or constants."""
    known = {shown for _, shown in constants().values()}
    for section in re.split(r"^(?=##+ )", text, flags=re.MULTILINE):
        if "<!-- results" in section:
            for found in FIGURE.findall(NO_PROSE.sub(" ", section)):
                if " ".join(found.split()) not in known:
                    yield " ".join(found.split())


def main():
    pages = sys.argv[1:] or [page for page in files("*.md") if not page.endswith("NOTEBOOK.md")]
    return "\n".join(f"{page}: {figure}" for page in pages
                     for figure in loose(pathlib.Path(page).read_text(encoding="utf-8"))) or None


if __name__ == "__main__":
    sys.exit(main())
