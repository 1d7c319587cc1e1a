#!/usr/bin/env python3
"""Finds each line of the paper's algorithms in the kernels.

    scripts/maintainer/paper_lines.py [--check]

The algorithms are 1 (forward) and 2 (backward) of FlashAttention-2 (Dao 2023, arXiv:2307.08691). From 03 to 18
the kernels of a stage carry tags:

    // [FA2 Alg.1 l.8]  S = Q_i K_jᵀ          above the paragraph that does line 8
    do_it();  // [FA2 Alg.1 l.4-5]            behind the code that does lines 4 and 5
    for (…) {  // [FA2 Alg.1 l.6, 11]         line 11, the loop's end, is at the closing brace

A header of common/device that a stage includes, and that has kernels, counts as the stage's.

docs/papers.md shows, between `<!-- algorithm 03_online_softmax 1 -->` and `<!-- end algorithm -->`,
the table that this script writes there. The script fails if a line has no tag, or if a line comes
before one that it needs. --check writes nothing, and also fails if the page does not show a table.
"""
import os.path
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/papers.md"

# The paper's lines: the number, the lines that it needs, its text. A needed line is in the same
# kernel, before or with this one.
LINES = {
    1: """
1  |       | divide Q, K and V into blocks
2  | 1     | divide O and L into blocks
3  | 2     | for each block i of queries
4  | 3     | load Q_i
5  | 4     | O_i = 0, l_i = 0, m_i = −∞
6  | 5     | for each block j of keys
7  | 6     | load K_j, V_j
8  | 7     | S = Q_i K_jᵀ
9  | 8     | m_i = max(m_i, rowmax S), P = exp(S − m_i), l_i = exp(m_i before − m_i) l_i + rowsum P
10 | 9     | O_i = exp(m_i before − m_i) O_i + P V_j
11 | 10    | end for
12 | 11    | O_i = O_i / l_i
13 | 11    | L_i = m_i + log l_i
14 | 12    | write O_i
15 | 13    | write L_i
16 | 14 15 | end for
17 | 16    | return O, L
""",
    2: """
1  |               | divide Q, K and V into blocks
2  | 1             | divide O, dO and L into blocks
3  | 2             | dQ = 0; divide dQ, dK and dV into blocks
4  | 2             | D = rowsum(dO ∘ O)
5  | 2             | for each block j of keys
6  | 5             | load K_j, V_j
7  | 3 5           | dK_j = 0, dV_j = 0
8  | 2             | for each block i of queries
9  | 8             | load Q_i, O_i, dO_i, dQ_i, L_i, D_i
10 | 6 9           | S = Q_i K_jᵀ
11 | 10            | P = exp(S − L_i)
12 | 7 11          | dV_j = dV_j + Pᵀ dO_i
13 | 6 9           | dP = dO_i V_jᵀ
14 | 4 11 13       | dS = P ∘ (dP − D_i)
15 | 3 14          | dQ_i = dQ_i + dS K_j, from and to memory
16 | 7 14          | dK_j = dK_j + dSᵀ Q_i
17 | 8 12 15 16    | end for
18 | 12 16         | write dK_j, dV_j
19 | 5 12 15 16 18 | end for
20 | 17 19         | return dQ, dK, dV
""",
}
LOOPS = {1: {3: 16, 6: 11}, 2: {5: 19, 8: 17}}
# If several kernels share the backward pass, each has only some of these lines.
SHARED = {1: (), 2: (4, 12, 15, 16, 18)}

BOUNDS = r"(?:__launch_bounds__\([^()]*\)\s+)?"
INCLUDE = re.compile(r'#include "(device/\w+\.h)"')
KERNEL = re.compile(rf"__global__\s+{BOUNDS}void\s+{BOUNDS}((?!__)\w+)\(")
TAG = re.compile(r"^(?P<code>.*?) *// \[FA2 Alg\.(?P<algorithm>[12]) l\.(?P<lines>\d+(?:(?:-|, )\d+)*)\]"
                 r"(?:, (?:first|second) half)?(?P<words>.*)$")
TABLE = re.compile(r"(<!-- algorithm (\w+) ([12]) -->\n).*?(<!-- end algorithm -->)", re.DOTALL)


def paper(algorithm):
    """{line: (its text, the lines that it needs)} of an algorithm."""
    rows = [row.split("|") for row in LINES[algorithm].strip().splitlines()]
    return {int(n): (says.strip(), [int(need) for need in needs.split()]) for n, needs, says in rows}


class Place:
    """Lines [first, last] of a kernel's file, and the text to show for them."""

    def __init__(self, kernel, file, first, last, shown):
        self.kernel, self.file = kernel, file
        self.first, self.last, self.shown = first, last, shown

    def link(self, stage):
        span = f"#L{self.first}" + (f"-L{self.last}" if self.last > self.first else "")
        name = str(self.first) + (f"–{self.last}" if self.last > self.first else "")
        path = os.path.normpath(f"../stages/{stage}/{self.file}")
        return f"[{name}]({path}{span}) `{self.shown}`".replace("|", "\\|")


def numbers(text):
    """'1-3, 5' -> [1, 2, 3, 5]."""
    parts = [part.split("-") for part in text.split(", ")]
    return [n for part in parts for n in range(int(part[0]), int(part[-1]) + 1)]


def indent(line):
    return len(line) - len(line.lstrip())


def end_of_paragraph(lines, n):
    """The last line of the paragraph whose title is the comment in line n."""
    last = n
    for m in range(n + 1, len(lines)):
        line, tag = lines[m], TAG.match(lines[m])
        if not line or (tag and not tag["code"].strip()):
            break
        if indent(line) < indent(lines[n]) and not line.startswith("#"):
            break
        last = m
    return last


def end_of_block(lines, n):
    """The closing brace of the block that line n opens."""
    return next(m for m in range(n + 1, len(lines)) if lines[m].startswith(" " * indent(lines[n]) + "}"))


def places(file, text, errors):
    """[(algorithm, paper's line, Place)] of every tag in a file, in the file's order."""
    found, kernel, lines = [], None, text.split("\n")
    for n, line in enumerate(lines):
        begins = KERNEL.search(line + " " + "".join(lines[n + 1:n + 3])) if "__global__" in line else None
        kernel = begins[1] if begins else kernel
        tag = TAG.match(line)
        if "FA2 Alg" in line and not tag:
            errors.append(f"{file}:{n + 1}: this is no tag: {line.strip()}")
        elif tag and not kernel:
            errors.append(f"{file}:{n + 1}: a tag outside of a kernel")
        elif tag:
            algorithm, code = int(tag["algorithm"]), tag["code"].strip()
            for number in numbers(tag["lines"]):
                if number in LOOPS[algorithm].values() and code.endswith("{"):
                    m = end_of_block(lines, n)
                    place = Place(kernel, file, m + 1, m + 1, "}")
                elif code:
                    place = Place(kernel, file, n + 1, n + 1, code)
                else:
                    last = end_of_paragraph(lines, n)
                    words = re.split(r" {2,}//", tag["words"])[0].strip()
                    place = Place(kernel, file, n + 1, last + 1, words)
                found.append((algorithm, number, place))
        if line.startswith("}"):
            kernel = None
    return found


def check_kernel(algorithm, kernel, first, errors):
    """Adds an error for each line that lacks a tag, or that comes before one that it needs. `first`
    is {paper's line: source line}."""
    says = paper(algorithm)
    for line in sorted(first):
        if line not in says:
            errors.append(f"{kernel}: Alg.{algorithm} has no l.{line}")
            continue
        for need in says[line][1]:
            if need in first and first[need] > first[line]:
                errors.append(f"{kernel}: Alg.{algorithm} l.{line} stands before l.{need}")
            elif need not in first and need not in SHARED[algorithm]:
                errors.append(f"{kernel}: Alg.{algorithm} l.{need} has no tag, and l.{line} needs it")
        end = LOOPS[algorithm].get(line)
        if end and end not in first:
            errors.append(f"{kernel}: Alg.{algorithm} l.{end}, the end of the loop of l.{line}, has no tag")


def table(stage, algorithm, found):
    """The Markdown table of an algorithm: a row for each line, a column for each kernel."""
    kernels = list(dict.fromkeys(place.kernel for _, _, place in found))
    rows = ["| line | the paper | " + " | ".join(f"`{kernel}`" for kernel in kernels) + " |",
            "| --- " * (2 + len(kernels)) + "|"]
    for line, (says, _) in paper(algorithm).items():
        cells = ["<br>".join(place.link(stage) for _, number, place in found
                             if number == line and place.kernel == kernel) for kernel in kernels]
        rows.append(f"| {line} | {says} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def check_stage(stage, kernels, page):
    """(a stage's name, {file: text} of its kernels, page) -> (page with its tables, errors)."""
    errors, found = [], []
    for file, text in sorted(kernels.items()):
        found += places(file, text, errors)
    tables = {}
    for algorithm, file in ((1, "kernel.cuh"), (2, "kernel_bwd.cuh")):
        if file not in kernels:
            continue
        own = [entry for entry in found if entry[0] == algorithm]
        for kernel in dict.fromkeys(place.kernel for _, _, place in own):
            first = {}
            for _, line, place in own:
                if place.kernel == kernel:
                    first.setdefault(line, place.first)
            check_kernel(algorithm, kernel, first, errors)
        missing = set(paper(algorithm)) - {line for _, line, _ in own}
        errors += [f"Alg.{algorithm} l.{line} has no tag" for line in sorted(missing)]
        tables[str(algorithm)] = table(stage, algorithm, own)
    shown = [match[2] for match in TABLE.findall(page) if match[1] == stage]
    if shown != list(tables):
        errors.append(f"docs/papers.md shows the algorithms {shown}, not {list(tables)}")
        return page, errors
    return TABLE.sub(lambda m: m[1] + tables[m[3]] + m[4] if m[2] == stage else m[0], page), errors


def kernels_of(folder):
    """{file: its text} of a stage's kernels, and of those headers with kernels that it includes."""
    kernels = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.cuh")}
    for name in sorted(set(INCLUDE.findall("\n".join(kernels.values())))):
        text = (ROOT / "common" / name).read_text(encoding="utf-8")
        if KERNEL.search(text):
            kernels[f"../../common/{name}"] = text
    return kernels


def main():
    """Writes or checks the tables of the stages that carry tags."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        raise SystemExit(__doc__)
    old = page = PAGE.read_text(encoding="utf-8")
    stages = [folder for folder in sorted(ROOT.glob("stages/[0-8]?_*")) if "03" <= folder.name < "19"]
    strangers = {match[1] for match in TABLE.findall(page)} - {folder.name for folder in stages}
    errors = [f"docs/papers.md: there is no stage {name}" for name in sorted(strangers)]
    for folder in stages:
        kernels = kernels_of(folder)
        page, wrong = check_stage(folder.name, kernels, page)
        errors += [f"{folder.name}: {error}" for error in wrong]
    if page != old and check:
        errors.append("the tables of docs/papers.md are stale: run scripts/maintainer/paper_lines.py")
    elif page != old:
        PAGE.write_text(page, encoding="utf-8")
        print("rewrote docs/papers.md")
    if errors:
        raise SystemExit("\n".join(errors))


if __name__ == "__main__":
    main()
