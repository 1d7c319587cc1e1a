#!/usr/bin/env python3
"""Replays the README's first quarter of an hour as a newcomer would, in a copy of the sources.

    tests/readme/replay.py [--record]

Then follows the section "Use it as a library" in a new home folder, for the CPU simulator.

Runs every `sh` block of a section in order. What the README shows under a block must appear in the
block's output, line by line; a block with nothing under it must succeed. --record writes the
screens under docs/results/cpu-simulator that the section shows: those of the blocks, and
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
SECTION = "## Your first quarter of an hour"
LIBRARY = "## Use it as a library"
# A step's title, its commands, or a screen that a command printed.
PART = re.compile(r"^\*\*(?P<step>\d+\. .+?)\*\*|^```sh\n(?P<commands>.*?)^```"
                  r"|^<!-- screen \S+/(?P<screen>\w+)\.txt -->\n(?P<shown>.*?)^<!-- end screen -->",
                  re.DOTALL | re.MULTILINE)
# The part of a block's output that is a screen: from the first line that matches to the last.
EXCERPTS = {
    "02_race": (r"^RACE in shared memory", r"^  Step by step: "),
    "01_exercise": (r"^exercise 1", r"^\d+ of \d+ done"),
}


def make_repository(folder):
    """A copy of the sources, as a repository of its own: the steps edit files and revert that."""
    copy_sources(folder)
    git = ["git", "-c", "user.name=replay", "-c", "user.email=replay@localhost"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "sources"]):
        subprocess.run(git + command, cwd=folder, check=True)


def excerpt(name, output):
    """The part of a block's output that the README shows."""
    lines = output.splitlines()
    first, last = EXCERPTS[name]
    begin = next((i for i, line in enumerate(lines) if re.search(first, line)), None)
    if begin is None:
        raise SystemExit(f"nothing in the output is {name}:\n{output}")
    end = next(i for i in range(begin, len(lines)) if re.search(last, lines[i]))
    return "\n".join(lines[begin:end + 1]) + "\n"


def check_shown(shown, output, step):
    """Every line that the README shows must have been printed."""
    printed = {line.rstrip() for line in output.splitlines()}
    for line in shown.removeprefix("```text\n").split("\n```")[0].splitlines():
        if line.rstrip() not in printed:
            raise SystemExit(f"step {step}: the README shows a line that was not printed:\n{line}\n"
                             f"The output was:\n{output}")


def processor():
    """The machine on which these times were taken."""
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text("utf-8"))
    name = model[1].strip() if model else "unknown processor"
    return f"{name}, {len(os.sched_getaffinity(0))} cores"


def section(heading):
    """A section of the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    if heading + "\n" not in readme:
        raise SystemExit(f"README.md has no section '{heading}'")
    return readme.split(heading + "\n")[1].split("\n## ")[0]


def run(commands, folder, **environment):
    """Runs a block and returns its result, with the output."""
    return subprocess.run(["bash", "-c", "set -e\n" + commands], cwd=folder,
                          env=os.environ | environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


def use_as_library(repository):
    """Installs the library and builds the example that the README copies, both outside."""
    blocks = [part["commands"] for part in PART.finditer(section(LIBRARY)) if part["commands"]]
    with tempfile.TemporaryDirectory() as home:
        for commands in blocks:  # The section says "write `simt` for `release`".
            done = run(commands.replace("release", "simt"), repository, HOME=home)
            if done.returncode != 0:
                raise SystemExit(f"'{LIBRARY}' failed:\n{commands}\n{done.stdout}")
    if "max |error|" not in done.stdout:
        raise SystemExit(f"'{LIBRARY}': its last block did not run the example:\n{done.stdout}")


def replay(record):
    """Runs the first section; returns one (step, seconds) for each of its steps."""
    parts = list(PART.finditer(section(SECTION)))
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
    """Replays the sections, and with --record writes the screens."""
    if sys.argv[1:] not in ([], ["--record"]):
        raise SystemExit(__doc__)
    record = sys.argv[1:] == ["--record"]
    times = replay(record)
    if not times:
        raise SystemExit(f"'{SECTION}' has no steps")
    if record:
        width = max(len(step) for step, _ in times)
        lines = [f"{step:<{width}}  {seconds:5.0f} s" for step, seconds in times]
        lines.append(f"{'all':<{width}}  {sum(s for _, s in times):5.0f} s of waiting")
        text = "\n".join(lines) + f"\n\non {processor()}; the first step builds\n"
        (SCREENS / f"{TIMES}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
