#!/usr/bin/env python3
"""Doxygen's input filter: prints one file the way Doxygen 1.9.4 understands it.

Markdown, written for code hosts:
  * `$…$` and ```math blocks become Doxygen's formulas;
  * every heading gets an explicit id, so that links to it work;
  * a relative link becomes a reference to the page or source listing it names. Other files of the
    repository (scripts, data) have no page: of a link to one, only the text remains;
  * an image is named without its folder, as Doxygen looks for it under IMAGE_PATH.
Sources of a stage: a page with the first comment and the listing. Links to it work, and no kernel's
inner names fill the lists of public names.

Markdown's line numbers stay as they are, so that Doxygen's warnings point to the right line.
"""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

FENCE = re.compile(r"^ {0,3}(```+|~~~+)\s*([\w-]*)")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
INLINE = re.compile(
    r"(?P<ticks>`+)(?P<code>.+?)(?P=ticks)(?!`)"
    r"|(?P<image>!?)\[(?P<text>(?:`[^`]*`|!\[[^\]]*\]\([^)]*\)|[^\[\]])*)\]\((?P<target>[^()\s]+)\)"
    r"|\$`(?P<math_code>[^`]+)`\$"
    r"|(?<![\\$])\$(?P<math>[^$\s](?:[^$]*?[^$\s\\])?)\$(?![\d$])",
    re.DOTALL,
)


def slug(heading, seen):
    """The anchor that code hosts give a heading; `seen` counts the ones before it in its file."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    count = seen.get(text, 0)
    seen[text] = count + 1
    return f"{text}-{count}" if count else text


def blocks(text):
    """Splits Markdown into (language, lines): language is None for prose, else the fence's."""
    result, lines, fence, language = [], [], None, None
    for line in text.split("\n"):
        match = FENCE.match(line)
        if fence is None and match:
            result.append((None, lines))
            lines, fence, language = [line], match[1], match[2]
        elif fence is not None and match and match[1].startswith(fence) and not match[2]:
            result.append((language, lines + [line]))
            lines, fence = [], None
        else:
            lines.append(line)
    result.append((None if fence is None else language, lines))
    return [block for block in result if block[1]]


def page_id(path):
    """The Doxygen name of a Markdown file's page; `path` is relative to the repository."""
    if path == "README.md":
        return "index"
    return re.sub(r"\W", "_", path[: -len(".md")])


def heading_id(path, anchor):
    return page_id(path) + "_" + re.sub(r"[^a-zA-Z0-9_-]", "_", anchor)


def is_external(target):
    return re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE) is not None


def resolve(path, target):
    """The file or directory, relative to the repository, that `target` in `path` names; and the anchor."""
    name, _, anchor = target.partition("#")
    if not name:
        return path, anchor
    return os.path.normpath(os.path.join(os.path.dirname(path), name)), anchor


def has_listing(path):
    """Is this file among Doxygen's inputs?"""
    if "/exercises/" in path:
        return False
    return path.endswith((".cu", ".cuh")) or path == "stages/stages.cpp" or (
        path.startswith("common/include/") and path.endswith(".h"))


def reference(path, text, target):
    """A Markdown link in Doxygen's words."""
    if is_external(target):
        return f"[{text}]({target})"
    file, anchor = resolve(path, target)
    if (ROOT / file / "README.md").is_file():
        file = os.path.normpath(os.path.join(file, "README.md"))
    if file.endswith(".md"):
        name = heading_id(file, anchor) if anchor else page_id(file)
    elif has_listing(file):
        name = file
    else:
        return text
    # The text of @ref is plain and on one line; a line break in it goes before the link.
    plain = text.replace("`", "").replace("\n", " ")
    return "\n" * text.count("\n") + f"[{plain}](@ref {name})"


def inline(path, text):
    def replace(match):
        if match["code"] is not None:
            return match[0]
        if match["image"]:
            return f"![{match['text']}]({os.path.basename(match['target'])})"
        if match["text"] is not None:
            return reference(path, match["text"], match["target"])
        return "\\f$" + (match["math_code"] or match["math"]) + "\\f$"

    return INLINE.sub(replace, text)


def markdown(path, text):
    result, seen, title_done = [], {}, False
    for language, lines in blocks(text):
        if language == "math":
            result += ["\\f["] + lines[1:-1] + ["\\f]"]
        elif language is not None:
            result += lines
        else:
            for line in inline(path, "\n".join(lines)).split("\n"):
                heading = HEADING.match(line)
                if heading:
                    name = heading_id(path, slug(heading[2], seen))
                    if heading[1] == "#" and not title_done:
                        name, title_done = page_id(path), True
                    line = heading[1] + " " + heading[2].replace("`", "")
                    if name != "index":
                        line += f" {{#{name}}}"
                result.append(line)
    if sum(line.startswith("## ") for line in result) > 2:
        result.append("@tableofcontents")
    return "\n".join(result)


def source(path, text):
    comment = []
    for line in text.split("\n"):
        if not line.startswith("//"):
            break
        comment.append(line.lstrip("/ "))
    words = " ".join(comment).strip()
    return f"/** @file {path}\n@brief {words}\n@includelineno {path}\n*/\n"


def main():
    path = Path(sys.argv[1]).resolve().relative_to(ROOT).as_posix()
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        text = markdown(path, text)
    elif not path.startswith("common/include/"):
        text = source(path, text)
    sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
