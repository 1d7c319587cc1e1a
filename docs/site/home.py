"""What the home page shows of the results, and the card that other sites show for a link to the book."""
import json
import math
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/peers"))
from tables import three_digits  # noqa: E402, it lies there

LADDER, PEERS = "docs/results/nvidia-h200/ladder.json", "docs/results/nvidia-h200/peers.json"
PROBLEM = "b4_h32_q4096k4096_d64_f16"
CELL = {"pass": "forward", "seq": 4096, "head_dim": 64, "dtype": "f16", "causal": False}  # it, in PEERS
NAMES = {"14_persistent": "Rung 14", "fa4": "FlashAttention-4", "fa3": "FlashAttention-3",
         "cudnn": "cuDNN", "fa2": "FlashAttention-2"}
SLOWEST, FASTEST = 0.5, 600  # TFLOP/s, the ends of the rungs' logarithmic axis


def read(path):
    """A JSON file of the repository."""
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def rungs(direction, titles):
    """The stages that have been timed in this direction; `titles` are those of their chapters."""
    rows = [row for row in read(LADDER)["rows"]
            if row["pass"] == direction and row["problem"] == PROBLEM and "ms" in row]
    for row in rows:
        page = f"stages/{row['stage']}/index"
        number, name, idea = re.fullmatch(r"(\d+) (.+?): (.+)", titles[page].astext()).groups()
        share = math.log(row["tflops"] / SLOWEST) / math.log(FASTEST / SLOWEST)
        yield {"page": page, "number": number, "name": name, "idea": idea, "ms": row["ms"],
               "time": three_digits(row["ms"]) + " ms", "share": round(100 * share, 1)}


def not_timed(timed, titles):
    """The other stages, which are for other problems."""
    for page in sorted(titles):
        title = re.fullmatch(r"(\d+) (.+?): (.+)", titles[page].astext())
        if re.fullmatch(r"stages/\d\d_\w+/index", page) and page not in timed:
            number, name, idea = title.groups()
            yield {"page": page, "number": number, "name": name, "idea": idea, "time": "", "share": 0}


def facts(titles):
    """What the template of the home page takes."""
    made = read(LADDER)["provenance"]
    forward, backward = (list(rungs(direction, titles)) for direction in ("forward", "backward"))
    row = next(row for row in read(PEERS)["rows"] if CELL.items() <= row.items())
    peers = [(name, round(row["tflops"][key][0])) for key, name in NAMES.items()]
    serving = list(not_timed({row["page"] for row in forward + backward}, titles))
    return {"forward": forward, "backward": backward, "serving": serving, "peers": peers, "device": made["device"],
            "date": made["date"][:10], "ratio": round(forward[0]["ms"] / forward[-1]["ms"])}


def card(path, rows, device):
    """The card, 1,200 × 630 points, drawn by Graphviz: a bar for each of the rungs."""
    nodes = ['back [shape=box pos="600,315" width=16.67 height=8.75 fillcolor="#101418"]']

    def text(x, y, size, words, colour="#ffffff"):
        nodes.append(f'"{x} {y}" [shape=plain style="" fixedsize=false pos="{x},{y}" '
                     f'fontsize={size} fontcolor="{colour}" label=<{words}>]')

    text(600, 545, 84, "<b>CuFlash Ladder</b>")
    text(600, 460, 34, "FlashAttention in CUDA C++, one idea at a time", "#b8c4d0")
    text(600, 400, 34, f"<b>{rows[0]['time']} → {rows[-1]['time']}</b> on an {device}", "#7cc7ff")
    width = 1040 / len(rows)
    for n, row in enumerate(rows):
        x, height = 80 + width * (n + 0.5), 40 + 2.4 * row["share"]
        nodes.append(f'bar{n} [shape=box pos="{x},{50 + height / 2}" width={(width - 14) / 72} '
                     f'height={height / 72} fillcolor="#2f81f7"]')
        text(x, 72, 22, f"<b>{row['number']}</b>")
    graph = ('graph { graph [pad=0 margin=0] node [style=filled penwidth=0 label="" fixedsize=true '
             f'fontname="DejaVu Sans,Liberation Sans"] {"; ".join(nodes)} }}')
    subprocess.run(["neato", "-n2", "-Tpng", "-Gdpi=72", "-o", path], input=graph, text=True, check=True)
