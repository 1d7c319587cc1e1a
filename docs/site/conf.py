"""Sphinx's settings, and the list of the book's pages. Build with: scripts/docs.sh"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# For book.py and report.py.
sys.path[:0] = [str(ROOT / folder) for folder in ("docs/site", "scripts/maintainer", "scripts")]
import repository  # noqa: E402, it lies there


def chapters(first, last):
    """Of the stages with these numbers the chapter, the notebook and the exercises."""
    def place(path):
        _, stage, *rest = path.split("/")
        return stage, len(rest), rest[-1] != "README.md", path
    return sorted((path for path in repository.files("stages/*.md")
                   if first <= int(path.split("/")[1][:2]) <= last), key=place)


# Every page, by part, in reading order. A page lies under the one before it whose folder holds it:
# the exercises under their chapter. The home page comes before them all.
book_parts = {
    "Begin": [
        "docs/quarter_hour.md",
        "docs/ladder.md",
        "docs/how_fast.md",
        "docs/prologue/README.md",
        "docs/glossary.md",
    ],
    "The ladder": chapters(1, 18),
    "Serving": chapters(20, 89),
    "Around it": [
        "docs/how_to_change_it.md",
        "docs/hunting_races.md",
        "docs/player/README.md",
        "docs/beside_pytorch.md",
        "docs/ceilings.md",
        "docs/google_benchmark.md",
        "docs/papers.md",
        "docs/related_work.md",
        "docs/syllabus.md",
    ],
    "Use it": [
        "docs/library.md",
        "python/README.md",
        "examples/README.md",
        "examples/data/README.md",
    ],
    "Look inside": [
        "docs/architecture.md",
        "common/simt/README.md",
        "common/simt/KNOWLEDGE.md",
        "docs/counts_and_chip.md",
        "bench/data/README.md",
    ],
    "Contribute": [
        "CONTRIBUTING.md",
        "docs/readers/README.md",
        "docs/readers/third.md",
        "docs/readers/fourth.md",
        "docs/readers/fifth.md",
        "docs/readers/sixth.md",
        "CHANGELOG.md",
    ],
}

# Where the repository can be cloned from: the home page says so if it is set.
clone_address = ""
# Where the book is published: its pages' addresses begin with this, with a slash at the end.
html_baseurl = ""

project = "CuFlash Ladder"
extensions = ["myst_parser", "book", "report"]
source_suffix = {".md": "markdown"}
root_doc = "index"

# Markdown as code hosts read it: `$…$`, ```math, links to headings.
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_labels = False
myst_dmath_double_inline = True
myst_heading_anchors = 4
myst_update_mathjax = False
html_math_renderer = "katex"

html_theme = "furo"
html_title = project
html_theme_options = {
    "light_css_variables": {
        "color-code-background": "#f6f8fa",
        "read": "#0072b2", "write": "#d55e00", "product": "#009e73", "wait": "#9aa3ad",
        "wrong": "#c00040", "rung": "#0072b233",
    },
    "dark_css_variables": {
        "color-code-background": "#1c2025",
        "read": "#56b4e9", "write": "#e69f00", "product": "#2fc49a", "wait": "#6b7480",
        "wrong": "#ff6b8b", "rung": "#0072b280",
    },
}
html_static_path = ["static"]
html_favicon = "static/favicon.svg"
html_css_files = ["katex/katex.min.css", "book.css"]
html_js_files = [("katex/katex.min.js", {"defer": "defer"}), ("book.js", {"defer": "defer"})]
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
html_use_index = False
html_show_copyright = False
pygments_style = "xcode"
pygments_dark_style = "github-dark"
highlight_language = "none"
