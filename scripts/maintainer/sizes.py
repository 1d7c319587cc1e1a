#!/usr/bin/env python3
"""Measures the size of the repository and the distance between its stages.

    scripts/maintainer/sizes.py

The first table has the lines of every tracked text file but prose: the product, the tools that teach,
the machinery around them, and results. The second has a row for each pass of a stage: the lines of its
kernel files, those of the longest function, and the lines that the stage which it follows does not
have, in whichever order. Empty lines count for nothing. The last column has the words of the stage's
chapter, without its listings and tables.

A kernel file, a function, a step, a chapter or README.md that is larger than it may be is named at the end,
and the exit status is 1.
"""
import collections
import fnmatch
import pathlib
import re
import sys

from repository import KERNELS, ROOT, files

# A file belongs to the first line that has a pattern for it.
KINDS = {
    "results and data": ["docs/results/*", "tests/record/*", "*.svg", "*.png", "bench/data/*", "examples/data/*"],
    "machinery: faults, variants, answers": ["*/faults.ini", "tests/*.ini", "*/variants.diff", "tests/grader/*"],
    "machinery: tests": ["tests/*", "python/tests/*"],
    "machinery: scripts": ["scripts/*", ".ci/*"],
    "machinery: the book's": ["docs/figures/*", "docs/site/*", "docs/api/*", "docs/changes/*", "docs/races/*", "docs/*.py",
                              "docs/*.txt", "docs/*.cmake", "docs/CMakeLists.txt", "Doxyfile"],
    "machinery: harness and reference": ["common/harness/*", "common/reference/*"],
    "machinery: instruments": ["common/device/instruments/*"],
    "teaching: simulator": ["common/simt/*"],
    "teaching: grader and exercises": ["common/grader/*", "stages/*/exercises/*"],
    "teaching: ladder, player, prologue": ["bench/ladder/*", "docs/player/*", "stages/*/tour*.txt", "docs/prologue/*"],
    "machinery: benchmarks": ["bench/*"],
    "product: stages": ["stages/*"],
    "product: common": ["common/*"],
    "product: Python, build, examples": ["python/*", "cmake/*", "CMake*", "examples/*"],
}
# How large a kernel file, its longest function and a step may be.
FILE_LINES, FUNCTION_LINES, NEW_LINES = 360, 200, 250
FUNCTIONS = dict.fromkeys(("09_async_copy", "10_tma", "15_wgmma_backward"), 280)
# The chapters of these say why.
STEPS = {("09_async_copy", "backward"): 415, ("13_ping_pong", "forward"): 276, ("20_split_kv", "forward"): 470}
# How many words a chapter and README.md may have; README.md's tables and listings count.
WORDS, README_WORDS = 3500, 1600
CHAPTERS = {"09_async_copy": 4500, "13_ping_pong": 4500, "14_persistent": 5000}
NO_CODE = ("*.md", "LICENSE", ".clang-format", ".gitignore")
FOLLOWS = re.compile(r'stage\.(forward|backward)\.follows = "(\w+)";')


def lines_of(path):
    """The lines of a file that are not empty, without indentation; none of a file that is not text."""
    try:
        return [line.strip() for line in (ROOT / path).read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError:
        return []


def kind_of(path):
    """The kind of a file; None if it is prose or belongs to the repository itself."""
    if any(fnmatch.fnmatch(path, pattern) for pattern in NO_CODE):
        return None
    return next(kind for kind, patterns in KINDS.items()
                if any(fnmatch.fnmatch(path, pattern) for pattern in patterns))


def sizes():
    """The lines of each kind, and of all kinds whose name begins alike."""
    lines = collections.Counter()
    for path in files():
        if kind := kind_of(path):
            count = len(lines_of(path))
            lines[kind] += count
            lines[kind.split(":")[0]] += count if ":" in kind else 0
    return lines


def sources(stage, which):
    """The stage's files for a pass: its kernels', and what that includes, but not the other pass's."""
    found, left = set(), [KERNELS[which]]
    while left:
        path = ROOT / "stages" / stage / left.pop()
        if path.exists() and path not in found and (not found or path.name not in KERNELS.values()):
            found.add(path)
            left += re.findall(r'^#include "(\w+\.cuh)"', path.read_text(encoding="utf-8"), re.M)
    return sorted(found)


def longest_function(path):
    """The lines of the longest function that begins in the first column, from its first to its last."""
    longest, begin = 0, None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        if re.match(r"(?!struct|class|namespace|enum)[a-zA-Z_]", line) and begin is None:
            begin = number
        if line.startswith("}") and begin is not None:
            longest = max(longest, number - begin + 1)
        if line.startswith("}") or line.rstrip().endswith(";") and not line.startswith(" "):
            begin = None
    return longest


def named_alike(stage, paths):
    """The lines of a stage's files, without its name and namespace."""
    word = stage.split("_", 1)[1]
    return collections.Counter(re.sub(rf"\b{stage}\b|\bcuflash::{word}\b", "", line)
                               for path in paths for line in lines_of(path))


def words(stage):
    """The words of a chapter, without its listings and tables."""
    text = (ROOT / "stages" / stage / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```|^\|.*?$|<!--.*?-->", "", text, flags=re.M | re.S)
    return len(text.split())


def stages():
    """A row for each pass of each stage."""
    for path in sorted(pathlib.Path(name) for name in files("stages/*/stage.cu")):
        stage, chapter = path.parent.name, words(path.parent.name)
        follows = dict(FOLLOWS.findall((ROOT / path).read_text(encoding="utf-8")))
        for which in KERNELS:
            own, before = sources(stage, which), follows.get(which)
            if not own:
                continue
            mine = named_alike(stage, own)
            new = sum((mine - named_alike(before, sources(before, which))).values()) if before else None
            yield (stage, which, sum(mine.values()), max(map(longest_function, own)), before or "",
                   "" if new is None else new, chapter)
            chapter = ""


def too_large(rows):
    """A sentence for each file, function, step and page that is larger than it may be."""
    for path in files("stages/*/*.cuh"):
        count = len((ROOT / path).read_text(encoding="utf-8").splitlines())
        if count > FILE_LINES:
            yield f"{path} has {count} lines of {FILE_LINES}"
    for stage, which, _, longest, _, new, chapter in rows:
        limit = FUNCTIONS.get(stage, FUNCTION_LINES)
        if longest > limit:
            yield f"{stage}, {which}: a function has {longest} lines of {limit}"
        limit = STEPS.get((stage, which), NEW_LINES)
        if new != "" and new > limit:
            yield f"{stage}, {which}: {new} lines are new, of {limit}"
        limit = CHAPTERS.get(stage, WORDS)
        if chapter != "" and chapter > limit:
            yield f"the chapter of {stage} has {chapter} words of {limit}"
    count = len((ROOT / "README.md").read_text(encoding="utf-8").split())
    if count > README_WORDS:
        yield f"README.md has {count} words of {README_WORDS}"


def main():
    lines = sizes()
    for kind in sorted(lines):
        name = kind if ":" not in kind else "  " + kind.split(": ")[1]
        print(f"{name:40}{lines[kind]:8,}")
    print(f"\n{'stage':24}{'pass':10}{'lines':>6}{'longest':>9}  {'follows':24}{'new':>5}{'words':>8}")
    rows = list(stages())
    for stage, which, count, longest, before, new, chapter in rows:
        print(f"{stage:24}{which:10}{count:6}{longest:9}  {before:24}{new:>5}{chapter:>8}")
    return "\n".join(too_large(rows)) or None


if __name__ == "__main__":
    sys.exit(main())
