#!/usr/bin/env python3
"""The trace player's page of every stage, with its faults: build/play/STAGE.html.

Needs the folder build/simt, which scripts/run.sh makes. A page that is newer than all it is made of stays.
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = ROOT / "build/play"
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import broken_runs  # noqa: E402, it lies there
from builds import BuildError  # noqa: E402


def write_page(stage, build):
    """Records the stage's runs, and writes its page."""
    PAGES.mkdir(parents=True, exist_ok=True)
    runs = PAGES / f"{stage}.json"
    runs.write_text(json.dumps(broken_runs.with_broken(build, stage)), encoding="utf-8")
    subprocess.run([build.ladder, "--play", runs], stdout=subprocess.DEVNULL, check=True)
    runs.unlink()


def main():
    try:
        build = broken_runs.Build()
        made_of = [build.ladder, ROOT / broken_runs.LIST, *(ROOT / "docs/player").iterdir(),
                   *(ROOT / "scripts/maintainer").glob("*.py")]
        newest = max(path.stat().st_mtime for path in made_of)
        pages = {stage: PAGES / f"{stage}.html" for stage in build.stages()}
        old = [stage for stage, page in pages.items() if not page.exists() or page.stat().st_mtime < newest]
        # A stage's faults are compiled side by side.
        for stage in old:
            write_page(stage, build)
    except BuildError as error:
        sys.exit(f"cuflash: {error}")


if __name__ == "__main__":
    main()
