"""Sphinx's settings, and the list of the book's pages. Build with: scripts/docs.sh"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# For book.py and report.py.
sys.path[:0] = [str(ROOT / folder) for folder in ("docs/site", "scripts/maintainer", "scripts")]
import repository  # noqa: E402, it lies there


def chapters():
    """Of each stage its chapter, its notebook and its exercises."""
    def place(path):
        _, stage, *rest = path.split("/")
        return stage, len(rest), rest[-1] != "README.md", path
    return sorted(repository.files("stages/*.md"), key=place)


# Every page, by part, in reading order. A page lies under the one before it whose folder holds it:
# the exercises under their chapter. README.md comes before them all.
book_parts = {
    "Begin": [
        "docs/quarter_hour.md",
        "docs/ladder.md",
        "docs/how_fast.md",
        "docs/prologue/README.md",
        "docs/glossary.md",
    ],
    "The ladder": chapters(),
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
    "light_css_variables": {"color-code-background": "#f6f8fa"},
    "dark_css_variables": {"color-code-background": "#1c2025"},
}
html_static_path = ["static"]
html_css_files = ["katex/katex.min.css", "book.css"]
html_js_files = [("katex/katex.min.js", {"defer": "defer"}), ("formulas.js", {"defer": "defer"})]
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "api_link.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
html_use_index = False
html_show_copyright = False
html_show_search_summary = False  # A page opened from a file may not read another.
pygments_style = "xcode"
pygments_dark_style = "github-dark"
highlight_language = "none"
