"""The Markdown table of a file of variants.py: a row for each variant, a column for each problem."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/peers"))
import tables  # noqa: E402, it lies there

RELATIVE = "relative"  # the word for speeds as multiples of the stage's own
LAYOUTS = {"": "", "bshd": "[B, S, H, D]"}


def title(problem):
    """'b16_h32_q1024k1024_d64_f16_causal_bshd' -> 'D 64, S 1,024, causal, [B, S, H, D]'."""
    seq, dim, causal, layout, in_order = re.fullmatch(
        r"b\d+_h\d+_q(\d+)k\1_d(\d+)_f16(?:_(causal))?(?:_(bshd))?(?:_(deterministic))?", problem).groups("")
    return ", ".join(filter(None, (f"D {dim}", f"S {int(seq):,}", causal, LAYOUTS[layout], in_order)))


def head_dim(row):
    """'d64'."""
    return re.search(r"_(d\d+)_", row["problem"])[1]


def speed(row):
    """A variant's speed as a multiple of the stage's own, with half of its interval where that is more
    than 0.001."""
    half = round(row["spread"] / row["ratio"]**2, 3)
    return f"{1 / row['ratio']:.3f}" + (f" ± {half:.3f}" if half > 0.001 else "")


def markdown(rows, words):
    """The table of the problems with the head dimensions that the words name, or of all."""
    dims = [word for word in words if word != RELATIVE]
    rows = [row for row in rows if not dims or head_dim(row) in dims]
    if missing := set(dims) - {head_dim(row) for row in rows}:
        raise SystemExit(f"no variant was timed with {' or '.join(sorted(missing))}")
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    found = {(row["variant"], row["problem"]): row for row in rows}

    def cell(variant, problem):
        row = found.get((variant, problem))
        if row is None or "failed" in row:
            return "" if row is None else row["failed"]
        if "ratio" not in row:
            return f"{row['tflops']:.3g}"
        return f"{speed(row)} ×" if RELATIVE in words else f"{row['tflops']:.3g} ({speed(row)} ×)"

    def name(variant):
        noted = {f"{head_dim(row)[0].upper()} {head_dim(row)[1:]}: {', '.join(row['notes'])}": None
                 for row in rows if row["variant"] == variant and "notes" in row}
        text = variant + (", in TFLOP/s" if RELATIVE in words and variant == variants[0] else "")
        return text + (f" ({'; '.join(noted)})" if noted else "")

    return tables.markdown(["variant" if RELATIVE in words else "variant, TFLOP/s", *map(title, problems)],
                           [[name(variant), *(cell(variant, problem) for problem in problems)]
                            for variant in variants])
