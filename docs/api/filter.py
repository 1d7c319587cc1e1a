#!/usr/bin/env python3
"""The sources of kernels as Doxygen reads them: filter.py FILE prints one.

The sources have no commands of Doxygen. Here the comment before a declaration or behind a member
becomes its documentation, functions lose their bodies, and what a file declares joins a group: its
stage's, or its folder's in common/device. The group of a stage states the facts in its stage.cu.
The documentation of a word in common/device/ptx names the instructions in its body, and the chapter
of the PTX ISA that defines them.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GROUPS = {"device": "words", "ptx": "ptx", "host": "launches"}
PTX_ISA = "https://docs.nvidia.com/cuda/parallel-thread-execution/index.html#"
# The chapters of the PTX ISA: title, anchor, and the first words of their instructions.
CHAPTERS = [
    ("Data Movement and Conversion Instructions", "data-movement-and-conversion-instructions",
     ["cp", "cvt", "ld", "prefetch"]),
    ("Parallel Synchronization and Communication Instructions",
     "parallel-synchronization-and-communication-instructions",
     ["bar", "fence", "mbarrier", "red"]),
    ("Warp Level Matrix Multiply-Accumulate Instructions", "warp-level-matrix-instructions",
     ["ldmatrix", "mma"]),
    ("Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions",
     "asynchronous-warpgroup-level-matrix-instructions", ["wgmma"]),
    ("Logic and Shift Instructions", "logic-and-shift-instructions", ["and", "shl"]),
    ("Floating Point Instructions", "floating-point-instructions", ["ex2"]),
    ("Miscellaneous Instructions", "miscellaneous-instructions", ["setmaxnreg"]),
]
# What Doxygen would take for a command, or for the name of a struct, outside `code` and "quotes".
MEANING = re.compile(r'`.*?`|"[^"<>@\\#%&]*"|(?P<sign>[<>@\\#%&])|(?P<bold>\b__\w+__\b)'
                     r"|(?<![\w:])(?P<word>[A-Z][a-z]+)\b(?![:(])")
# What the group of a stage lists: structs, and kernels behind their launch bounds.
DECLARED = {
    "Config": re.compile(r"^struct (\w*Config) ", re.MULTILINE),
    "Shared memory": re.compile(r"^struct (\w*Storage) ", re.MULTILINE),
    "Kernels": re.compile(r"__global__ void (?:__launch_bounds__[^;{]*?\)\s+)?(\w+)\("),
}


def plain(text):
    """A comment's text: only code, marked or indented, and function() mean something to Doxygen."""
    def quoted(found):
        kind = found.lastgroup
        return {"bold": "`{}`", "word": "%{}", "sign": "\\{}"}.get(kind, "{}").format(found[0])
    return text if text.startswith("    ") else MEANING.sub(quoted, text)


def without_comment(line):
    """The line without the comment behind its code."""
    return re.sub(r" +// .*", "", line)


def with_instructions(comment, body):
    """The comment of a word, with the instructions in its body and in the comment itself."""
    code = " ".join(re.findall(r'"(.*?)"', body) + comment)
    used, source = [], []
    for title, anchor, first in CHAPTERS:
        names = re.findall(rf"(?<![\w.])(?:{'|'.join(first)})\.[\w.:]*\w", code)
        if names:
            used += dict.fromkeys(names)
            source.append(f'PTX ISA, <a href="{PTX_ISA}{anchor}">{title}</a>')
    if not used:
        return comment
    names = ", ".join("<code>" + name.replace("::", r"\::") + "</code>" for name in used)
    return [f"/// {names}:", *comment, "/// @par Source", f"/// {'; '.join(source)}"]


def documented(lines, group):
    """The lines as Doxygen reads them, with their declarations in this group."""
    comment, is_first, in_type, behind = [], True, False, None
    n = 0
    while n < len(lines):
        line = lines[n]
        n += 1
        found = re.fullmatch(r"( *)//(?: (.*))?", line)
        if found and len(found[1]) == behind:  # It continues the comment behind a member.
            yield f"{found[1]}///< {plain(found[2] or '')}"
            continue
        behind = None
        if found and len(found[1]) == (2 if in_type else 0):
            comment.append(f"{found[1]}/// {plain(found[2] or '')}")
            continue

        if line.startswith("#define "):  # The macros in these files are no words: they are left out.
            while lines[n - 1].endswith("\\"):
                n += 1
            comment = []
            continue

        # A declaration is `head`, which may be empty, and its last line. A function loses its body.
        is_top = not in_type and re.match(r"\w", line) and not re.match("namespace |extern ", line)
        end = n - 1
        while is_top and not re.search("[{;}]$", without_comment(lines[end])):
            end += 1
        *head, last = lines[n - 1:end + 1]
        n = end + 1
        if is_top and last.endswith(") {"):
            n = next(m for m in range(n, len(lines)) if lines[m].startswith("}")) + 1
            last += without_comment(lines[n - 1])
            if group == "ptx":
                comment = with_instructions(comment, "\n".join(lines[end:n]))
        elif is_top:
            in_type = last.endswith("{") and any(re.match("(struct|class|enum|union) ", part)
                                                 for part in [*head, last])
        elif last == "};":
            in_type = False

        if is_first:
            yield from ("/// @file", f"/// @ingroup {group}", *comment)
        elif last:  # Before an empty line it belongs to no declaration.
            yield from comment
        comment, is_first = [], False
        yield from head
        if last.startswith("}  // namespace"):
            yield "/** @} */"
        elif (is_top or in_type) and re.match(r"(  )?(?! |using [\w:]+;).*[;,}] +// ", last):
            behind = last.index("//")
            last = f"{last[:behind]}///< {plain(last[behind + 3:])}"
        yield last
        if last.startswith("namespace "):
            yield f"/** @addtogroup {group}\n@{{ */"


def value(text, ranks):
    """The right-hand side of a fact, in words or as links where there are some."""
    arch = re.fullmatch(r"\{(\d+)(\d)(, true)?\}", text)
    if arch:
        return f"compute capability {arch[1]}.{arch[2]}{' alone' if arch[3] else ''}"
    lists = re.fullmatch(r"\w+_pass<\w+, (\w+), (\w+)>\(\)", text)
    if lists:
        return links(lists.groups(), "cuflash")
    if re.fullmatch(r'"\w+"', text):  # the stage that it follows
        return f"@ref stage_{text[1:-1]} {text}"
    return "; ".join(ranks) if text == "rank" else f"`{text}`"


def links(names, namespace):
    """The names as links to what the namespace declares."""
    return ", ".join(f'@ref {namespace}::{name} "{name}"' for name in dict.fromkeys(names))


def stage_group(folder):
    """The group of a stage: its lesson, its chapter, what it declares and its facts."""
    source = (folder / "stage.cu").read_text(encoding="utf-8")
    kernels = "".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.cuh")))
    chapter = (folder / "README.md").read_text(encoding="utf-8")
    title, about = re.match("# (.*): (.*)", chapter).groups()
    namespace = re.search(r"^namespace (\S+) \{", source, re.MULTILINE)[1]
    ranks = [f"{rank}: {reason}" for rank, reason in
             re.findall(r'return \{(\d+), "(.*)"\}', source)]
    stage, passes = {}, {}
    for part, fact, text in re.findall(r"^  stage\.(?:(\w+)\.)?(\w+) =\s*(.*?);$",
                                       re.sub(r"\n {4,}", " ", source), re.MULTILINE):
        if part:
            passes[part][f'@ref cuflash::PassFacts::{fact} "{fact}"'] = value(text, ranks)
        elif fact in ("forward", "backward"):
            passes[fact] = {"dtypes, head_dims": value(text, ranks)}
        else:
            stage[fact] = plain(text.strip('"'))

    yield f"/** @defgroup stage_{folder.name} {title}\n@ingroup stages"
    yield f"@brief {plain(about[0].upper() + about[1:])}.\n"
    yield f'<a href="../stages/{folder.name}/index.html">Its chapter</a> explains it.'
    yield f"- What it teaches: {stage['teaches']}."
    yield f"- What it removes: {stage['removes']}."
    yield f"- What limits it: {stage['limiter']}."
    for label, pattern in DECLARED.items():
        yield f"- {plain(label)}: {links(pattern.findall(kernels), namespace)}"
    yield ""
    rows = [["fact", *passes], ["---"] * (1 + len(passes))]
    for fact in dict.fromkeys(fact for facts in passes.values() for fact in facts):
        rows.append([fact, *(facts.get(fact, "") for facts in passes.values())])
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield "*/"
    yield f'/** @namespace {namespace}\nThe kernels of @ref stage_{folder.name} "{folder.name}". */'


def main():
    path = Path(sys.argv[1])
    if path.name == "stage.cu":
        lines = stage_group(path.resolve().parent)
    else:
        folder = path.resolve().parent.name
        text = path.read_text(encoding="utf-8").rstrip("\n")
        lines = documented(text.split("\n"), GROUPS.get(folder, f"stage_{folder}"))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
