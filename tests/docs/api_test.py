#!/usr/bin/env python3
"""The reference, built by Doxygen alone: its groups of stages and words, its search and colours."""
import html
import pathlib
import re
import subprocess
import tempfile
import unittest

from selenium.webdriver.common.by import By

from browser import BrowserTest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def doxygen(folder, *settings):
    """The exit status of Doxygen, and what it and its filter print."""
    text = "\n".join(["@INCLUDE = Doxyfile", f"OUTPUT_DIRECTORY = {folder}", *settings])
    done = subprocess.run(["doxygen", "-"], cwd=ROOT, input=text, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def sections(page):
    """What a page says about each function, by name; of overloads, about all of them."""
    found = {}
    for section in page.split('<h2 class="memtitle">')[1:]:
        name = re.match(r".*?</span>(\w+)\(\)", section)
        if name:
            found[name[1]] = found.get(name[1], "") + section
    return found


class Reference(BrowserTest):
    """Pages of a folder of its own: the book need not be built."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.temporary = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        cls.result = doxygen(cls.temporary.name)
        cls.pages = pathlib.Path(cls.temporary.name, "api")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()
        super().tearDownClass()

    def group(self, name):
        """The page of a group."""
        return (self.pages / f"group__{name.replace('_', '__')}.html").read_text(encoding="utf-8")

    def open(self, page, *screen):
        """Opens a page on a screen."""
        self.set_screen(*screen)
        self.browser.get(f"{self.pages.as_uri()}/{page}")

    def test_no_warnings(self):
        self.assertEqual(self.result, (0, ""))
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(doxygen(folder, "INPUT = common/include/cuflash", "EXTRACT_ALL = NO"),
                             (0, ""), "the public headers document all that they declare")

    def test_stages(self):
        """A stage's group has its chapter, facts, Config, shared memory and kernels."""
        stages = sorted(path.parent for path in ROOT.glob("stages/[0-8]*/stage.cu"))
        self.assertGreater(len(stages), 15)
        for stage in stages:
            page = self.group(f"stage_{stage.name}")
            facts = (stage / "stage.cu").read_text(encoding="utf-8")
            source = "".join(path.read_text(encoding="utf-8") for path in stage.glob("*.cuh"))
            with self.subTest(stage=stage.name):
                self.assertTrue(f'href="../stages/{stage.name}/index.html"' in page, "the chapter")
                for text in re.findall(r'stage\.(?:teaches|removes|limiter) = "(.*)";', facts):
                    self.assertTrue(text in html.unescape(page), text)
                for fact in re.findall(r"stage\.\w+\.(\w+) =", facts):
                    self.assertTrue(re.search(rf"<td[^>]*><a [^>]*>{fact}</a>", page), fact)
                structs = re.findall(r"^struct (\w*(?:Config|Storage)) ", source, re.MULTILINE)
                kernels = re.findall(r"__global__ void(?: __launch_bounds__[^{]*?\)\s)?\s*(\w+)\(",
                                     source)
                self.assertEqual(len(kernels), source.count("__global__"))
                for name in structs + kernels:
                    self.assertTrue(re.search(rf"<li>[^<]*: .*>{name}</a>", page), name)
                for name in kernels:
                    self.assertIn("__global__ void", sections(page)[name])

    def test_words(self):
        """Each word with an asm statement names its instruction and the manual's chapter."""
        found = sections(self.group("ptx"))
        count = 0
        for header in ROOT.glob("common/device/ptx/*.h"):
            source = header.read_text(encoding="utf-8")
            for head, body in re.findall(r"^__device__ (.*?) \{\n(.*?)^\}", source, re.M | re.S):
                if "asm" not in body and "CUFLASH_WGMMA" not in body:
                    continue
                name = re.search(r"(\w+)\(", head)[1]
                count += 1
                with self.subTest(word=name):
                    instruction = re.search(r"<code>(\w+\.[\w.:]+)</code>", found[name])
                    self.assertIn(instruction[1], source)
                    self.assertTrue(re.search("PTX ISA, <a href=.*Instructions</a>", found[name]))
        self.assertGreater(count, 30)

    def test_pages(self):
        """In English, with a label for the search, without graphs."""
        for text, wanted in (('<html lang="en">', True), ('<label for="MSearchField">', True),
                             ('class="dynheader"', False)):
            wrong = [path.name for path in self.pages.glob("*.html")
                     if (text in path.read_text(encoding="utf-8")) != wanted]
            self.assertEqual(wrong[:3], [], text)

    def test_search(self):
        find, found = self.browser.find_element, self.browser.find_elements
        for width in (390, 1280):
            self.open("group__stages.html", width)
            self.wait_for(lambda: found(By.ID, "MSearchField"), "the field")
            field = find(By.ID, "MSearchField")
            with self.subTest(width=width):
                self.assertEqual(field.accessible_name, "Search the reference")
                field.send_keys("mbarrier_wa")
                self.wait_for(lambda: find(By.ID, "MSearchResults").is_displayed(), "the results")
                self.browser.switch_to.frame("MSearchResults")
                self.wait_for(lambda: any(link.is_displayed() for link in
                                          found(By.LINK_TEXT, "mbarrier_wait")), "the word")
                self.browser.switch_to.default_content()

    def test_phone(self):
        """No page is wider than its box."""
        for page in ("index.html", "group__ptx.html", "group__stage__09__async__copy.html",
                     "structcuflash_1_1PassFacts.html", "c__api_8h.html"):
            self.open(page, 390)
            with self.subTest(page=page):
                self.assertEqual(self.browser.execute_script("""
                    const box = document.querySelector("#doc-content");
                    return [box.scrollWidth <= box.clientWidth, box.clientWidth <= 390];"""),
                                 [True, True])

    def test_colours(self):
        """Those that the book's button has chosen, else the system's; the button chooses others."""
        script = "return getComputedStyle(document.body).backgroundColor"
        for kept, system, dark in (("dark", "light", True), ("light", "dark", False),
                                   ("auto", "light", False), ("auto", "dark", True)):
            self.open("index.html", 1280, system)
            self.browser.execute_script("localStorage.theme = arguments[0]", kept)
            self.browser.refresh()
            with self.subTest(kept=kept, system=system):
                color = self.browser.execute_script(script)
                self.assertEqual(max(map(int, re.findall(r"\d+", color))) < 100, dark)
        self.browser.find_element(By.ID, "theme").click()
        self.assertEqual(self.browser.execute_script("return localStorage.theme"), "light")
        self.assertEqual(self.browser.execute_script(script), "rgb(255, 255, 255)")
        self.browser.execute_script("localStorage.clear()")


if __name__ == "__main__":
    unittest.main()
