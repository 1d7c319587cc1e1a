#!/usr/bin/env python3
"""Compares a stage with its version in a revision: scripts/run.sh --stage STAGE --against REV.

    scripts/maintainer/against.py --build simt|release STAGE REV
    scripts/maintainer/against.py simt|release STAGE REV

The first builds the revision in build/against: a clone without objects of its own, which is kept, so
that the next revision compiles only what differs. All other stages are left out of it. The second
compares, after build/simt or build/release has been built: on the CPU simulator the counts of
record.py's problems, on a GPU the times (bench/against.cpp).
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

from builds import BuildError, run
from record import RecordError, counts_of, differences
from repository import ROOT

CLONE = ROOT / "build/against"
TARGETS = {"simt": "ladder", "release": "cuflash_attn"}
LIBRARY = "build/release/libcuflash_attn.so"


def git(*words):
    """Runs git in the clone, and never in the repository around it."""
    return run(["git", f"--git-dir={CLONE}/.git", f"--work-tree={CLONE}", *map(str, words)], ROOT,
               "git failed").strip()


def commit_of(revision):
    """The whole hash of a revision of this repository."""
    return run(["git", "rev-parse", "--verify", f"{revision}^{{commit}}"], ROOT, revision).strip()


def check_out(commit):
    """Fills the clone with the files of a commit."""
    try:
        git("checkout", "--quiet", "--force", "--detach", commit)
    except BuildError:  # There is none yet, or the repository that it was cloned from has moved.
        shutil.rmtree(CLONE, ignore_errors=True)
        run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(CLONE)], ROOT,
            "The repository cannot be cloned")
        git("checkout", "--quiet", "--force", "--detach", commit)


def leave_out_others(stage):
    """Takes all other stages out of the clone's lists."""
    name = stage.split("_", 1)[1]
    listed, built = CLONE / "stages/stages.cpp", CLONE / "stages/CMakeLists.txt"
    text = listed.read_text(encoding="utf-8")
    for other in set(re.findall(r"^CUFLASH_DECLARE_STAGE\((\w+)\)$", text, re.MULTILINE)) - {name}:
        text = text.replace(f"CUFLASH_DECLARE_STAGE({other})\n", "")
        text = re.sub(rf"&{other}::kStage,", "", text)
    listed.write_text(text, encoding="utf-8")
    text = built.read_text(encoding="utf-8")
    built.write_text(re.sub(rf"^cuflash_add_stage\((?!{stage}\b).*\n", "", text, flags=re.MULTILINE),
                     encoding="utf-8")


def build(preset, stage, revision):
    """Builds the revision, with this one stage."""
    check_out(commit_of(revision))
    leave_out_others(stage)
    for command in (["cmake", "--preset", preset],
                    ["cmake", "--build", f"build/{preset}", "--target", TARGETS[preset]]):
        subprocess.run(command, cwd=CLONE, check=True)


def compare_counts(stage, revision):
    """Prints what differs. True if nothing does."""
    old, new = (counts_of(root / "build/simt/bin/ladder", stage)[0] for root in (CLONE, ROOT))
    old_names, new_names = (set(next(iter(rows.values()))) for rows in (old, new))
    known = {key: row for key, row in new.items() if key in old}
    lines = differences(old, known)
    print("\n".join(lines) if lines else
          f"{stage} has the same counts as at {revision}, on {len(known)} problems.")
    if old_names < new_names:
        print(f"{revision} lacks some counts: {', '.join(sorted(new_names - old_names))} are not compared.")
    return not lines


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true")
    parser.add_argument("preset", choices=TARGETS)
    parser.add_argument("stage", metavar="STAGE")
    parser.add_argument("revision", metavar="REV")
    options = parser.parse_args()
    try:
        if options.build:
            build(options.preset, options.stage, options.revision)
        elif options.preset == "simt":
            sys.exit(0 if compare_counts(options.stage, options.revision) else 1)
        else:
            os.execv(ROOT / "build/release/bin/against",
                     ["against", options.stage, CLONE / LIBRARY, ROOT / LIBRARY])
    except (BuildError, RecordError, OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"cuflash: {error}") from error


if __name__ == "__main__":
    main()
