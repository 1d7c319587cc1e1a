#!/usr/bin/env python3
"""Draws the losses that examples/train_char_gpt.py wrote.

    scripts/maintainer/loss_curve.py [--check] [RESULT.json FIGURE.svg]

Without names, docs/results/nvidia-h200/train_char_gpt.json and docs/figures/train_char_gpt.svg.
The figure's metadata name the result that it was drawn from, by the SHA-256 of the file. With
--check nothing is drawn, and the exit status is 1 unless the figure belongs to the result. Drawing
needs Matplotlib (Debian: python3-matplotlib); checking does not.
"""
import argparse
import hashlib
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULT = ROOT / "docs/results/nvidia-h200/train_char_gpt.json"
FIGURE = ROOT / "docs/figures/train_char_gpt.svg"

# By attention and number of the seed: name, colour, width and dashes. The two that should coincide
# are a wide line and a thin one on it.
STYLES = {("sdpa", 0): ("SDPA", "#8fb8de", 3.0, "-"),
          ("cuflash", 0): ("cuflash", "#12355b", 0.9, "-"),
          ("sdpa", 1): ("SDPA", "#d1495b", 0.9, (0, (4, 2)))}


def stamp(result):
    """The figure's metadata about its result."""
    return f"Drawn from {result.name}, SHA-256 {hashlib.sha256(result.read_bytes()).hexdigest()}"


def check(result, figure):
    """The reason why the figure does not belong to the result, or ""."""
    for path in (result, figure):
        if not path.exists():
            return f"there is no {path}"
    found = re.findall(r"Drawn from \S+, SHA-256 [0-9a-f]{64}", figure.read_text(encoding="utf-8"))
    return "" if found == [stamp(result)] else f"{figure} was not drawn from {result} as it is now"


def draw(result, figure):
    """The losses of all steps, and beside them the last ones, enlarged."""
    # pylint: disable=import-outside-toplevel  # --check does not need it
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    pyplot.rcParams.update({"svg.hashsalt": "cuflash", "svg.fonttype": "none", "font.size": 10,
                            "axes.spines.top": False, "axes.spines.right": False,
                            "axes.grid": True, "grid.color": "#e4e4e4"})
    data = json.loads(result.read_text(encoding="utf-8"))
    last = data["config"]["compared"]
    canvas, (whole, end) = pyplot.subplots(1, 2, figsize=(10, 4.2), width_ratios=(3, 2))
    add_curves(whole, data["runs"], 0)
    add_curves(end, data["runs"], data["config"]["steps"] - last)
    whole.set(xlabel="step", ylabel="training loss, nats a character", title="all steps")
    end.set(xlabel="step", title=f"the last {last} steps")
    whole.legend(frameon=False, loc="upper right")
    canvas.suptitle(title(data))
    canvas.text(0.5, 0.012, origin(data["provenance"]), ha="center", color="#666666", size=8)
    canvas.tight_layout(rect=(0, 0.03, 1, 1))
    figure.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(figure, facecolor="white",
                   metadata={"Date": None, "Description": stamp(result)})


def add_curves(axes, runs, first):
    """Each run's losses from that step on."""
    seeds = list(dict.fromkeys(run["seed"] for run in runs))
    by_style = {(run["attention"], seeds.index(run["seed"])): run for run in runs}
    for style, (name, colour, width, dashes) in STYLES.items():
        run = by_style[style]
        axes.plot(range(first + 1, len(run["losses"]) + 1), run["losses"][first:], color=colour,
                  linewidth=width, linestyle=dashes, label=label(name, run))


def label(name, run):
    """A line of the legend."""
    figures = (f": {run['tokens_per_second'] / 1e6:.2f} M tokens/s, peak {run['peak_bytes'] / 1e9:.1f} GB"
               if "peak_bytes" in run else "")
    return f"{name}, seed {run['seed']}{figures}"


def title(data):
    """The verdict in words."""
    verdict, last = data["verdict"], data["config"]["compared"]
    return (f"mean |difference| over the last {last} steps: cuflash and SDPA "
            f"{verdict['difference']:.4f}, two seeds {verdict['spread']:.4f}")


def origin(where):
    """The origin of the figures, as under the tables."""
    return (f"{where['device']}, driver {where['driver']}, CUDA {where['cuda']}, "
            f"PyTorch {where['torch']}, commit {where['commit']}, {where['date'][:10]}")


def main():
    """Draws or checks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="draw nothing")
    parser.add_argument("files", type=pathlib.Path, nargs="*", metavar="FILE",
                        help="the result and the figure; default: those of the repository")
    args = parser.parse_args()
    if len(args.files) not in (0, 2):
        parser.error("name both the result and the figure, or neither")
    result, figure = args.files or (RESULT, FIGURE)
    if not args.check:
        draw(result, figure)
    fault = check(result, figure)
    if fault:
        sys.exit(f"{fault}\nrun: scripts/maintainer/loss_curve.py {' '.join(map(str, args.files))}".rstrip())


if __name__ == "__main__":
    main()
