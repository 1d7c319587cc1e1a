"""A Sphinx extension: the repository's Markdown and sources as one site.

The pages are the files of `book_parts` in conf.py and keep their places: stages/01_naive/README.md
becomes stages/01_naive/index.html. The home page, index.html, takes its title and first paragraph from
README.md, the rest from templates/home.html. A link to a public header leads to its page in Doxygen's
reference, a link to another file or folder of the repository to a listing under sources/, where
`#L57` is line 57.
"""

import html
import json
import posixpath
import re
import shutil
import sys
import xml.etree.ElementTree
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
sys.path[:0] = [str(ROOT / "docs/site"), str(ROOT / "scripts/maintainer")]
import home  # noqa: E402, it lies there
from poster import broken_poster, poster  # noqa: E402, it lies there
import repository  # noqa: E402, it lies there

API = "api/"
# The run that the home page shows: the tour of 02 without a barrier.
BROKEN_FAULT = 3
BROKEN_RUN = f"players/02_tiled.html#fault={BROKEN_FAULT}&caption=1"
TAGS = ROOT / "build/api.tag"  # Doxygen's list of what it documents
PLAYERS = ROOT / "build/players"
# What a cell in a column of numbers holds: 1.04 ms, 0.87 (0.78; 24), –, nothing.
NUMBER = re.compile(r"([−+±×<≤]? ?\d[^a-z]{0,9}\b.{0,16}|–)?")
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

    def chain(self):
        """The pages that Next leads through: exercises and notebooks lie beside it."""
        return [name for name in self.files if not re.search("/exercises/|/NOTEBOOK$", name)]

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
    app.builder.search = False  # search.js has its own list of what the pages say
    app.add_js_file("glossary.js", defer="defer")


def player(docname):
    """The page that plays the stage of this chapter, if there is one: docs/players.py makes it. The
    player's own chapter shows that of 02."""
    folder = "stages/02_tiled" if docname == "docs/player/index" else posixpath.dirname(docname)
    page = PLAYERS / f"{posixpath.basename(folder)}.html"
    return page if folder.startswith("stages/") and page.exists() else None


def with_player(text, page, place):
    """The chapter with the poster of its player before the first occurrence of `place`."""
    picture = poster(page, f"../../players/{page.name}")
    return text.replace(place, f"\n\n```{{raw}} html\n{picture}\n```\n{place}", 1)


def read_page(app, docname, source):
    """Puts a code host's formulas in MyST's words, and adds the chapter's player and the lists of the
    pages below."""
    text = re.sub(r"^( {0,3})```math$", r"\1```{math}", source[0], flags=re.MULTILINE)
    if docname == "index":
        text = text.partition("\n```")[0]
    if page := player(docname):
        text = with_player(text, page, "\n\n" if docname == "docs/player/index" else "\n## ")
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
    """The search, and the pages of the files that were linked to."""
    yield "search", {"title": "Search"}, "search.html"
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


def plain(node):
    """The node's text in one line, without the comments of update_pages.py."""
    return re.sub(r"\s+", " ", re.sub("<!--.*?-->", "", node.astext(), flags=re.DOTALL))


def begins_plainly(paragraph):
    """False for a figure, its caption and a result's source."""
    return isinstance(next((node for node in paragraph if node.astext().strip()), None), nodes.Text)


def note_sections(app, doctree):
    """Keeps the text of each section, for search.js."""
    sections = app.env.book_sections[app.env.docname] = []
    for section in doctree.findall(nodes.section):
        title, *rest = section.children
        text = " ".join(plain(node) for node in rest
                        if not isinstance(node, (nodes.section, nodes.comment, nodes.raw)))
        sections.append((section["ids"][0], title.astext(), text))


def api_sections():
    """What Doxygen documents, as search.js takes the sections of pages."""
    pages = {}
    if TAGS.exists():
        for compound in xml.etree.ElementTree.parse(TAGS).getroot():
            title = compound.findtext("title") or compound.findtext("name")
            page = compound.findtext("filename").removesuffix(".html")
            pages.setdefault(API + page, [("", title, "")])
            for member in compound.findall("member"):
                page = member.findtext("anchorfile").removesuffix(".html")
                entry = (member.findtext("anchor"), member.findtext("name"), member.findtext("arglist"))
                pages.setdefault(API + page, [("", title, "")]).append(entry)
    return pages


def align_numbers(_app, doctree):
    """Marks the columns of tables that hold numbers, for book.css."""
    for table in doctree.findall(nodes.table):
        rows = [row.children for row in table.findall(nodes.row)]
        for head, *cells in zip(*rows):
            texts = [cell.astext() for cell in cells]
            if any(texts) and all(NUMBER.fullmatch(text) for text in texts):
                for cell in (head, *cells):
                    cell["classes"].append("number")


def neighbours(app, _doctree, docname):
    """Leads from one page of the chain to the next."""
    chain = app.project.chain()
    if docname in chain:
        at = chain.index(docname)
        above = app.builder.relations[docname][0]
        app.builder.relations[docname] = [above, *([None] + chain + [None])[at:at + 3:2]]


def complete(app, pagename, _template, context, doctree):
    """Gives a page its description and the template that it needs."""
    text = f"{context['title']} – {app.config.project}: FlashAttention in CUDA C++, one idea at a time"
    if doctree and not pagename.startswith("stages/"):  # A chapter begins with its figures.
        text = next((plain(node) for node in doctree.next_node(nodes.section)
                     if isinstance(node, nodes.paragraph) and begins_plainly(node)), text)
    sentence = re.match(r".{60,200}?[.?!](?= |$)|.{0,200}(?= |$)", text)
    context.update(description=sentence[0], address=app.config.html_baseurl)
    if pagename == "search":
        app.add_js_file("book_sections.js", defer="defer")
        app.add_js_file("search.js", defer="defer")
    if pagename == "index":
        page = player("stages/02_tiled/index")
        context.update(home.facts(app.env.titles), clone_address=app.config.clone_address,
                       broken_run=BROKEN_RUN, poster=page and broken_poster(page, BROKEN_RUN, BROKEN_FAULT),
                       meta={"hide-toc": True})
        return "home.html"
    return None


def definitions(app):
    """What the glossary says about each term, as HTML that needs no other page."""
    result = {}
    for section in app.env.get_doctree("docs/glossary").findall(nodes.section):
        for link in list(section.findall(nodes.reference)) + list(section.findall(addnodes.pending_xref)):
            link.replace_self(link.children)
        paragraphs = [node for node in section.children if isinstance(node, nodes.paragraph)]
        if paragraphs:
            text = "".join(app.builder.render_partial(node)["fragment"] for node in paragraphs)
            result[section["ids"][0]] = text
    return result


def visit_formula(self, node):
    """TeX, for book.js to draw; without JavaScript it stays readable."""
    tag = "span" if isinstance(node, nodes.math) else "div"
    self.body.append(self.starttag(node, tag, "", CLASS="formula"))
    self.body.append(self.encode(node.astext()) + f"</{tag}>")
    raise nodes.SkipNode


def finish(app, failure):
    """Adds what the pages load beside Sphinx's files: they need no server and no network."""
    if failure:
        return
    static = Path(app.outdir, "_static")
    for file, name, value in (
            ("book_sections.js", "bookSections", {**app.env.book_sections, **api_sections()}),
            ("glossary.js", "glossary", definitions(app))):
        text = f"const {name} = {json.dumps(value, ensure_ascii=False)};\n"
        (static / file).write_text(text, encoding="utf-8")
    facts = home.facts(app.env.titles)
    home.card(static / "card.png", facts["forward"], facts["device"])
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
    app.add_config_value("clone_address", "", "html")
    app.add_html_math_renderer("katex", (visit_formula, None), (visit_formula, None))
    app.connect("builder-inited", begin)
    app.connect("source-read", read_page)
    app.connect("doctree-read", link, priority=100)  # before Sphinx collects downloads
    app.connect("doctree-read", note_sections)
    app.connect("doctree-read", align_numbers)
    app.connect("doctree-resolved", neighbours)
    app.connect("html-page-context", complete)
    app.connect("html-collect-pages", listings)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": False, "parallel_write_safe": False}
