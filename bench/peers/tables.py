"""The tables of bench/peers/peers.py's result, for its own output and for pages.

A row of the result is a cell of the matrix. Its "tflops" have [the median of the rounds, their range as
a share of it] of each implementation that ran, and its "not_run" a sentence for each that did not.
"""
import statistics

WRONG = "wrong: "  # begins the sentence for one whose outputs are off
DETERMINISTIC = ", deterministic"  # ends the name of a stage with the same bits in every run
FLASH_ATTENTION = ("fa3", "fa4")  # where they are installed
STANDARD = "standard"  # standard.py's: softmax(Q Kᵀ) V in PyTorch's operations
PEERS = ("fa2", *FLASH_ATTENTION, "cudnn", "efficient", "math")

HEAD_DIMS = (64, 128)           # of the matrix, over which summaries are defined
MORE_HEAD_DIMS = (32, 96, 256)  # in tables of their own

# What a word of a marker may name. A kind that does not apply to a row keeps the row.
KINDS = (
    lambda row: row["pass"],
    lambda row: row["dtype"],
    lambda row: f"d{row['head_dim']}",
    lambda row: f"s{row['seq']}",
    lambda row: "causal" if row["causal"] else "full",
    lambda row: row["impl"] if row["impl"] in PEERS else None,
    lambda row: None if row["impl"] in PEERS else stage_of(row["impl"])[0],
)


def package_of(name, direction, dtype):
    """The package of a pass of FlashAttention-3 or 4 (flash_attention.py); None for the other peers."""
    if name == "fa3":
        return "fa3_fwd_interface" if (direction, dtype) == ("forward", "bf16") else "dew_flash_attn"
    return "flash_attn.cute" if name == "fa4" else None


def stage_of(name):
    """The stage that an implementation's name names, and whether its calls are deterministic."""
    return name.removesuffix(DETERMINISTIC), name.endswith(DETERMINISTIC)


def rows_of(result):
    """A row for each implementation that ran a cell."""
    return [{**cell, "impl": name, "tflops": speed, "spread": spread}
            for cell in result["rows"] for name, (speed, spread) in cell["tflops"].items()]


def with_head_dim(rows, head_dims):
    """The rows with one of these head dimensions."""
    return [row for row in rows if row["head_dim"] in head_dims]


def markdown(titles, lines):
    """A Markdown table."""
    rows = [titles, ["---"] * len(titles), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def three_digits(value):
    """The value with three digits: 0.829, 15.5, 663."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def unique(values):
    """The values without repetition, in the order of first appearance."""
    return list(dict.fromkeys(values))


def in_order(rows):
    """The implementations: the peers, then the stages."""
    names = unique(row["impl"] for row in rows)
    return [name for name in PEERS if name in names] + sorted(
        name for name in names if name not in PEERS)


def by_cell(rows):
    """{(head_dim, causal, seq): {impl: TFLOP/s}}, sorted."""
    cells = {}
    for row in rows:
        key = row["head_dim"], row["causal"], row["seq"]
        cells.setdefault(key, {})[row["impl"]] = row["tflops"]
    return dict(sorted(cells.items()))


def by_series(rows):
    """{(pass, dtype): rows}."""
    series = {}
    for row in rows:
        series.setdefault((row["pass"], row["dtype"]), []).append(row)
    return series


# ---- TFLOP/s -----------------------------------------------------------------------------------

def speeds(rows):
    """A table for each pass and dtype, with a line for each cell of the matrix and a column for
    each implementation."""
    tables = []
    for (direction, dtype), series in by_series(rows).items():
        names = in_order(series)
        lines = [[head_dim, "yes" if causal else "no", seq] +
                 [three_digits(cell[name]) if name in cell else "–" for name in names]
                 for (head_dim, causal, seq), cell in by_cell(series).items()]
        tables.append(f"{direction.capitalize()}, {dtype}, TFLOP/s:\n\n"
                      + markdown(["D", "causal", "S", *names], lines))
    return "\n\n".join(tables)


# ---- Ratios ------------------------------------------------------------------------------------

def ratio(cells, name, peer):
    """The speed of `name` as a multiple of `peer`'s (harmonic means of TFLOP/s over the cells that both
    ran), the smallest multiple in one of these cells, and their number."""
    both = [(cell[name], cell[peer])
            for cell in cells.values() if name in cell and peer in cell]
    if not both:
        return None, None, 0
    means = [statistics.harmonic_mean(speeds_of_one) for speeds_of_one in zip(*both)]
    return means[0] / means[1], min(own / other for own, other in both), len(both)


def causal_costs(cells, name):
    """{(head_dim, seq): time with the mask, for half of the work, over time without it}."""
    return {(head_dim, seq): cells[head_dim, False, seq][name] / cell[name] / 2
            for (head_dim, causal, seq), cell in cells.items()
            if causal and name in cell and name in cells.get((head_dim, False, seq), {})}


def show_ratio(value, least, count):
    """A ratio, the minimum in a cell and the number of cells: 0.83 (0.71; 24)."""
    return f"{value:.2f} ({least:.2f}; {count})" if count else "–"


def summary(rows):
    """The speed of each stage relative to each peer, and its cost of a causal mask."""
    lines = []
    names = in_order(rows)
    peers = [name for name in names if name in PEERS]
    for (direction, dtype), series in by_series(rows).items():
        cells = by_cell(series)
        for name in in_order(series):
            if name in PEERS:
                continue
            costs = causal_costs(cells, name).values()
            lines.append([name, direction, dtype] +
                         [show_ratio(*ratio(cells, name, peer)) for peer in peers] +
                         [f"{min(costs):.2f} to {max(costs):.2f}" if costs else "–"])
    titles = ["stage", "pass", "dtype"] + [f"× {peer} (minimum; cells)" for peer in peers]
    return markdown(titles + ["causal cost"], lines)


def costs_of_causal(rows):
    """Time with the causal mask over time without it, for each head_dim and length."""
    lines = []
    seqs = sorted({row["seq"] for row in rows})
    for (direction, dtype), series in by_series(rows).items():
        cells = by_cell(series)
        for name in in_order(series):
            costs = causal_costs(cells, name)
            for head_dim in sorted({key[0] for key in costs}):
                shown = [f"{costs[head_dim, seq]:.2f}" if (head_dim, seq) in costs else "–"
                         for seq in seqs]
                lines.append([name, direction, dtype, head_dim] + shown)
    return markdown(["implementation", "pass", "dtype", "D"] + [f"S {seq}" for seq in seqs], lines)


# ---- The best peer -------------------------------------------------------------------------------

BEST = "best"  # the best peer, among the implementations of a cell


def places(rows):
    """The speeds of stages as multiples of the best peer's in the same cell, and over all sizes by ratio()."""
    lines, seqs = [], sorted({row["seq"] for row in rows})
    peers = [name for name in in_order(rows) if name in PEERS]
    for (direction, dtype), series in by_series(rows).items():
        cells = {key: {**cell, BEST: max(cell[name] for name in peers if name in cell)}
                 for key, cell in by_cell(series).items() if not cell.keys().isdisjoint(peers)}
        for name in in_order(series):
            if name in PEERS:
                continue
            mean, _, _ = ratio(cells, name, BEST)
            for head_dim, causal in sorted({key[:2] for key in cells}):
                there = (cells.get((head_dim, causal, seq), {}) for seq in seqs)
                shown = [f"{cell[name] / cell[BEST]:.2f}" if name in cell else "–" for cell in there]
                lines.append([name, direction, dtype, head_dim,
                              "yes" if causal else "no", *shown, f"{mean:.2f}"])
    return f"Speed relative to the best of {', '.join(peers)}:\n\n" + markdown(
        ["stage", "pass", "dtype", "D", "causal", *(f"S {seq}" for seq in seqs), "all sizes"], lines)


# The words that choose a table; the default is the speeds.
VIEWS = {"speeds": speeds, "summary": summary, "costs": costs_of_causal, "places": places}


# ---- Standard attention --------------------------------------------------------------------------

def standard_speeds(result):
    """TFLOP/s of each batch, and the stage's speed as a multiple of the others'."""
    lines, names = [], unique(name for row in result["rows"] for name in (*row["tflops"], *row["not_run"]))
    *others, stage = names
    for row in result["rows"]:
        speed = {name: of_one[0] for name, of_one in row["tflops"].items()}
        lines.append([row["batch"], *(three_digits(speed[name]) if name in speed else "–" for name in names),
                      *(f"{speed[stage] / speed[name]:.1f}" if {stage, name} <= speed.keys() else "–"
                        for name in others)])
    return markdown(["batch", *names, *(f"× {name}" for name in others)], lines)


def standard_memory(result):
    """Megabytes in addition to Q, K, V and O, by length."""
    rows = result["memory"]
    names = unique(name for row in rows for name in (*row["extra_bytes"], *row["not_run"]))
    lines = [[f"{row['seq']:,}", *(f"{three_digits(row['extra_bytes'][name] / 1e6)} MB"
                                   if name in row["extra_bytes"] else row["not_run"][name] for name in names)]
             for row in rows]
    return markdown(["S", *names], lines)


STANDARD_VIEWS = {"speeds": standard_speeds, "memory": standard_memory}
