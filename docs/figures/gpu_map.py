"""The map of an H200: its memories and units, and the path between them that each stage changes.

The prologue has one map with sizes and rates, and each chapter begins with a small one. The rates
are measured. The sizes and the peak bandwidth of HBM are NVIDIA's; the prologue names the sources.
"""

import re

from drawing import Figure, LEFT, NORMAL, RIGHT, SMALL, estimated_width
from sources import read, result

RESULTS = "docs/results/nvidia-h200"
PROBLEM = "b4_h32_q4096k4096_d64_f16"
HBM_GB, SHARED_KB, REGISTERS_KB = 141, 228, 256  # the last two of an SM
HBM_TERABYTES = float(re.search(r"^dram = ([\d.]+) TB/s", read("docs/constants.txt"), re.MULTILINE)[1])

# A place's name on the map, and its colour.
PLACES = {
    "HBM": ("HBM", "grey"),
    "L2": ("L2", "green"),
    "TMA": ("TMA", "yellow"),
    "shared": ("shared memory", "orange"),
    "registers": ("registers", "blue"),
    "tensor": ("tensor cores", "purple"),
    "f32": ("f32 units", "sky"),
}


# ---- What is measured of a stage's pass --------------------------------------------------------


def rows(path, stage, direction, **wanted):
    """The rows of a result for a stage's pass."""
    wanted = {"stage": stage, "pass": direction, **wanted}
    return [row for row in result(path)["rows"] if wanted.items() <= row.items()]


def kernels(*columns):
    """A function: the sum of columns of Nsight Compute over the kernels of a pass."""
    return lambda *stage: sum(row[column] for column in columns for row in rows(
        f"{RESULTS}/kernels.json", *stage, problem=PROBLEM))


def speed(*stage):
    """TFLOP/s in the ladder."""
    return rows(f"{RESULTS}/ladder.json", *stage, problem=PROBLEM)[0]["tflops"]


def requested(*stage):
    """Bytes that threads request to read, as the simulator counts them for a smaller problem."""
    return rows("docs/results/cpu-simulator/ladder.json", *stage)[0]["requested_read_bytes"]


def shorter_kernels(*stage):
    """Milliseconds of all kernels of a pass but the longest."""
    times = [row["ms"] for row in rows(f"{RESULTS}/kernels.json", *stage, problem=PROBLEM)]
    return sum(times) - max(times)


# What is measured, its unit in those of the result, and how the map says it.
TFLOPS = speed, 1, "{} TFLOP/s"
HBM_BYTES = kernels("dram_read_bytes", "dram_write_bytes"), 1e9, "HBM: {} GB"
WAVEFRONTS = kernels("shared_load_passes"), 1e6, "{} M wavefronts"
INSTRUCTIONS = kernels("instructions"), 1e6, "{} M instructions"
OTHERS = shorter_kernels, 1e-3, "other kernels: {} µs"
REQUESTED = requested, 1e6, "simulator counts {} MB"

# Stage, the stage before it, pass, what the stage changes, what is measured of it (of 20, which no
# result has yet, a text), the paths that data now take, and those that they no longer take.
STAGES = (
    ("01_naive", None, "forward", "S and P pass through HBM", HBM_BYTES,
     ["HBM L2 registers f32", "registers L2 HBM"], []),
    ("02_tiled", "01_naive", "forward", "A tile serves 32 queries", REQUESTED,
     ["L2 registers shared registers"], []),
    ("03_online_softmax", "02_tiled", "forward", "S and P never leave the SM", HBM_BYTES,
     ["registers shared registers"], ["registers L2 HBM"]),
    ("04_register_tiles", "03_online_softmax", "forward", "Load once, use many times", WAVEFRONTS,
     ["shared registers f32"], []),
    ("05_wmma", "04_register_tiles", "forward", "Both products on tensor cores", TFLOPS,
     ["shared registers tensor registers shared"], []),
    ("06_forward_backward", "04_register_tiles", "backward", "All seven products on tensor cores", TFLOPS,
     ["shared registers tensor registers shared"], []),
    ("07_mma_registers", "05_wmma", "forward", "S, P and O stay in registers", WAVEFRONTS,
     ["registers tensor registers"], ["registers shared"]),
    ("08_swizzle", "07_mma_registers", "forward", "An XOR makes room for more queries", WAVEFRONTS,
     ["shared registers"], []),
    ("09_async_copy", "08_swizzle", "forward", "K and V skip the registers", TFLOPS,
     ["HBM L2 shared"], ["L2 registers"]),
    ("10_tma", "09_async_copy", "forward", "K and V by TMA, no thread copies", INSTRUCTIONS,
     ["HBM L2 TMA shared"], ["L2 shared"]),
    ("11_wgmma", "10_tma", "forward", "wgmma reads K and V where they lie", WAVEFRONTS,
     ["shared tensor registers"], ["shared registers"]),
    ("12_warp_specialized", "11_wgmma", "forward", "Producer requests, consumers compute", TFLOPS,
     ["HBM L2 TMA shared tensor"], []),
    ("13_ping_pong", "12_warp_specialized", "forward", "Softmax under products", TFLOPS,
     ["shared tensor registers f32 registers tensor"], []),
    ("14_persistent", "13_ping_pong", "forward", "O leaves under the next products", TFLOPS,
     ["registers shared TMA L2 HBM"], []),
    ("15_wgmma_backward", "09_async_copy", "backward", "TMA adds dQ in L2", HBM_BYTES,
     ["tensor registers shared TMA L2", "shared tensor"], ["registers L2"]),
    ("16_overlapped_backward", "15_wgmma_backward", "backward", "P and dS from registers", TFLOPS,
     ["tensor registers f32 registers tensor"], []),
    ("17_persistent_backward", "16_overlapped_backward", "backward", "Products without a break", TFLOPS,
     ["HBM L2 TMA shared tensor"], []),
    ("18_dq_on_the_way", "17_persistent_backward", "backward", "dQ zeroed and rounded on the way", OTHERS,
     ["HBM L2 registers L2 HBM"], []),
    ("20_split_kv", "09_async_copy", "forward", "All SMs share the keys", "K and V once per group",
     ["HBM L2 shared", "registers L2 registers"], []),
    ("21_paged_kv", "20_split_kv", "forward", "K and V come from pages", "a table says where",
     ["HBM L2 shared"], []),
)


def shown(value):
    """With three figures, of which none is behind the point from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def measured(measure, stages, direction):
    """The values of stages, one after the other."""
    function, unit, text = measure
    values = [function(stage, direction) / unit for stage in stages if stage]
    return text.format(" → ".join(map(shown, values)))


# ---- The map -----------------------------------------------------------------------------------


def pairs(path):
    """The places of a path, two at a time."""
    places = path.split()
    return list(zip(places, places[1:]))


def draw(figure, top, high, gap, facts=None, lit=(), gone=()):
    """The map below `top`, its boxes `high` and `gap` apart.

    All places are in colour and have lines of facts; or only those on the lit paths, which are
    drawn thick, while those that are gone are crossed out.
    """
    low, tma = top + high + gap, min(high, 60) - 18
    middle, below_tma, in_tma = low - gap / 2, low - gap - 9, top + tma / 2
    at = {
        "HBM": (LEFT, top, 92, 2 * high + gap),
        "L2": (138, top, 92, 2 * high + gap),
        "TMA": (264, top, 56, tma),
        "shared": (344, top, 168, high),
        "registers": (344, low, 168, high),
        "tensor": (550, top, 140, high),
        "f32": (550, low, 140, high),
    }
    wires = {
        "HBM L2": [(112, middle), (138, middle)],
        "L2 TMA": [(230, in_tma), (264, in_tma)],
        "TMA shared": [(320, in_tma), (344, in_tma)],
        "L2 shared": [(230, below_tma), (344, below_tma)],
        "L2 registers": [(230, low + high / 2), (344, low + high / 2)],
        "shared registers": [(428, low - gap), (428, low)],
        "shared tensor": [(512, top + 0.3 * high), (550, top + 0.3 * high)],
        "registers tensor": [(512, low + 0.25 * high), (531, low + 0.25 * high),
                             (531, top + 0.75 * high), (550, top + 0.75 * high)],
        "registers f32": [(512, low + 0.7 * high), (550, low + 0.7 * high)],
    }
    wires.update({" ".join(name.split()[::-1]): wire[::-1] for name, wire in wires.items()})
    figure.frame(250, top - 12, RIGHT - 250, 2 * high + gap + 24, "grey", 1.6)
    figure.note(264, (below_tma + low + high / 2) / 2, "SM")
    for name in list(wires)[:len(wires) // 2]:
        figure.line(wires[name], "grey", 1.6)
    for path in gone:
        for pair in pairs(path):
            (x0, y0), (x1, y1) = wires[" ".join(pair)][:2]
            x, y = (max(x0, x1) - 13 if y0 == y1 else x0), (y0 + y1) / 2
            for side in (1, -1):
                figure.line([(x - 9, y - 9 * side), (x + 9, y + 9 * side)], width=3)
    for path in lit:
        for pair in pairs(path):
            figure.arrow(wires[" ".join(pair)], "red", 5)
    on_path = {place for path in lit for place in path.split()}
    for place, box in at.items():
        name, colour = PLACES[place]
        figure.box(*box, colour if facts or place in on_path else "paper", name, SMALL,
                   below=(facts or {}).get(place, ()), bold=True)


def small(stage, before, direction, label, measure, lit, gone):
    """The map at the head of a chapter."""
    number = stage[:2]
    change = measure if isinstance(measure, str) else measured(measure, (before, stage), direction)
    figure = Figure(
        f"{number}_map",
        218,
        f"{label}. {change}",
        f"The map of the GPU with the paths that stage {number} changes. Lit: "
        + "; ".join(path_in_words(path) for path in lit)
        + "."
        + "".join(f" No longer taken: {path_in_words(path)}." for path in gone)
        + f" {change}, {direction} pass.",
        heading="",
    )
    figure.text(LEFT, 34, label, NORMAL, bold=True)
    figure.text(RIGHT, 34, change, SMALL, "end")
    if estimated_width(label, NORMAL, bold=True) + estimated_width(change, SMALL) > RIGHT - LEFT - 10:
        raise ValueError(f"{figure.name}: label and change are too long")
    draw(figure, 76, 46, 30, lit=lit, gone=gone)
    return figure


def path_in_words(path):
    """The names of a path's places."""
    return " to ".join(PLACES[place][0] for place in path.split())


def large():
    """The map with sizes and rates."""
    ceilings = result(f"{RESULTS}/ceilings.json")
    chip = ceilings["chip"]
    figures = {row["figure"]: row for row in ceilings["rows"]}
    rate = {name: row["rate"] for name, row in figures.items()}
    clock = {name: row["per_clock_and_sm"] for name, row in figures.items() if "per_clock_and_sm" in row}
    fastest = max(row.get("clock_ghz", 0) for row in ceilings["rows"])
    peak = f"{HBM_TERABYTES} TB/s"
    facts = {
        "HBM": [f"{HBM_GB} GB", peak, "", "copies:", f"{rate['copy']:.2f} TB/s", "",
                f"{1e3 * rate['copy'] / chip['sms'] / fastest:.0f}", "bytes", "per clock"],
        "L2": [f"{chip['l2_bytes'] / 2**20:.0f} MB"],
        "shared": [f"{SHARED_KB} KB", f"{clock['ldmatrix']:.0f} bytes", "per clock"],
        "registers": [f"{REGISTERS_KB} KB", f"{REGISTERS_KB * 256:,}", "of 4 bytes"],
        "tensor": [f"wgmma {clock['wgmma_f16']:,.0f}", f"mma {clock['mma_f16']:,.0f}", "FLOPs/clock"],
        "f32": [f"{clock['ffma']:.0f} FLOPs,", f"{clock['exp2']:.0f} exp2", "per clock"],
    }
    figure = Figure(
        "gpu_map",
        566,
        "The map of an H200",
        " ".join(f"{PLACES[place][0]}: {' '.join(filter(None, lines))}." for place, lines in facts.items())
        + f" Bytes and FLOPs per clock are those of one of {chip['sms']} SMs, which has shared memory, registers,"
        " tensor cores, f32 units and TMA, the copy unit. Data go from HBM to L2, from L2 by TMA or cp.async to"
        " shared memory, or by loads to registers; from shared memory to registers and, by wgmma, to the tensor"
        " cores; and from registers to the tensor cores, the f32 units, shared memory and L2.",
    )
    top, high, gap = 84, 136, 56
    low = top + high + gap
    draw(figure, top, high, gap, facts)
    for x, y, text, anchor in ((334, low - gap - 26, "cp.async", "end"), (334, low + high / 2 - 18, "loads,", "end"),
                               (334, low + high / 2 + 18, "stores", "end"), (438, low - gap / 2, "ldmatrix", "start")):
        figure.text(x, y, text, SMALL, anchor)
    figure.notes(LEFT, 468, [
        f"All {chip['sms']} SMs: {rate['ldmatrix']:.0f} TB/s from shared memory, {rate['wgmma_f16']:.0f} TFLOP/s",
        f"by wgmma, {rate['mma_f16']:.0f} by mma, {rate['ffma']:.0f} by the f32 units; {rate['exp2']:.1f} T exp2/s.",
        "“Per clock” is what one SM does, or its share of HBM's copies",
        f"at {fastest:.2f} GHz. Sizes, and {peak}: NVIDIA's. The rest is measured.",
    ])
    return figure


FIGURES = [large()] + [small(*stage) for stage in STAGES]
