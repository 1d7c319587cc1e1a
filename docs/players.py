#!/usr/bin/env python3
"""The trace player's page of every stage, with its faults: build/players/STAGE.html.

Needs the folder build/simt, which scripts/run.sh makes. Beside each page lie its runs. What is newer than
all it is made of stays. With CUFLASH_SAMPLE=N/3 in the environment, only a third of the pages are made, and
those in ALWAYS.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = ROOT / "build/players"
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import broken_runs  # noqa: E402, it lies there
from builds import BuildError  # noqa: E402
from repository import sampled  # noqa: E402

# The stages whose pages the tests know.
ALWAYS = ("02_tiled", "03_online_softmax", "14_persistent", "16_overlapped_backward")


def is_newer(path, files):
    """True if the path is there, and newer than all these files."""
    return path.exists() and path.stat().st_mtime > max(file.stat().st_mtime for file in files)


def main():
    argparse.ArgumentParser(description=__doc__,
                            formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    PAGES.mkdir(parents=True, exist_ok=True)
    try:
        build = broken_runs.Build()
        scripts = [path for module in list(sys.modules.values())
                   if (path := pathlib.Path(getattr(module, "__file__", None) or "")).parent.name == "maintainer"]
        stages = build.stages()
        for stage in sampled(stages, ALWAYS):  # A stage's faults are compiled side by side.
            recorded_by = [build.ladder, *scripts, ROOT / "tests/faults.ini",
                           *ROOT.glob(f"stages/{stage}/faults.ini"), *ROOT.glob(f"stages/{stage}/tour*.txt")]
            runs, page = PAGES / f"{stage}.json", PAGES / f"{stage}.html"
            if not is_newer(runs, recorded_by):
                whole = broken_runs.with_broken(build, stage) | {"stages": stages}
                runs.write_text(json.dumps(whole), encoding="utf-8")
            if not is_newer(page, [runs, *(ROOT / "docs/player").iterdir()]):
                subprocess.run([build.ladder, "--play", runs], stdout=subprocess.DEVNULL, check=True)
    except BuildError as error:
        sys.exit(f"cuflash: {error}")


if __name__ == "__main__":
    main()
