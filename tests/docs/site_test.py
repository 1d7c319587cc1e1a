#!/usr/bin/env python3
"""The built site in a browser, opened from files: home, navigation, search, widths, figures, colours."""
import json
import os
import pathlib
import runpy
import shutil
import subprocess
import tempfile
import unittest

import jinja2
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import BrowserTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / "build/docs/html"
CONF = runpy.run_path(str(ROOT / "docs/site/conf.py"))
PAGES = [path.replace("README.md", "index.html").replace(".md", ".html")
         for path in ["README.md", *sum(CONF["book_parts"].values(), [])]]
CHAIN = [page for page in PAGES if "/exercises/" not in page and "/NOTEBOOK" not in page]

# Elements that reach beyond the right edge and are not in a box that scrolls by itself. A phone's window
# grows with its page, so the width of its screen counts.
TOO_WIDE = """
const width = Math.min(document.documentElement.clientWidth, arguments[0]);
const scrolls = e => e.clientWidth < e.scrollWidth && !e.matches("html, body, .content") &&
    e.getBoundingClientRect().right <= width + 1 &&
    /auto|scroll/.test(getComputedStyle(e).overflowX);
return [...document.querySelectorAll("article, article *, #doc-content *")].filter(e => {
  const box = e.getBoundingClientRect();
  if (box.right <= width + 1 || !box.width || !box.height) return false;
  for (let at = e; at; at = at.parentElement) if (scrolls(at)) return false;
  return !e.closest(".katex-mathml") && !e.ownerSVGElement;
}).slice(0, 5).map(e => e.outerHTML.slice(0, 90))
    .concat(document.documentElement.scrollWidth > arguments[0] ? ["the page scrolls"] : []);
"""

# What keeps a reader with a keyboard or a screen reader out: a handful of axe's rules.
BARRIERS = """
const all = selector => [...document.querySelectorAll(selector)];
const named = e => e.ariaLabel || e.title || e.alt || e.labels?.length || e.textContent.trim() ||
    e.querySelector("[alt]")?.alt;
const ids = all("[id]").map(e => e.id);
return [
  ...all("[role=heading]:not([aria-level]), html:not([lang]), img:not([alt]), iframe:not([title])"),
  ...all("a[href], button, input:not([type=hidden]), select").filter(e => !named(e)),
  ...all("article *").filter(e => /auto|scroll/.test(getComputedStyle(e).overflowX) &&
      e.clientWidth && e.scrollWidth > e.clientWidth && e.tabIndex < 0),
  ...all("a:not([href])"),
  ...all("[id]").filter(e => ids.indexOf(e.id) !== ids.lastIndexOf(e.id)),
  ...(all("h1").length === 1 ? [] : all("h1, article")),
].slice(0, 5).map(e => e.outerHTML.slice(0, 90));
"""

# Tables that are cut although there is room at their right, or covered.
CUT = """
return [...document.querySelectorAll(".table-wrapper")].filter(e => {
  e.scrollIntoView({behavior: "instant"});
  const {right, top} = e.getBoundingClientRect();
  return !e.contains(document.elementFromPoint(right - 4, top + 30)) ||
      e.scrollWidth > e.clientWidth && right < document.documentElement.clientWidth - 64;
}).map(e => e.textContent.slice(0, 90));
"""

# Elements with too little contrast: text, code and links against their background.
CONTRAST = """
const parts = color => color.match(/[\\d.]+/g).map(Number);
const behind = e => {
  for (; e; e = e.parentElement) {
    const color = parts(getComputedStyle(e).backgroundColor);
    if (color.length < 4 || color[3] > 0.99) return color;
  }
  return [255, 255, 255];
};
const linear = v => v <= 10 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
const light = color => {
  const [r, g, b] = color.map(linear);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const dark = light(behind(document.querySelector("article"))) < 0.1;
const text = "h1, article :is(p, td, pre, pre span, a), .katex";
const wrong = [...document.querySelectorAll(text)].filter(e => {
  const back = behind(e), ink = parts(getComputedStyle(e).color), alpha = ink[3] ?? 1;
  const seen = ink.slice(0, 3).map((v, i) => v * alpha + back[i] * (1 - alpha));
  const [low, high] = [light(seen), light(back)].sort((a, b) => a - b);
  return e.textContent.trim() && (high + 0.05) / (low + 0.05) < 4;
});
return [dark, wrong.slice(0, 5).map(e => e.outerHTML.slice(0, 90))];
"""

FIGURES = """
return [...document.querySelectorAll("article img")].filter(e => !e.complete || !e.naturalWidth)
    .map(e => e.src)
    .concat([...document.querySelectorAll(".formula:not(:has(.katex))")]
    .map(e => e.textContent));
"""


def links(browser, selector):
    """The pages of the site to which the links in this part lead."""
    script = "return [...document.querySelectorAll(arguments[0])].map(e => e.href.split('#')[0])"
    found = browser.execute_script(script, selector)
    return [link.replace(SITE.as_uri() + "/", "") for link in found]


class Site(BrowserTest):
    """The features that a reader relies on."""

    def open(self, page, width=1280):
        """Opens a page in a light window of this width."""
        self.set_screen(width)
        self.browser.get(f"{SITE.as_uri()}/{page}")

    def run_script(self, script, *arguments):
        """The value of a script in the page."""
        return self.browser.execute_script(script, *arguments)

    def page(self):
        """The page that is open."""
        address = self.browser.current_url.split("#")[0].split("?")[0]
        return address.replace(SITE.as_uri() + "/", "")

    def find(self, selector):
        """The first such element."""
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector):
        """Clicks the first such element, once it is on the screen."""
        script = "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})"
        self.browser.execute_script(script, self.find(selector))
        self.find(selector).click()

    def test_each_page(self):
        """On a dark phone and on a wide light screen; Previous and Next lead through all."""
        before, after = dict(zip(PAGES[1:], PAGES)), dict(zip(PAGES, PAGES[1:]))
        before |= dict(zip(CHAIN[1:], CHAIN))  # Exercises and notebooks lie beside the chain.
        after |= dict(zip(CHAIN, CHAIN[1:]))
        for page in PAGES + ["search.html", "sources/stages/03_online_softmax/kernel.cuh.html"]:
            self.open(page, 390)
            for width, scheme in ((390, "dark"), (1280, "light")):
                self.set_screen(width, scheme)
                with self.subTest(page=page, width=width, scheme=scheme):
                    self.assertEqual(self.run_script(TOO_WIDE, width), [], "reaches beyond the edge")
                    self.assertEqual(self.run_script(CONTRAST), [scheme == "dark", []])
                    self.assertEqual(self.run_script(BARRIERS), [])
            with self.subTest(page=page):
                description = self.find("meta[name=description]").get_attribute("content")
                self.assertRegex(description, r".{40}")
                self.assertEqual((self.run_script(FIGURES), self.browser.get_log("browser")),
                                 ([], []), "a figure or formula is missing")
                for link, leads_to in (("a.prev-page", before), ("a.next-page", after)):
                    wanted = [leads_to[page]] if page in leads_to else []
                    self.assertEqual(links(self.browser, link), wanted)

    def test_api_on_a_phone(self):
        for page in ("api/index.html", "api/flash__attention_8h.html", "api/c__api_8h.html"):
            self.open(page, 390)
            with self.subTest(page=page):
                self.assertEqual(self.run_script(TOO_WIDE, 390), [], "reaches beyond the edge")

    def test_menu(self):
        """The menu has all pages in order, exercises under their chapter, then the reference."""
        for width in (1280, 390):
            self.open("index.html", width)
            with self.subTest(width=width):
                self.assertEqual(links(self.browser, ".sidebar-tree a"),
                                 PAGES[1:] + ["api/index.html"])
                under = links(self.browser, ".sidebar-tree .toctree-l2 a")
                self.assertEqual([page for page in PAGES if "/exercises/" in page],
                                 [page for page in under if "/exercises/" in page])
                if width == 390:
                    menu = self.find(".sidebar-drawer")
                    self.assertLess(menu.rect["x"] + menu.rect["width"], 1, "the menu is closed")
                    self.find(".nav-overlay-icon").click()
                    self.wait_for(lambda: self.find(".sidebar-drawer").rect["x"] >= 0, "menu")
                self.click(".sidebar-tree a[href='stages/02_tiled/index.html']")
                self.assertEqual(self.page(), "stages/02_tiled/index.html")

    def test_search(self):
        """Typed words find pages, and a result opens one with the words in it."""
        for words, wanted in (("barrier", "stages/02_tiled/index.html"),
                              ("bank conflict", "stages/04_register_tiles/index.html"),
                              ("FA3", "docs/beside_pytorch.html"),
                              ("roofline", "docs/prologue/index.html"),
                              ("regression", "CONTRIBUTING.html"),
                              ("swizle", "stages/08_swizzle/index.html"),
                              ("cuflash_attention_forward_f16", "api/c__api_8h.html")):
            with self.subTest(words=words):
                self.open("CONTRIBUTING.html")
                self.find(".sidebar-search").send_keys(words, Keys.ENTER)
                result = "#search-results li a"
                self.wait_for(lambda: wanted in links(self.browser, result), wanted)
                self.assertNotEqual(links(self.browser, "#search-results li li a"), [], "sections")
                if words in ("barrier", "bank conflict"):
                    self.click(result)
                    text = self.find("article").text.lower()
                    for word in words.split():
                        self.assertIn(word, text)
        self.open("search.html?q=zzyzx")
        self.assertIn("Nothing matches", self.find("#search-results").text)
        self.assertEqual(links(self.browser, "#search-results li a"), [])

    def test_tables(self):
        """A wide table takes the margin; numbers stand below each other."""
        for width in (1280, 1440, 1920):
            for page in ("docs/beside_pytorch.html", "stages/09_async_copy/index.html"):
                self.open(page, width)
                with self.subTest(page=page, width=width):
                    self.assertEqual(self.run_script(CUT), [])
        self.open("docs/ladder.html")
        cells = self.run_script("""
            return [...document.querySelectorAll("article tbody tr:nth-child(2) td")].map(e => [e.textContent,
                getComputedStyle(e).textAlign, getComputedStyle(e).fontVariantNumeric])""")
        self.assertIn(["02_tiled", "start", "normal"], cells)
        self.assertIn(["81.4 ms", "right", "tabular-nums"], cells)

    def test_lines_of_prose(self):
        """Some 80 letters at most."""
        self.open("stages/02_tiled/index.html", 1920)
        font, *widths = self.run_script("""
            const prose = [...document.querySelectorAll("article p:not(:has(img))")];
            const font = getComputedStyle(document.querySelector("article")).fontSize;
            return [parseFloat(font), ...prose.map(e => e.clientWidth)]""")
        self.assertLessEqual(max(widths), 40 * font)

    def test_keyboard(self):
        """The first stop leads past the menu."""
        self.open("stages/02_tiled/index.html")
        self.find("body").send_keys(Keys.TAB)
        first = self.browser.switch_to.active_element
        self.assertEqual(first.text, "Skip to the text")
        first.send_keys(Keys.ENTER)
        self.browser.switch_to.active_element.send_keys(Keys.TAB)
        self.assertTrue(self.run_script("return !!document.activeElement.closest('article')"))

    def test_back_to_top(self):
        """On a phone, it covers no title."""
        self.open("stages/02_tiled/index.html", 390)
        self.run_script("document.documentElement.classList.add('show-back-to-top')")
        self.assertGreater(self.find(".back-to-top").rect["y"], 700)

    def test_card_of_a_term(self):
        """The pointer on a term, or the focus, shows what the glossary says, formulas too."""
        self.open("stages/03_online_softmax/index.html")
        term = self.find("article a[href$='glossary.html#delta']")
        self.browser.execute_script("arguments[0].focus()", term)
        card = self.find("#card")
        self.assertIn("one number per row", card.text)
        self.assertTrue(card.find_elements(By.CSS_SELECTOR, ".katex"))
        self.assertEqual(term.get_attribute("aria-describedby"), "card")
        room = ("const {top, bottom} = document.getElementById('card').getBoundingClientRect();"
                "return Math.min(top, innerHeight - bottom)")
        self.wait_for(lambda: self.run_script(room) >= 0, "the card on the screen")
        term.send_keys(Keys.ESCAPE)
        self.assertEqual(self.browser.find_elements(By.ID, "card"), [])

    def test_ladder_is_not_cut(self):
        """The whole of the simulator's table fits beside the menu."""
        for width in (1280, 1440, 1920):
            self.open("docs/ladder.html", width)
            table = self.find(".highlight-text pre")
            self.assertIn("01_naive", table.text)
            with self.subTest(width=width):
                self.assertLessEqual(*self.browser.execute_script(
                    "return [arguments[0].scrollWidth, arguments[0].clientWidth]", table))
                self.assertLessEqual(table.rect["x"] + table.rect["width"], width)

    def test_home(self):
        """Says what this is, how fast it is, and where to begin, on the first screen of a phone, too."""
        rows = json.loads((ROOT / "docs/results/nvidia-h200/ladder.json").read_text(encoding="utf-8"))["rows"]
        times = {row["stage"]: row["ms"] for row in rows if "ms" in row and row["pass"] == "forward"}
        first, last = (f"{times[stage]:.3g} ms" for stage in ("01_naive", "14_persistent"))
        for width in (1280, 390):
            self.open("index.html", width)
            for words in ("FlashAttention in CUDA C++", first, last, "Watch it break", "Start reading"):
                box = self.browser.find_element(
                    By.XPATH, f"//article//*[text()[contains(., '{words}')]]").rect
                with self.subTest(width=width, words=words):
                    self.assertLess(box["y"] + box["height"], 844)
        for stage in ROOT.glob("stages/[0-8]*/stage.cu"):
            self.assertIn(f"stages/{stage.parent.name}/index.html", links(self.browser, ".rungs a"))
        for file in ("_static/card.png", "_static/favicon.svg"):
            self.assertIn(file, self.browser.page_source)
            self.assertTrue((SITE / file).is_file())
        self.click(".buttons a:last-child")
        self.assertEqual(self.page(), "docs/prologue/index.html")

    def test_clone_line(self):
        """The home page says where to clone from if conf.py does."""
        text = (ROOT / "docs/site/templates/home.html").read_text(encoding="utf-8")
        pages = jinja2.DictLoader({"page.html": "{% block content %}{% endblock %}", "home.html": text})
        page = jinja2.Environment(loader=pages).get_template("home.html")
        facts = {"forward": [{}], "backward": [], "peers": [], "pathto": lambda page, *_: page}
        for address in ("", "https://example.org/ladder.git"):
            shown = page.render(facts, clone_address=address)
            self.assertEqual("git clone https://example.org/ladder.git" in shown, bool(address))
            self.assertEqual("git clone" in shown, bool(address))

    def test_broken_run_of_home(self):
        """It shows the removed line and plays."""
        self.open("index.html")
        self.assertIn("__syncthreads()", self.find(".poster del").text)
        self.click(".poster")
        self.browser.switch_to.frame(self.find("iframe.player"))
        self.wait_for(lambda: self.find("#fault").get_attribute("value") == "3", "the broken run")
        self.browser.switch_to.default_content()
        self.open("docs/player/index.html", 390)
        self.click(".poster")
        self.wait_for(lambda: self.page() == "players/02_tiled.html", "a phone shows the player alone")

    def test_player_of_a_chapter(self):
        """The run of a block can be stepped in the chapter; it is loaded once it is wanted."""
        self.open("stages/02_tiled/index.html")
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, "iframe"), [])
        self.click("a.poster")
        self.browser.switch_to.frame(self.find("iframe.player"))
        self.wait_for(lambda: "step 0 of" in self.find(".where").text, "the player")
        self.find("#next").click()
        self.assertIn("step 1 of", self.find(".where").text)
        self.assertEqual(self.browser.get_log("browser"), [])

        self.run_script("addEventListener('message', event => { window.told = event.data; })")
        for theme, tell in (("light", "document.querySelector('iframe').onload()"),
                            ("dark", "document.body.dataset.theme = 'dark'")):
            self.browser.switch_to.default_content()
            self.run_script("document.body.dataset.theme = 'light'" if theme == "light" else "")
            self.run_script(tell)
            self.browser.switch_to.frame(self.find("iframe.player"))
            self.wait_for(lambda: self.run_script("return window.told") == {"theme": theme}, theme)
        self.browser.switch_to.default_content()

    def test_theme_button(self):
        """The button changes the colours."""
        self.open("index.html")
        self.find(".theme-toggle-content .theme-toggle").click()
        self.assertEqual(self.run_script(CONTRAST), [True, []])
        self.run_script("localStorage.clear()")

    def test_line_of_a_source(self):
        """A link to a line leads to that line."""
        self.open("docs/papers.html")
        link = "article a[href*='03_online_softmax/kernel.cuh.html#L']"
        number = int(self.find(link).get_attribute("href").split("#L")[1])
        self.click(link)
        self.wait_for(lambda: self.page().endswith("kernel.cuh.html"), "the listing")
        line = self.find(f"#L{number}")
        source = (ROOT / "stages/03_online_softmax/kernel.cuh").read_text(encoding="utf-8")
        self.assertIn(source.split("\n")[number - 1].strip(), line.text)
        self.wait_for(lambda: 0 <= self.browser.execute_script(
            "return arguments[0].getBoundingClientRect().y", line) < 900, "the line on the screen")

    def test_reference(self):
        """The book leads to the reference of the API, and the reference leads back."""
        self.open("index.html")
        self.click(".sidebar-tree a[href='api/index.html']")
        self.assertEqual(self.page(), "api/index.html")
        self.assertIn("docs/library.html", links(self.browser, ".contents a"))
        for page in ("api/index.html", "api/flash__attention_8h.html"):
            self.open(page)
            self.wait_for(lambda: "index.html" in links(self.browser, "#nav-tree a"), "The book")
        self.browser.find_element(By.LINK_TEXT, "◂ The book").click()
        self.wait_for(lambda: self.page() == "index.html", "the book")
        self.open("docs/library.html")
        self.assertIn("api/flash__attention_8h.html", links(self.browser, "article a"))


class Script(unittest.TestCase):
    """scripts/docs.sh."""

    def test_missing_players(self):
        """A book without players says how to get them."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "scripts").mkdir()
            for name in ("docs.sh", "lib.sh"):
                shutil.copy(ROOT / "scripts" / name, root / "scripts")
            (root / "cmake").write_text("#!/bin/sh\necho cmake version 3.25.1\n", encoding="utf-8")
            (root / "cmake").chmod(0o755)
            path = {**os.environ, "PATH": f"{root}:{os.environ['PATH']}"}
            for ladder in (False, True):
                done = subprocess.run([root / "scripts/docs.sh"], env=path, capture_output=True, text=True,
                                      check=True)
                self.assertIn("Built build/docs/html/index.html", done.stderr)
                self.assertEqual("run scripts/run.sh once" in done.stderr, not ladder)
                (root / "build/simt/bin").mkdir(parents=True, exist_ok=True)
                (root / "build/simt/bin/ladder").touch()


if __name__ == "__main__":
    unittest.main()
