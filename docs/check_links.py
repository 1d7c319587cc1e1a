#!/usr/bin/env python3
"""Checks that links lead somewhere: check_links.py [HTML_DIRECTORY].

In every Markdown file that git tracks (or would), each relative link must name a file or directory
of the repository, and its anchor a heading there; in a file of another kind a line, #L57, or lines,
#L57-L60, that it has. In the directory, if one is given, each local href and src of every page must
exist, anchors included, and no page may load anything from another host. Links to other hosts are
not followed.
"""

import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import repository  # noqa: E402, it lies there

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


def is_external(target):
    """True if the target is no path of the repository."""
    return re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE) is not None


def resolve(path, target):
    """The file or directory of the repository that `target` in `path` names; and the anchor."""
    name, _, anchor = target.partition("#")
    if not name:
        return path, anchor
    return os.path.normpath(os.path.join(os.path.dirname(path), name)), anchor


class Markdown:
    """The links and anchors of one Markdown file."""

    def __init__(self, path):
        self.anchors, self.links = set(), []
        seen, line_number = {}, 1
        for language, lines in blocks((ROOT / path).read_text(encoding="utf-8")):
            if language is None:
                for line in lines:
                    heading = HEADING.match(line)
                    if heading:
                        self.anchors.add(slug(heading[2], seen))
                text = "\n".join(lines)
                self.anchors.update(re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", text))
                self._add_links(text, line_number)
            line_number += len(lines)

    def _add_links(self, text, first_line):
        found = [(m.start("target"), m["target"]) for m in INLINE.finditer(text) if m["target"]]
        for pattern in (r"!\[[^\]]*\]\(([^()\s]+)\)", r"<(?:img|a)\s[^>]*(?:src|href)=\"([^\"]+)\"",
                        r"^ {0,3}\[[^\]]+\]:\s*(\S+)"):
            found += [(m.start(1), m[1]) for m in re.finditer(pattern, text, re.MULTILINE)]
        for position, target in sorted(set(found)):
            self.links.append((first_line + text.count("\n", 0, position), target))


def has_lines(file, anchor):
    """True if the anchor names a line of the file, or its lines from one to another."""
    match = re.fullmatch(r"L([1-9]\d*)(?:-L([1-9]\d*))?", anchor)
    if not match or not (ROOT / file).is_file():
        return False
    first, last = int(match[1]), int(match[2] or match[1])
    return first <= last <= (ROOT / file).read_text(encoding="utf-8").count("\n")


def check_markdown(errors):
    files = repository.files()
    known = {*files, "."}
    for name in files:
        known.update(parent.as_posix() for parent in Path(name).parents)
    pages = {name: Markdown(name) for name in files if name.endswith(".md")}
    count = 0
    for name, page in sorted(pages.items()):
        for line, target in page.links:
            if is_external(target):
                continue
            count += 1
            file, anchor = resolve(name, unquote(target))
            if file not in known:
                errors.append(f"{name}:{line}: {target}: there is no {file} in the repository")
            elif anchor and file in pages and anchor not in pages[file].anchors:
                errors.append(f"{name}:{line}: {target}: {file} has no heading #{anchor}")
            elif anchor and file not in pages and not has_lines(file, anchor):
                errors.append(f"{name}:{line}: {target}: {file} has no lines #{anchor}")
    return count, len(pages)


class Html(HTMLParser):
    """The links and anchors of one HTML page."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.anchors.add(value)
            elif key in ("href", "src") and value:
                loads = self.loads if key == "src" or tag == "link" else self.links
                loads.append((self.getpos()[0], value))


def check_html(directory, errors):
    pages = {path.resolve(): Html(path) for path in sorted(directory.rglob("*.html"))}
    if not pages:
        errors.append(f"{directory}: no HTML pages")
    count = 0
    for path, page in pages.items():
        for line, link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.netloc and (line, link) in page.loads:
                    errors.append(f"{path.relative_to(directory.resolve())}:{line}: {link}: "
                                  "is on another host")
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            where = f"{path.relative_to(directory.resolve())}:{line}: {link}"
            if not target.is_file():
                errors.append(f"{where}: no such file")
            elif parts.fragment and target in pages and "=" not in parts.fragment:  # a player's state
                if unquote(parts.fragment) not in pages[target].anchors:
                    errors.append(f"{where}: no such anchor")
    return count, len(pages)


def main():
    errors = []
    print("%d links in %d Markdown files checked" % check_markdown(errors))
    if len(sys.argv) > 1:
        print("%d links in %d HTML pages checked" % check_html(Path(sys.argv[1]), errors))
    for error in errors:
        print(error, file=sys.stderr)
    if errors:
        sys.exit(f"{len(errors)} broken link(s)")


if __name__ == "__main__":
    main()
