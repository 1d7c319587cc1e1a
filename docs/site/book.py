"""A Sphinx extension: the repository's Markdown and sources as one site.

The pages are the files of `book_parts` in conf.py and keep their places: stages/01_naive/README.md
becomes stages/01_naive/index.html. A link to a public header leads to its page in Doxygen's
reference, a link to another file or folder of the repository to a listing under sources/, where
`#L57` is line 57.
"""

import html
import json
import posixpath
import re
import shutil
import sys
from pathlib import Path

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter  # pylint: disable=no-name-in-module
from pygments.lexers import TextLexer, get_lexer_for_filename  # pylint: disable=no-name-in-module
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.errors import ExtensionError
from sphinx.project import Project
from sphinx.util.osutil import relative_uri

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import repository  # noqa: E402, it lies there

API = "api/"
PLAYERS = ROOT / "build/players"
# Debian's packages of scripts and styles.
KATEX = Path("/usr/share/javascript/katex")
NORMALIZE = Path("/usr/share/javascript/normalize.css/normalize.css")


def name_of_page(path):
    """Sphinx's name of a page, and so its address: stages/01_naive/index."""
    return re.sub(r"(^|/)README$", r"\1index", path[:-len(".md")])


class Book(Project):
    """The pages of the book, as Sphinx sees them."""

    def __init__(self, app, files):
        super().__init__(app.srcdir, app.config.source_suffix)
        self.parts = app.config.book_parts
        pages = ["README.md"] + [path for part in self.parts.values() for path in part]
        self.files = {name_of_page(path): path for path in pages}
        markdown = [path for path in files if path.endswith(".md")]
        if set(pages) != set(markdown) or len(pages) != len(set(pages)):
            wrong = sorted(set(pages) ^ set(markdown)) or "a page is listed twice"
            raise ExtensionError("book_parts in docs/site/conf.py lists other pages than the "
                                 f"repository has: {wrong}")

    def discover(self, *_args, **_kwargs):
        """All pages."""
        self.docnames = set(self.files)
        return self.docnames

    def path2doc(self, filename):
        """The name of the page in this file; None if it is not in the book."""
        path = str(filename)
        if path.startswith("/"):
            path = posixpath.relpath(path, self.srcdir)
        name = name_of_page(path) if path.endswith(".md") else None
        return name if name in self.files else None

    def doc2path(self, docname, basedir=True):
        """The file of this page."""
        path = self.files.get(docname, docname + ".md")
        return str(Path(self.srcdir, path)) if basedir else path

    def parent(self, docname):
        """The page under which this one lies; None at the top of a part."""
        folder = posixpath.dirname(docname.removesuffix("/index"))
        above = posixpath.join(folder, "index")
        return above if folder and above in self.files else None

    def contents(self, docname):
        """The lists of pages under this one, as (caption, names)."""
        parts = self.parts.items() if docname == "index" else [("", list(self.files.values()))]
        above = None if docname == "index" else docname
        for caption, paths in parts:
            names = [name for name in map(name_of_page, paths) if self.parent(name) == above]
            if names:
                yield caption, names


class Sources:
    """The files that pages link to, and the pages that show them."""

    def __init__(self, files):
        self.files = set(files)
        self.folders = {parent.as_posix() for name in files for parent in Path(name).parents}
        self.wanted = set()

    def page(self, path, anchor):
        """The page and the anchor that show a file or folder; None if there is no such path."""
        if re.fullmatch(r"common/include/cuflash/\w+\.h", path) and not anchor:
            name = posixpath.basename(path).replace("_", "__").replace(".", "_8")
            return f"{API}{name}.html", ""
        if path not in self.files | self.folders:
            return None
        self.wanted.add(path)
        return f"sources/{path}.html", anchor.partition("-")[0]  # of L3-L7 the first line

    def listing(self, path):
        """The file with an anchor at each line, or the folder's files, as HTML."""
        if path in self.folders:
            rows = []
            for name in sorted(self.files):
                if name.startswith(path + "/"):
                    self.wanted.add(name)
                    link = relative_uri(f"sources/{path}.html", f"sources/{name}.html")
                    rows.append(f'<li><a href="{link}"><code>{html.escape(name)}</code></a></li>')
            return f"<ul>{''.join(rows)}</ul>"
        text = (ROOT / path).read_text(encoding="utf-8")
        try:
            lexer = get_lexer_for_filename(path, stripnl=False)
        except ClassNotFound:
            lexer = TextLexer(stripnl=False)
        lines = highlight(text, lexer, HtmlFormatter(nowrap=True)).rstrip("\n").split("\n")
        rows = (f'<span class="line" id="L{number}">'
                f'<a class="number" href="#L{number}">{number:4}</a>  {line}</span>'
                for number, line in enumerate(lines, 1))
        return '<div class="highlight listing"><pre>' + "".join(rows) + "</pre></div>"


def begin(app):
    """Takes the book's pages in place of every Markdown file below the root."""
    files = repository.files()
    app.project = app.env.project = Book(app, files)
    app.env.book_sources = Sources(files)
    app.env.book_sections = {}


def player(docname):
    """The page that plays the stage of this chapter, if there is one: docs/players.py makes it."""
    page = PLAYERS / f"{posixpath.basename(posixpath.dirname(docname))}.html"
    return page if posixpath.dirname(docname).startswith("stages/") and page.exists() else None


def with_player(text, page):
    """The chapter with its player before the first section."""
    address = f"../../players/{page.name}"
    return text.replace("\n## ", f"""
```{{raw}} html
<iframe class="player" src="{address}" loading="lazy" title="The run of a block, step by step"></iframe>
<p><a href="{address}">This run on a page of its own</a></p>
```

## """, 1)


def read_page(app, docname, source):
    """Puts a code host's formulas in MyST's words, and adds the chapter's player and the lists of the
    pages below."""
    text = re.sub(r"^( {0,3})```math$", r"\1```{math}", source[0], flags=re.MULTILINE)
    if page := player(docname):
        text = with_player(text, page)
    for caption, names in app.project.contents(docname):
        text += "\n\n```{toctree}\n:hidden:\n" + (f":caption: {caption}\n" if caption else "")
        text += "".join(f"\n/{name}" for name in names) + "\n```\n"
    source[0] = text


def link(app, doctree):
    """Turns links to files of the repository into links to their pages and listings.

    MyST itself resolves those to a heading.
    """
    docname = app.env.docname
    folder = posixpath.dirname(app.project.doc2path(docname, False))
    for node in list(doctree.findall(addnodes.pending_xref)) + list(
            doctree.findall(addnodes.download_reference)):
        name, _, anchor = node["reftarget"].partition("#")
        path = posixpath.normpath(posixpath.join(folder, name))
        if node["reftype"] != "myst" or not name:
            continue
        page = app.project.path2doc(path) or app.project.path2doc(path + "/README.md")
        if page and anchor:
            continue
        if page:
            target = app.builder.get_target_uri(page), ""
        else:
            target = app.env.book_sources.page(path, anchor)
        if target:
            uri = relative_uri(app.builder.get_target_uri(docname), target[0])
            uri += "#" + target[1] if target[1] else ""
            node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=True))


def listings(app):
    """The pages of the files that were linked to."""
    sources = app.env.book_sources
    done = set()
    while sources.wanted - done:  # A folder's page wants its files'.
        path = min(sources.wanted - done)
        done.add(path)
        page = "sources/" + path
        readme = next(folder for folder in [path, *map(str, Path(path).parents)]
                      if app.project.path2doc(posixpath.normpath(folder + "/README.md")))
        chapter = app.project.path2doc(posixpath.normpath(readme + "/README.md"))
        title = html.escape(path + "/" if path in sources.folders else path)
        uri = relative_uri(page, app.builder.get_target_uri(chapter))
        body = (f"<h1><code>{title}</code></h1>\n<p>Belongs to "
                f'<a href="{uri}">{app.env.titles[chapter].astext()}</a>.</p>\n')
        yield page, {"title": title, "body": body + sources.listing(path)}, "page.html"


def note_sections(app, doctree):
    """Keeps the text of each section, for search.js."""
    sections = app.env.book_sections[app.env.docname] = []
    for section in doctree.findall(nodes.section):
        title, *rest = section.children
        text = " ".join(node.astext() for node in rest
                        if not isinstance(node, (nodes.section, nodes.comment, nodes.raw)))
        sections.append((section["ids"][0], title.astext(), re.sub(r"\s+", " ", text)))


def search_scripts(app, pagename, *_):
    """Loads search.js where it is wanted."""
    if pagename == "search":
        app.add_js_file("book_sections.js", defer="defer")
        app.add_js_file("search.js", defer="defer")


def visit_formula(self, node):
    """TeX, for formulas.js to draw; without JavaScript it stays readable."""
    tag = "span" if isinstance(node, nodes.math) else "div"
    self.body.append(self.starttag(node, tag, "", CLASS="formula"))
    self.body.append(self.encode(node.astext()) + f"</{tag}>")
    raise nodes.SkipNode


def finish(app, failure):
    """Adds what the pages load beside Sphinx's files: they need no server and no network."""
    if failure:
        return
    static = Path(app.outdir, "_static")
    sections = f"const bookSections = {json.dumps(app.env.book_sections, ensure_ascii=False)};\n"
    (static / "book_sections.js").write_text(sections, encoding="utf-8")
    Path(static, "katex/fonts").mkdir(parents=True, exist_ok=True)
    for name in ("katex.min.js", "katex.min.css"):
        shutil.copy(KATEX / name, static / "katex")
    for font in (KATEX / "fonts").glob("*.woff2"):
        shutil.copy(font, static / "katex/fonts")
    Path(app.outdir, "players").mkdir(exist_ok=True)
    for page in filter(None, map(player, app.project.docnames)):
        shutil.copy(page, Path(app.outdir, "players"))

    # Debian's Furo is not bundled: its style looks for this file at the root of a web server, its
    # script imports another, which a page opened from a file may not. Its dark colours apply only
    # once the page's button asks for them, not where the system is dark.
    shutil.copy(NORMALIZE, static / "styles")
    style = (static / "styles/furo.css").read_text(encoding="utf-8")
    style = style.replace(f"url(/{NORMALIZE.relative_to('/usr/share')})", f"url({NORMALIZE.name})")
    if "prefers-color-scheme" not in style:
        dark = re.search(r'body\[data-theme="dark"\] \{([^}]*)\}', style)[1]
        style += ("@media (prefers-color-scheme: dark) {body:not([data-theme=light]) {"
                  + dark + "}}\n")
    (static / "styles/furo.css").write_text(style, encoding="utf-8")
    script = (static / "scripts/furo.js").read_text(encoding="utf-8")
    imported = (static / "scripts/gumshoe-patched.js").read_text(encoding="utf-8")
    script = script.replace('import Gumshoe from "./gumshoe-patched.js";', imported)
    (static / "scripts/furo.js").write_text(script, encoding="utf-8")


def setup(app):
    """Connects all this with Sphinx."""
    app.add_config_value("book_parts", {}, "env")
    app.add_html_math_renderer("katex", (visit_formula, None), (visit_formula, None))
    app.connect("builder-inited", begin)
    app.connect("source-read", read_page)
    app.connect("doctree-read", link, priority=100)  # before Sphinx collects downloads
    app.connect("doctree-read", note_sections)
    app.connect("html-page-context", search_scripts)
    app.connect("html-collect-pages", listings)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": False, "parallel_write_safe": False}
