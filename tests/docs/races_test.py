#!/usr/bin/env python3
"""The commands of docs/hunting_races.md work as written, and print what the page shows.

    tests/docs/races_test.py [--record]

The stages that the commands make lie in this checkout, where git ignores them, are built in build/simt,
and are removed. With --record the page's screens under docs/results/cpu-simulator are written.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/hunting_races.md").read_text("utf-8").split("\n## On a GPU\n")[0]
PART = re.compile(r"^```sh\n(?P<commands>.*?)^```|^<!-- screen \S+/race_(?P<screen>\w+)\.txt -->",
                  re.DOTALL | re.MULTILINE)
REPORT = re.compile(r"^RACE in .*?^  Step by step: [^\n]*\n", re.DOTALL | re.MULTILINE)


def run(commands):
    """The races that a block reports. Its last command fails if there are any."""
    done = subprocess.run(["bash", "-c", "set -e\n" + commands], cwd=ROOT, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    reports = REPORT.findall(done.stdout)
    if (done.returncode != 0) != bool(reports):
        raise SystemExit(f"exit status {done.returncode}, {len(reports)} races:\n{done.stdout}")
    return reports


def replay(record):
    """Runs the page's blocks in order; each screen shows the races of the block before it."""
    reports = []
    for part in PART.finditer(PAGE):
        if part["screen"]:
            shown = ROOT / f"docs/results/cpu-simulator/race_{part['screen']}.txt"
            screen = "\n".join(reports)
            if not screen:
                raise SystemExit(f"There is no race, where the page shows {shown.name}.")
            if record:
                shown.write_text(screen, "utf-8")
            elif shown.read_text("utf-8") != screen:
                raise SystemExit(f"The page shows another {shown.name}. It is now:\n{screen}\n"
                                 "To renew it: tests/docs/races_test.py --record && "
                                 "python3 scripts/maintainer/update_pages.py")
            continue
        first, _, others = part["commands"].partition("\n")
        if first.startswith("scripts/new_stage.sh"):
            run(first)
            name = first.split()[1]
            facts, = ROOT.glob(f"stages/9?_{name}/stage.cu")
            facts.write_text(facts.read_text("utf-8").replace(  # only what the problem needs
                "EveryType, UsualHeadDims", "TypeList<__half>, IntList<32>"), "utf-8")
        else:
            others = part["commands"]
        reports = run(others)
    if reports:
        raise SystemExit(f"The last block reports a race:\n{reports[0]}")


def main():
    """Checks the page, or renews its screens."""
    if sys.argv[1:] not in ([], ["--record"]):
        raise SystemExit(__doc__)
    before = set(ROOT.glob("stages/9?_*"))
    if before:
        raise SystemExit("The page begins without stages of your own: " + ", ".join(map(str, before)))
    try:
        replay(record=bool(sys.argv[1:]))
    finally:
        for name in ("barrier", "wait", "fence"):
            for folder in ROOT.glob(f"stages/9?_{name}"):
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
