#!/usr/bin/env python3
"""Puts measured figures into the Markdown pages.

A page says which result it shows, and this script writes the table between the markers:

    <!-- results docs/results/nvidia-h200/ladder.json 01_naive -->
    <!-- end results -->

The first word is a JSON file that `ladder --json` wrote, relative to the repository. The others say
which rows to show: stages, passes, problems, in any order; a row must match one of each kind that is
named. Behind a colon the marker may name the columns to show, by their titles, in the table's order:

    <!-- results docs/results/nvidia-h200/kernels.json 01_naive : time, issue slots used -->
    <!-- end results -->

The columns that say which row it is are always there, and without a list so are all others but
those of EXTRA. *Share of ceiling* is empty for a result from before that column existed. With the word
`step` the table has the time of the stage before and this stage's. For a file of `ceilings` the words
are figures. For a file of bench/peers/peers.py
the words are passes, dtypes, head dimensions, s512, causal, full, stages (each with both of its
schedules), peers, and the kind of table: speeds, summary, costs or places. Without a head dimension,
d64, the table has those of the matrix, d64 and d128; d96 and d256 must be named. For one of
bench/calls/calls.py they are attention, torch.compile or library. For one of variants.py they
are head dimensions, and `relative`: speeds as multiples of that of the stage as it is. For one of
bench/timeline the word is a head dimension, for bench/peers/standard.py's it is speeds or memory.
A file that does not exist leaves a sentence in place of the table.
`<!-- screen FILE -->` shows the output of a program, FILE.txt, or a FILE.patch.

These markers surround a piece of source code:

    <!-- code stages/01_naive/kernel.cuh output -->
    <!-- code stages/01_naive/kernel_bwd.cuh key_value_gradient // Find the weights -->
    <!-- end code -->

The first is a function, lambda or struct with this name, whole, with the comment above it. The
second is a paragraph, of a function if one is named: it begins with the one comment that contains
the words, its title, and ends at the next blank line, or the end of the block around it, at which
every brace opened in the paragraph is closed.

The numbers in prose that figures_in_text.py describes are renewed, too.

Without arguments every tracked page is rewritten. With --check nothing is written, and the exit
status is 1 if a page differs from its result.
"""
import json
import operator
import pathlib
import re
import sys

import figures_in_text
from repository import ROOT, files

sys.path[:0] = [str(ROOT / "bench/peers"), str(ROOT / "bench/timeline")]
import spans  # noqa: E402, it lies there
import tables  # noqa: E402, it lies there
from tables import three_digits  # noqa: E402
import variants_table  # noqa: E402
RESULTS = re.compile(
    r"(<!-- results (\S+)((?: (?!:)\S+)*)(?: : ([^\n]+?))? -->\n).*?(<!-- end results -->)", re.DOTALL)
CODE = re.compile(r"(<!-- code (\S+) (.+?) -->\n).*?(<!-- end code -->)", re.DOTALL)
LANGUAGES = {".cu": "cuda", ".cuh": "cuda", ".h": "cpp", ".cpp": "cpp", ".c": "c", ".py": "python",
             ".sh": "sh", ".patch": "diff"}
# Comments and literals, in which a brace does not count.
NO_BRACES = re.compile(r'//.*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'')
SCREEN = re.compile(r"(<!-- screen (\S+) -->\n).*?(<!-- end screen -->)", re.DOTALL)


def decimal_bytes(count):
    """1234567 -> '1.23 MB', as the ladder prints."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5 or unit == "GB":
            return f"{count:.3g} {unit}"
        count /= 1000


def decimal_count(count):
    """31744 -> '31.7k', as the ladder prints."""
    for unit in ("", "k", "M", "G"):
        if count < 999.5 or unit == "G":
            return f"{count:.3g}{unit}"
        count /= 1000


def microseconds(value):
    """12.345 -> '12.3 µs'."""
    return f"{three_digits(value)} µs"


def percent(value):
    """55.3 -> '55 %', with a space at which no line ends."""
    return f"{value:.0f}\N{NO-BREAK SPACE}%"


COLUMNS = [
    ("S", "seq", str),
    ("", "way", str),
    ("forward", "forward_us", microseconds),
    ("forward and backward", "pair_us", microseconds),
    ("CPU time", "host_us", microseconds),
    ("figure", "figure", lambda name: f"`{name}`"),
    ("measures", "what", str),
    ("rate", "rate_and_unit", str),
    ("per SM and cycle", "per_clock_and_sm", three_digits),
    ("per SM and ns", "per_ns_and_sm", three_digits),
    ("share", "share_and_whole", str),
    ("compared with", "beside_and_rate", str),
    ("stage", "stage", str),
    ("pass", "pass", str),
    ("problem", "problem", lambda name: f"`{name}`"),
    ("kernel", "kernel", lambda name: f"`{name}`"),
    ("error / limit", "error_over_limit", lambda value: f"{value:.2f}"),
    ("extra memory", "extra_bytes", decimal_bytes),
    ("requested reads", "requested_read_bytes", decimal_bytes),
    ("requested writes", "requested_write_bytes", decimal_bytes),
    ("bank conflicts", "bank_conflicts", decimal_count),
    ("shared memory", "shared_bytes", decimal_bytes),
    ("time", "ms", lambda value: f"{three_digits(value)} ms"),
    ("DRAM read", "dram_read_bytes", decimal_bytes),
    ("DRAM written", "dram_write_bytes", decimal_bytes),
    ("L1 and shared memory busy", "l1_percent", percent),
    ("issue slots used", "issue_percent", percent),
    ("busiest unit", "sm_percent", percent),
    ("instructions", "instructions", decimal_count),
    ("clock", "clock_ghz", lambda value: f"{value:.2f} GHz"),
    ("stall reasons", "waits", lambda waits: ", ".join(
        f"{reason.replace('_', ' ')} {percent(share)}" for reason, share in waits.items())),
    ("wavefronts per shared load", "passes_a_load", lambda value: f"{value:.2f}"),
    ("sectors read", "global_read_sectors", str),
    ("sectors written", "global_write_sectors", str),
    ("wavefronts of shared memory", "shared_wavefronts", str),
    ("TFLOP/s", "tflops", lambda value: f"{value:.3g}"),
    ("share of ceiling", "ceiling_and_share", str),
    ("speed", "gain", str),
    ("not run", "skipped", str),
]

# Those that say which row it is.
NAMES = {"stage", "pass", "problem", "kernel"}
# Columns that a marker must name. Nsight Compute's shared_loads leave out those of fragments.
EXTRA = {"wavefronts per shared load", "share of ceiling", "busiest unit"}

LADDER_KINDS = [operator.itemgetter(kind) for kind in ("stage", "pass", "problem")]
CALL_KINDS = [operator.itemgetter("table")]
CEILING_KINDS = [operator.itemgetter("figure")]


def chosen(rows, words, kinds):
    """The rows that match one of the words of each kind that is named. A kind is a function that
    returns a row's word, or None for a row to which it does not apply."""
    for kind in kinds:
        known = {kind(row) for row in rows}
        wanted = [word for word in words if word in known]
        words = [word for word in words if word not in known]
        rows = [row for row in rows if not wanted or kind(row) in wanted + [None]]
    return [] if words else rows


def add_gains(rows, everything):
    """Adds how much faster each row is than the stage before it in the same pass and problem; for a
    local stage, 9x, than the last stage that the table shows."""
    for row in rows:
        others = rows if row["stage"] >= "9" else everything
        before = [other for other in others if "tflops" in other
                  and other["stage"] < min(row["stage"], "9")
                  and (other["pass"], other["problem"]) == (row["pass"], row["problem"])]
        if before and "tflops" in row:
            row["before"] = before[-1]
            row["gain"] = f"{row['tflops'] / before[-1]['tflops']:.2f} × {before[-1]['stage'][:2]}'s"


# What else peers.json, beside a result of `ceilings`, has of a figure.
BESIDE = {"mma_f16": ("PyTorch's f16 matmul", "matmul_f16_tflops"),
          "wgmma_f16": ("PyTorch's f16 matmul", "matmul_f16_tflops"),
          "ffma": ("PyTorch's f32 matmul", "matmul_f32_tflops"),
          "copy": ("PyTorch's copy", "copy_tbs")}


def with_units(row, peers):
    """A row of `ceilings` with the texts that a table shows; `peers` is what BESIDE names."""
    row = dict(row)
    if "rate" in row:
        row["rate_and_unit"] = f"{three_digits(row['rate'])} {row['unit']}"
    if "share" in row:
        row["share_and_whole"] = f"{percent(100 * row['share'])} of `{row['whole']}`"
    if row["figure"] in BESIDE:
        what, key = BESIDE[row["figure"]]
        row["beside_and_rate"] = f"{what}: {three_digits(peers[key])}"
    return row


def share_of_ceiling(row):
    """'61 % `ffma`'; empty for a result that has no ceiling."""
    if "ceiling" not in row:
        return ""
    return f"{percent(100 * row['ceiling_share'])} `{row['ceiling']}`"


def ladder_table(rows, everything, wanted):
    """The Markdown table of a ladder's rows, and a line with the values that are equal in all."""
    add_gains(rows, everything)
    for row in rows:
        if "error" in row:
            row["error_over_limit"] = row["error"] / row["limit"]
        if "shared_loads" in row and "wavefronts per shared load" in wanted:
            row["passes_a_load"] = row["shared_load_passes"] / row["shared_loads"]
        if "tflops" in row:
            row["ceiling_and_share"] = share_of_ceiling(row)
    # A value that is the same in every row goes under the table.
    same = [key for key in ("stage", "pass", "problem") if len({row[key] for row in rows}) == 1]
    if len(same) == 3:
        same = same[1:]
    facts = [f"`{rows[0][key]}`" if key == "problem" else rows[0][key] for key in same]
    return plain_table(rows, same, wanted), facts


def plain_table(rows, left_out=(), wanted=()):
    """The Markdown table of rows, with the columns that are in some of them."""
    columns = [c for c in COLUMNS if c[1] not in left_out and any(c[1] in row for row in rows)]
    if wanted:
        columns = [c for c in columns if c[1] in NAMES or c[0] in wanted]
    else:
        columns = [c for c in columns if c[0] not in EXTRA]
    missing = [title for title in wanted if title not in [c[0] for c in columns]]
    if missing:
        raise SystemExit(f"no row has the column {' or '.join(missing)}")
    lines = [[show(row[key]) if key in row else "" for _, key, show in columns] for row in rows]
    return tables.markdown([title for title, _, _ in columns], lines)


def step_table(rows, everything):
    """How long the passes of a stage take, and those of the stage before it."""
    timed = [row for row in rows if "ms" in row]
    add_gains(timed, everything)
    lines = []
    for row in timed:
        before = row.get("before")
        lines.append([row["pass"], f"{before['stage'][:2]}: {three_digits(before['ms'])} ms" if before else "–",
                      f"{three_digits(row['ms'])} ms", f"{before['ms'] / row['ms']:.2f} ×" if before else "–",
                      share_of_ceiling(row)])
    ceiling = "[share of ceiling](../../docs/prologue/README.md#two-gpus-and-the-roofline)"
    titles = ["pass", "stage before", "this stage", "speed-up", ceiling]
    return tables.markdown(titles, lines), [f"`{timed[0]['problem']}`"]


def origin(where):
    """The machine and the sources, for a table's last line."""
    facts = [where["device"]]
    if where["backend"] == "cuda":
        facts += [f"driver {re.split(', (?:supports|knows) ', where['driver'])[0]}"]
    facts += [where["tool"]] if "tool" in where else []
    facts += [f"CUDA {where['cuda']}"] if where.get("cuda", "none") != "none" else []
    facts += [f"PyTorch {where['torch']}, cuDNN {where['cudnn']}"] if "torch" in where else []
    facts += where.get("packages", [])
    return facts + [f"commit {where['commit']}", where["date"][:10]]


def timeline_tables(result, head_dim):
    """Two Markdown tables of a timeline: its warpgroups' time, and the multiprocessor's."""
    timeline = spans.chosen(result, head_dim)
    computing = [lane for lane in timeline["lanes"] if "parts" in lane]
    shown = [name for name in spans.PARTS
             if name != spans.FOR_A_TURN or any(lane["parts"][name] for lane in computing)]
    lines = [[lane["block"], lane["name"], f"{lane['cycles']:.0f}",
              *(percent(100 * part / lane["cycles"])
                for part in (*(lane["parts"][name] for name in shown), lane["other"]))]
             for lane in computing]
    facts = [f"`{timeline['problem']}`", f"{timeline['clock_ghz']:.2f} GHz",
             percent(100 * timeline["products_in_flight"]),
             " / ".join(percent(100 * share) for share in timeline["softmaxes_at_once"]),
             f"{timeline['recorded_ms']:.3g} ms",
             f"{timeline['plain_ms']:.3g} ms" if "plain_ms" in timeline else ""]
    return tables.markdown(["block", "warpgroup", "cycles per tile", *shown, "other"], lines) + \
        "\n\n" + tables.markdown(["problem", "clock", "product in flight",
                                  "softmaxes at once: 0 / 1 / …", "time, recorded",
                                  "time, not recorded"], [facts])


def table(path, words, wanted=()):
    """The Markdown table of one result file, with its provenance under it."""
    if not (ROOT / path).is_file():
        return f"Not measured yet: there is no `{path}`.\n"
    result = json.loads((ROOT / path).read_text(encoding="utf-8"))
    if "timelines" in result:
        text = timeline_tables(result, words[0].removeprefix("d"))
        return text + "\n\n" + ", ".join(origin(result["provenance"]) + [f"`{path}`"]) + ".\n"
    if "memory" in result:
        text = tables.STANDARD_VIEWS[words[0]](result)
        return text + "\n\n" + ", ".join(origin(result["provenance"]) + [f"`{path}`"]) + ".\n"
    of_peers, of_calls = "ceilings" in result, "way" in result["rows"][0]
    of_ceilings = "figure" in result["rows"][0]
    plain = of_calls or of_ceilings
    if "variant" in result["rows"][0]:
        facts = [f"{result['rows'][0].get('pass', 'forward')}, f16", *origin(result["provenance"]), f"`{path}`"]
        return variants_table.markdown(result["rows"], words) + "\n\n" + ", ".join(facts) + ".\n"
    views = [word for word in words if of_peers and word in tables.VIEWS] or ["speeds"]
    of_step = "step" in words
    words = [word for word in words if word not in [*views, "step"]]
    everything = tables.rows_of(result) if of_peers else result["rows"]
    if of_peers and not any(re.fullmatch(r"d\d+", word) for word in words):
        everything = tables.with_head_dim(everything, tables.HEAD_DIMS)
    if of_ceilings:
        peers = json.loads((ROOT / path).with_name("peers.json").read_text(encoding="utf-8"))
        everything = [with_units(row, peers["ceilings"]) for row in everything]
    kinds = (tables.KINDS if of_peers else CALL_KINDS if of_calls else CEILING_KINDS if of_ceilings
             else LADDER_KINDS)
    rows = chosen(everything, words, kinds)
    if not rows:
        raise SystemExit(f"{path} has no row for {' '.join(words)}")
    facts = []
    if wanted and (of_peers or plain):
        raise SystemExit(f"{path} takes no list of columns")
    if of_peers:
        text = "\n\n".join(tables.VIEWS[view](rows) for view in views)
    elif plain:
        text = plain_table(rows)
    elif of_step:
        text, facts = step_table(rows, everything)
    else:
        text, facts = ladder_table(rows, everything, wanted)
    facts += [result["provenance"]["device"]] if of_step else origin(result["provenance"])
    facts += [f"`{path}`"]
    return text + "\n\n" + ", ".join(facts) + ".\n"


def screen(path):
    """A program's output, or a patch, as a Markdown block."""
    return f"```{LANGUAGES.get(pathlib.Path(path).suffix, 'text')}\n" + (ROOT / path).read_text(encoding="utf-8").strip() + "\n```\n"


def end_of(lines, begin, is_over):
    """The number of the first line from `begin` on at which every brace is closed and is_over() is
    true; it is given what stands in the lines up to this one, without comments, and the next one."""
    text, depth = "", 0
    for end, line in enumerate(lines[begin:], begin):
        bare = NO_BRACES.sub("", line)
        text += bare
        depth += bare.count("{") - bare.count("}")
        after = lines[end + 1].strip() if end + 1 < len(lines) else ""
        if depth <= 0 and is_over(text, after):
            break
    return end


def declaration(lines, name):
    """The numbers of the first and the last line of a function, lambda or struct, with its comment."""
    declares = re.compile(rf"(?!\s*return )(?:[^/;=(]*\s)?(?:struct {name}\b|{name}\(|auto {name} = \[)")
    for begin, line in enumerate(lines):
        if declares.match(line):
            end = end_of(lines, begin, lambda text, _: text.rstrip().endswith(("}", ";")))
            if NO_BRACES.sub("", lines[end]).rstrip("; ").endswith("}"):  # not a call
                while begin > 0 and lines[begin - 1].strip() and lines[begin - 1][-1] not in "{};:":
                    begin -= 1
                yield begin, end


def paragraph(lines, title):
    """The numbers of the first and the last line of a paragraph with this title."""
    for begin, line in enumerate(lines):
        if re.match(r"\s*//", line) and title in line:
            yield begin, end_of(lines, begin, lambda _, after: not after or after.startswith("}"))


def piece(lines, name, title):
    """The lines of a declaration, or of a paragraph in it, without their common indentation; None if
    there is not exactly one."""
    for find, words in ((declaration, name), (paragraph, title)):
        if words:
            found = list(find(lines, words))
            if len(found) != 1:
                return None
            lines = lines[found[0][0]:found[0][1] + 1]
    # A preprocessor's line stands at the margin wherever it is.
    margin = min(len(line) - len(line.lstrip()) for line in lines
                 if line.strip() and not line.startswith("#"))
    return "\n".join(line if line.startswith("#") else line[margin:] for line in lines)


def code(path, words):
    """A piece of a source file as a Markdown block."""
    name, _, title = words.partition("//")
    text = piece((ROOT / path).read_text(encoding="utf-8").splitlines(), name.strip(), title.strip())
    if text is None:
        raise SystemExit(f"not exactly one piece of {path} is: {words}")
    return f"```{LANGUAGES[pathlib.Path(path).suffix]}\n{text}\n```\n"


def main():
    """Rewrites or checks every tracked Markdown page."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        raise SystemExit(__doc__)
    stale = []
    for name in files("*.md"):
        page = ROOT / name
        old = page.read_text(encoding="utf-8")
        new = RESULTS.sub(
            lambda m: m[1] + table(m[2], m[3].split(), m[4].split(", ") if m[4] else ()) + m[5], old)
        new = SCREEN.sub(lambda m: m[1] + screen(m[2]) + m[3], new)
        new = figures_in_text.renewed(CODE.sub(lambda m: m[1] + code(m[2], m[3]) + m[4], new))
        if new != old:
            stale.append(name)
            if not check:
                page.write_text(new, encoding="utf-8")
    if check and stale:
        raise SystemExit(f"figures differ from their results in: {' '.join(stale)}\n"
                         "run: python3 scripts/maintainer/update_pages.py")
    for name in stale:
        print(f"rewrote {name}")


if __name__ == "__main__":
    main()
