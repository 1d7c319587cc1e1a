#!/usr/bin/env python3
"""The built site in a browser, opened from files: navigation, search, widths, figures, colours."""
import pathlib
import runpy
import unittest

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import BrowserTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / "build/docs/html"
PARTS = runpy.run_path(str(ROOT / "docs/site/conf.py"))["book_parts"]
PAGES = [path.replace("README.md", "index.html").replace(".md", ".html")
         for path in ["README.md", *sum(PARTS.values(), [])]]

# Elements that reach beyond the right edge and are not in a box that scrolls by itself.
TOO_WIDE = """
const width = document.documentElement.clientWidth;
const scrolls = e => e.clientWidth < e.scrollWidth && !e.matches("html, body, .content") &&
    e.getBoundingClientRect().right <= width + 1 &&
    /auto|scroll/.test(getComputedStyle(e).overflowX);
return [...document.querySelectorAll("article, article *, #doc-content *")].filter(e => {
  const box = e.getBoundingClientRect();
  if (box.right <= width + 1 || !box.width || !box.height) return false;
  for (let at = e; at; at = at.parentElement) if (scrolls(at)) return false;
  return !e.closest(".katex-mathml") && !e.ownerSVGElement;
}).slice(0, 5).map(e => e.outerHTML.slice(0, 90));
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

    def run_script(self, script):
        """The value of a script in the page."""
        return self.browser.execute_script(script)

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
        before = dict(zip(PAGES[1:], PAGES))
        after = dict(zip(PAGES, PAGES[1:]))
        for page in PAGES + ["search.html", "sources/stages/03_online_softmax/kernel.cuh.html"]:
            self.open(page)
            for width, scheme in ((390, "dark"), (1280, "light")):
                self.set_screen(width, scheme)
                with self.subTest(page=page, width=width, scheme=scheme):
                    self.assertEqual(self.run_script(TOO_WIDE), [], "reaches beyond the edge")
                    self.assertEqual(self.run_script(CONTRAST), [scheme == "dark", []])
            with self.subTest(page=page):
                self.assertEqual((self.run_script(FIGURES), self.browser.get_log("browser")),
                                 ([], []), "a figure or formula is missing")
                for link, leads_to in (("a.prev-page", before), ("a.next-page", after)):
                    wanted = [leads_to[page]] if page in leads_to else []
                    self.assertEqual(links(self.browser, link), wanted)

    def test_api_on_a_phone(self):
        for page in ("api/index.html", "api/flash__attention_8h.html", "api/c__api_8h.html"):
            self.open(page, 390)
            with self.subTest(page=page):
                self.assertEqual(self.run_script(TOO_WIDE), [], "reaches beyond the edge")

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
                              ("bank conflict", "stages/04_register_tiles/index.html")):
            with self.subTest(words=words):
                self.open("CONTRIBUTING.html")
                self.find(".sidebar-search").send_keys(words, Keys.ENTER)
                result = "#search-results li a"
                self.wait_for(lambda: wanted in links(self.browser, result), wanted)
                self.wait_for(lambda: links(self.browser, "#search-results li li a"), "sections")
                self.click(result)
                text = self.find("article").text.lower()
                for word in words.split():
                    self.assertIn(word, text)
        self.open("search.html?q=zzyzx")
        self.wait_for(lambda: "did not match" in self.find("#search-results").text, "no result")
        self.assertEqual(links(self.browser, "#search-results li a"), [])

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

    def test_first_screen(self):
        """Says what this is and shows the two commands."""
        self.open("index.html")
        for text in ("FlashAttention", "scripts/run.sh", "scripts/test.sh"):
            element = f"//article//*[contains(text(), '{text}')]"
            box = self.browser.find_element(By.XPATH, element).rect
            self.assertLess(box["y"] + box["height"], 900, text)

    def test_player_of_a_chapter(self):
        """The run of a block can be stepped in the chapter."""
        self.open("stages/02_tiled/index.html")
        self.click("iframe.player")
        self.browser.switch_to.frame(self.find("iframe.player"))
        self.wait_for(lambda: "step 0 of" in self.find(".where").text, "the player")
        self.find("#next").click()
        self.assertIn("step 1 of", self.find(".where").text)
        self.assertEqual(self.browser.get_log("browser"), [])
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


if __name__ == "__main__":
    unittest.main()
