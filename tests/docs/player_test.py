#!/usr/bin/env python3
"""The page that `ladder --play` writes, in a browser, for every stage: it plays to its end without a
word on the console, and shows the bytes that the CPU simulator counted.

Needs the target ladder of the preset simt, and Debian's Selenium.
"""
import base64
import gzip
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from browser import BrowserTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LADDER = ROOT / "build/simt/bin/ladder"
PAGES = ROOT / "build/play"
FOLDER = tempfile.TemporaryDirectory()
MOST_BYTES = 3_000_000


def ladder(*options):
    subprocess.run([LADDER, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def stages():
    file = pathlib.Path(FOLDER.name) / "stages.json"
    ladder("--list", "--json", file)
    return list(dict.fromkeys(row["stage"] for row in json.loads(file.read_text(encoding="utf-8"))))


def runs_of(stage):
    """The runs that the page holds."""
    text = (PAGES / f"{stage}.html").read_text(encoding="utf-8")
    packed = re.search(r'<script type="text/plain" id="runs">\n(.*?)\n</script>', text)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))["runs"]


STAGES = stages()
RUNS = {}
for stage in STAGES:
    ladder("--play", stage)
    RUNS[stage] = runs_of(stage)

# Elements that reach beyond the right edge and are not in a box that scrolls by itself.
TOO_WIDE = """
const width = document.documentElement.clientWidth;
return [...document.querySelectorAll("body *")].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width && box.right > width + 1 && !e.closest(".scroll, #lanes, #tabs, #findings");
}).map(e => e.outerHTML.slice(0, 90));
"""


class Player(BrowserTest):
    def open(self, stage, link="", width=1280, scheme="light"):
        self.set_screen(width, scheme, height=800)
        self.browser.get("about:blank")
        self.browser.get(f"{(PAGES / stage).as_uri()}.html{link}")

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def step(self):
        return int(re.match(r"Step (\d+) of", self.find("#where").text)[1])

    def press(self, *keys):
        self.find("body").send_keys(*keys)

    def totals(self):
        script = "return Object.fromEntries([...document.querySelectorAll('#totals div')]" \
                 ".map(e => [e.children[0].textContent, Number(e.children[1].dataset.total)]))"
        return self.browser.execute_script(script)

    def counted(self, launch):
        counts = launch["counts"]
        return {"global bytes read": counts["global_read_bytes"],
                "global bytes written": counts["global_write_bytes"],
                "sectors": counts["global_read_sectors"] + counts["global_write_sectors"],
                "shared bytes": counts["shared_read_bytes"] + counts["shared_write_bytes"],
                "bank conflicts": counts["bank_conflicts"]}

    def assert_silent(self):
        self.assertEqual(self.browser.get_log("browser"), [])

    def test_each_plays_to_its_end(self):
        for stage, runs in RUNS.items():
            for run in runs:
                with self.subTest((stage, run["pass"])):
                    self.open(stage, f"#step=0&pass={run['pass']}")
                    self.find("#speed option[value='1000']").click()
                    self.find("#play").click()
                    last = sum(len(launch["steps"]) for launch in run["launches"]) - 1
                    WebDriverWait(self.browser, 100).until(lambda _: self.step() == last)
                    self.assertEqual(self.find("#play").text, "Play", "it has stopped")
                    self.assertEqual(self.totals(), self.counted(run["launches"][-1]))
                    self.assert_silent()

    def test_the_end_of_each_launch(self):
        """A jump shows what playing would have."""
        for stage, runs in RUNS.items():
            for run in runs:
                end = -1
                for launch in run["launches"]:
                    end += len(launch["steps"])
                    self.open(stage, f"#step={end}&pass={run['pass']}")
                    with self.subTest((stage, launch["kernel"])):
                        self.assertEqual(self.totals(), self.counted(launch))
        self.assert_silent()

    def test_size(self):
        for stage in STAGES:
            self.assertLess((PAGES / f"{stage}.html").stat().st_size, MOST_BYTES, stage)

    def test_no_network(self):
        text = (PAGES / "03_online_softmax.html").read_text(encoding="utf-8")
        page = re.sub(r'<script type="text/plain".*?</script>', "", text, flags=re.S)
        self.assertNotRegex(page, r"https?:|src=|href=")

    def test_link_leads_to_a_step(self):
        self.open("03_online_softmax", "#step=12&warp=3&request=5")
        self.assertEqual(self.step(), 12)
        self.assertIn("Warp 3, request 6 of", self.find("#request").text)
        self.assertTrue(self.browser.current_url.endswith("#step=12&warp=3&request=5"))
        launch = RUNS["03_online_softmax"][0]["launches"][0]
        line = launch["places"][launch["steps"][12]["parts"][0]["places"][0]][1]
        self.assertEqual(self.find("#lines tr.now .number").text, str(line))

    def test_keys(self):
        self.open("03_online_softmax")
        self.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
        self.assertEqual(self.step(), 2)
        self.press("]", "]")
        self.assertIn("request 3 of", self.find("#request").text)
        self.press("[")
        self.assertIn("request 2 of", self.find("#request").text)
        self.press(Keys.PAGE_DOWN)
        steps = RUNS["03_online_softmax"][0]["launches"][0]["steps"]
        self.assertNotEqual(steps[2].get("paper"), steps[self.step()].get("paper"))
        self.press(Keys.END)
        self.assertEqual(self.step(), len(steps) - 1)
        self.press(Keys.HOME)
        self.assertEqual(self.step(), 0)
        self.press(" ")
        self.assertEqual(self.find("#play").text, "Pause")
        self.press(" ")
        self.assertEqual(self.find("#play").text, "Play")
        self.assert_silent()

    def test_going_back_is_as_coming_first(self):
        self.open("03_online_softmax", "#step=9")
        first = self.totals()
        self.press(Keys.END)
        self.assertNotEqual(self.totals(), first)
        self.browser.execute_script("location.hash = '#step=9'")
        WebDriverWait(self.browser, 10).until(lambda _: self.step() == 9)
        self.assertEqual(self.totals(), first)

    def test_narrow_shows_one_pane(self):
        self.open("06_forward_backward", "#step=30", width=390, scheme="dark")
        for pane in ("code", "warps", "shared", "matrices"):
            self.find(f"#tabs [data-pane={pane}]").click()
            shown = [e.get_attribute("id") for e in self.browser.find_elements(By.CSS_SELECTOR, ".pane")
                     if e.is_displayed()]
            self.assertEqual(shown, [pane])
            self.assertEqual(self.browser.execute_script(TOO_WIDE), [])
        self.assert_silent()

    def test_wide_shows_all_panes(self):
        for stage in STAGES:
            self.open(stage, "#step=3")
            for pane in self.browser.find_elements(By.CSS_SELECTOR, ".pane"):
                self.assertTrue(pane.is_displayed())
            self.assertEqual(self.browser.execute_script(TOO_WIDE), [], stage)

    def test_dark(self):
        colour = "return getComputedStyle(document.body).backgroundColor"
        self.open("03_online_softmax")
        light = self.browser.execute_script(colour)
        self.open("03_online_softmax", scheme="dark")
        self.assertNotEqual(self.browser.execute_script(colour), light)

    def test_a_fault_is_a_mark(self):
        """A fault that the simulator might have found: sK is read before another warp has written it."""
        run = RUNS["03_online_softmax"][0]
        launch = run["launches"][0]
        place, (warp, *_) = next((part["places"][0], part["warps"][3]) for step in launch["steps"]
                                 for part in step["parts"] if "S =" in step.get("paper", ""))
        line = launch["places"][place][1]
        finding = {"title": "RACE in shared memory", "kernel": launch["kernel"], "array": "sK",
                   "location": f"kernel.cuh:{line}", "count": 1, "text": "  sK[1][0]\n",
                   "accesses": [[1, 0, "kernel.cuh:41"], [warp, 1, f"kernel.cuh:{line}"]]}
        file = PAGES / "faulty.json"
        ladder("--play", "03", "--json", file)
        recorded = json.loads(file.read_text(encoding="utf-8"))
        recorded["runs"][0]["findings"] = [finding]
        file.write_text(json.dumps(recorded), encoding="utf-8")
        ladder("--play", file)
        self.addCleanup(file.unlink)
        self.addCleanup(file.with_suffix(".html").unlink)
        self.open("faulty")
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, ".fault"), [])
        self.find("#findings button").click()
        lines = [e.text for e in self.browser.find_elements(By.CSS_SELECTOR, "#lines .fault .number")]
        warps = [e.text for e in self.browser.find_elements(By.CSS_SELECTOR, "#lanes .fault td:first-child")]
        self.assertEqual((lines, warps), (["41", str(line)], ["1", str(warp)]))
        self.assertEqual(self.find("#lines tr.now .number").text, str(line))
        self.find("#findings button").click()
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, ".fault"), [])
        self.assert_silent()

    def test_an_element_tells_what_happened_to_it(self):
        run = RUNS["03_online_softmax"][0]
        self.open("03_online_softmax", f"#step={len(run['launches'][0]['steps']) - 1}")
        names = [array["name"] for array in run["launches"][0]["arrays"]]
        canvas = self.browser.find_elements(By.CSS_SELECTOR, "#tensors canvas")[names.index("O")]
        point = "arguments[0].dispatchEvent(new PointerEvent('pointermove', {clientX: " \
                "arguments[0].getBoundingClientRect().x + 1, clientY: arguments[0].getBoundingClientRect().y + 1}))"
        self.browser.execute_script(point, canvas)
        self.assertRegex(self.find("#element").text,
                         r"^O\[0\]\[0\] = -?[\d.e-]+: read 0 times, written 1 times, last by warp 0$")


if __name__ == "__main__":
    unittest.main()
