#!/usr/bin/env python3
"""Replays docs/quarter_hour.md as a newcomer would, in a copy of the sources.

    tests/readme/replay.py [--record]

Then follows docs/library.md in a new home folder, for the CPU simulator.

Runs every `sh` block of a page in order. The screen that the page shows under a block must appear in the
block's output, line by line; a block with nothing under it must succeed. --record writes the
screens under docs/results/cpu-simulator that the page shows: those of the blocks, and
quarter_hour.txt, the time that each step took.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/maintainer"))
from repository import ROOT, copy_sources  # noqa: E402, it lies there

SCREENS = ROOT / "docs/results/cpu-simulator"
TIMES = "quarter_hour"
QUARTER_HOUR = "docs/quarter_hour.md"
LIBRARY = "docs/library.md"
# A step's title, its commands, or a screen that a command printed.
PART = re.compile(r"^\*\*(?P<step>\d+\. .+?)\*\*|^```sh\n(?P<commands>.*?)^```"
                  r"|^<!-- screen \S+/(?P<screen>\w+)\.txt -->\n(?P<shown>.*?)^<!-- end screen -->",
                  re.DOTALL | re.MULTILINE)
# The part of a block's output that is a screen: from the first line that matches to the last.
EXCERPTS = {
    "02_race": (r"^RACE in shared memory", r"^  Step by step: "),
    "01_exercise": (r"^exercise 1", r"^Step by step: "),
}


def make_repository(folder):
    """A copy of the sources, as a repository of its own: the steps edit files and revert that."""
    copy_sources(folder)
    git = ["git", "-c", "user.name=replay", "-c", "user.email=replay@localhost"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "sources"]):
        subprocess.run(git + command, cwd=folder, check=True)


def excerpt(name, output):
    """The part of a block's output that the page shows."""
    lines = output.splitlines()
    first, last = EXCERPTS[name]
    begin = next((i for i, line in enumerate(lines) if re.search(first, line)), None)
    if begin is None:
        raise SystemExit(f"nothing in the output is {name}:\n{output}")
    end = next(i for i in range(begin, len(lines)) if re.search(last, lines[i]))
    return "\n".join(lines[begin:end + 1]) + "\n"


def check_shown(shown, output, step):
    """Every line that the page shows must have been printed."""
    printed = {line.rstrip() for line in output.splitlines()}
    for line in shown.removeprefix("```text\n").split("\n```")[0].splitlines():
        if line.rstrip() not in printed:
            raise SystemExit(f"step {step}: the page shows a line that was not printed:\n{line}\n"
                             f"The output was:\n{output}")


def processor():
    """The machine on which these times were taken."""
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text("utf-8"))
    name = model[1].strip() if model else "unknown processor"
    return f"{name}, {len(os.sched_getaffinity(0))} cores"


def parts_of(page):
    """The steps, commands and screens of a page."""
    return list(PART.finditer((ROOT / page).read_text(encoding="utf-8")))


def run(commands, folder, **environment):
    """Runs a block and returns its result, with the output."""
    return subprocess.run(["bash", "-c", "set -e\n" + commands], cwd=folder,
                          env=os.environ | environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


def use_as_library(repository):
    """Installs the library and builds the example that the page copies, both outside."""
    blocks = [part["commands"] for part in parts_of(LIBRARY) if part["commands"]]
    with tempfile.TemporaryDirectory() as home:
        for commands in blocks:  # The page says "write `simt` instead of `release`".
            done = run(commands.replace("release", "simt"), repository, HOME=home)
            if done.returncode != 0:
                raise SystemExit(f"{LIBRARY} failed:\n{commands}\n{done.stdout}")
    if "max |error|" not in done.stdout:
        raise SystemExit(f"{LIBRARY}: its last block did not run the example:\n{done.stdout}")


def replay(record):
    """Runs both pages; returns one (step, seconds) for each step of the first."""
    parts = parts_of(QUARTER_HOUR)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        make_repository(pathlib.Path(folder))
        for i, part in enumerate(parts):
            if part["step"]:
                times.append([part["step"].rstrip("."), 0.0])
            if not part["commands"]:
                continue
            begin = time.monotonic()
            done = run(part["commands"], folder)
            times[-1][1] += time.monotonic() - begin
            step, screen = times[-1][0], parts[i + 1] if i + 1 < len(parts) else None
            if screen and screen["screen"] in EXCERPTS:
                if record:
                    text = excerpt(screen["screen"], done.stdout)
                    (SCREENS / (screen["screen"] + ".txt")).write_text(text, encoding="utf-8")
                else:
                    check_shown(screen["shown"], done.stdout, step)
            elif done.returncode != 0:
                raise SystemExit(f"step {step} failed:\n{done.stdout}")
            print(f"{times[-1][1]:6.1f} s  {step}", flush=True)
        use_as_library(folder)
    return times


def main():
    """Replays the pages, and with --record writes the screens."""
    if sys.argv[1:] not in ([], ["--record"]):
        raise SystemExit(__doc__)
    record = sys.argv[1:] == ["--record"]
    times = replay(record)
    if not times:
        raise SystemExit(f"{QUARTER_HOUR} has no steps")
    if record:
        width = max(len(step) for step, _ in times)
        lines = [f"{step:<{width}}  {seconds:5.0f} s" for step, seconds in times]
        lines.append(f"{'all':<{width}}  {sum(s for _, s in times):5.0f} s of waiting")
        text = "\n".join(lines) + f"\n\non {processor()}; the first step builds\n"
        (SCREENS / f"{TIMES}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
