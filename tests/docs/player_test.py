#!/usr/bin/env python3
"""The page that `ladder --play` writes, in a browser, for every stage that docs/players.py takes: it plays to
its end without a word on the console, shows the bytes that the CPU simulator counted, marks each of its
faults, and tells its tours.

Needs build/simt, as docs/players.py does, and Debian's Selenium.
"""
import base64
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import BrowserTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from players import ALWAYS, sampled  # noqa: E402, it lies there

LADDER = ROOT / "build/simt/bin/ladder"
PAGES = ROOT / "build/players"
FOLDER = tempfile.TemporaryDirectory()
MOST_BYTES = 3_000_000


def ladder(*options):
    subprocess.run([LADDER, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def file_of(page):
    """The runs that the page holds, as written."""
    text = page.read_text(encoding="utf-8")
    packed = re.search(r'<script type="text/plain" id="runs">\n(.*?)\n</script>', text)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def stages():
    file = pathlib.Path(FOLDER.name) / "stages.json"
    ladder("--list", "--json", file)
    return list(dict.fromkeys(row["stage"] for row in json.loads(file.read_text(encoding="utf-8"))))


subprocess.run([ROOT / "docs/players.py"], check=True)
ALL = stages()
STAGES = sampled(ALL, ALWAYS)
RUNS, BROKEN = {}, {}
for stage in STAGES:
    KINDS, runs = (file_of(PAGES / f"{stage}.html")[name] for name in ("kinds", "runs"))
    RUNS[stage] = [run for run in runs if "fault" not in run]
    BROKEN[stage] = [run for run in runs if "fault" in run]

# No kernel of their first run has a running softmax.
WITHOUT_ROWS = {stage for stage in STAGES
                if not any("rows" in launch for launch in RUNS[stage][0]["launches"])}

# Elements that reach beyond the right edge and are not in a box that scrolls by itself.
TOO_WIDE = """
const width = document.documentElement.clientWidth;
return [...document.querySelectorAll("body *")].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width && box.right > width + 1 && !e.closest(".scroll, .lanes, .tabs, .findings");
}).map(e => e.outerHTML.slice(0, 90));
"""


def slow(finding):
    """Which access of a finding is overtaken: the later one in its order."""
    return finding["order"]["at"].index(max(finding["order"]["at"]))


class Player(BrowserTest):
    def open(self, stage, link="", width=1280, scheme="light", height=800):
        self.set_screen(width, scheme, height)
        self.browser.get("about:blank")
        self.browser.get(f"{(PAGES / stage).with_suffix('.html').as_uri()}{link}")
        # The page unpacks its runs after it has been loaded.
        self.wait_for(lambda: "step" in self.find(".where").get_attribute("textContent"), "a step")

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        return [e.text for e in self.browser.find_elements(By.CSS_SELECTOR, selector)]

    def shown_panes(self, player=".player"):
        """The names of the panes that are seen in a player."""
        return [e.get_attribute("class").split()[1]
                for e in self.browser.find_elements(By.CSS_SELECTOR, f"{player} .pane") if e.is_displayed()]

    def step(self):
        return int(re.search(r"step (\d+) of", self.find(".where").text)[1])

    def press(self, *keys):
        self.find("body").send_keys(*keys)

    def totals(self):
        script = "return Object.fromEntries([...document.querySelectorAll('.totals div')]" \
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
                    self.wait_for(lambda: self.step() == last, "the last step")
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
        self.assertIn("Warp 3, request 6 of", self.find(".request").text)
        self.assertTrue(self.browser.current_url.endswith("#step=12&warp=3&request=5"))
        launch = RUNS["03_online_softmax"][0]["launches"][0]
        line = launch["places"][launch["steps"][12]["parts"][0]["places"][0]][1]
        self.assertEqual(self.find(".lines tr.now .number").text, str(line))

    def test_keys(self):
        self.open("03_online_softmax")
        self.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
        self.assertEqual(self.step(), 2)
        self.press("]", "]")
        self.assertIn("request 3 of", self.find(".request").text)
        self.press("[")
        self.assertIn("request 2 of", self.find(".request").text)
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

    def test_a_list_gives_the_keys_back(self):
        self.open("03_online_softmax")
        self.find("#speed").send_keys(Keys.ARROW_DOWN)
        self.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        self.assertEqual(self.step(), 1)
        self.assertEqual(self.find("#speed").get_attribute("value"), "20")

    def test_buttons_end_where_the_run_does(self):
        steps = ("first", "back", "next", "last")
        for step, enabled in ((0, steps[2:]), (1, steps), (100000, steps[:2])):
            self.open("03_online_softmax", f"#step={step}")
            self.assertEqual(tuple(name for name in steps if self.find(f"#{name}").is_enabled()), enabled)
        self.open("03_online_softmax", "#step=12&request=100000")
        self.assertTrue(self.find("#request-back").is_enabled())
        self.assertFalse(self.find("#request-next").is_enabled())

    def test_an_open_finding_leaves_the_others_in_reach(self):
        self.open("02_tiled", "#step=5&fault=2", scheme="dark")
        buttons = self.browser.find_elements(By.CSS_SELECTOR, ".findings button")
        self.assertEqual(len(buttons), len(BROKEN["02_tiled"][1]["findings"]))
        for button, finding in zip(buttons, BROKEN["02_tiled"][1]["findings"]):
            button.click()
            self.assertEqual(self.find(".finding").text.strip(), finding["text"].strip())
        box = "const {scrollHeight, clientHeight} = arguments[0]; return scrollHeight - clientHeight"
        self.assertLessEqual(self.browser.execute_script(box, self.find(".findings")), 1)

    def test_going_back_is_as_coming_first(self):
        self.open("03_online_softmax", "#step=9")
        first = self.totals()
        self.press(Keys.END)
        self.assertNotEqual(self.totals(), first)
        self.browser.execute_script("location.hash = '#step=9'")
        self.wait_for(lambda: self.step() == 9, "step 9")
        self.assertEqual(self.totals(), first)

    def test_narrow_shows_one_pane(self):
        self.open("03_online_softmax", "#step=20", width=390, scheme="dark")
        for pane in ("code", "warps", "shared", "matrices", "rows"):
            self.find(f".tabs [data-pane={pane}]").click()
            self.assertEqual(self.shown_panes(), [pane])
            self.assertEqual(self.browser.execute_script(TOO_WIDE), [])
        self.assert_silent()

    def test_memory_and_warps_are_in_sight_at_once(self):
        """As wide as a chapter's frame, a laptop and a large screen."""
        for width, height, more in ((894, 670, ["code"]), (1280, 800, ["code"]), (1920, 1000, ["code", "shared"])):
            for stage in STAGES if width == 1280 else STAGES[:1]:
                self.open(stage, "#step=3", width, height=height)
                self.assertEqual(self.shown_panes(), ["matrices", "warps", *more], stage)
                self.assertEqual(self.browser.execute_script(TOO_WIDE), [], stage)
                for selector in (".lanes tr:nth-child(2)", ".tensors", ".pane.code .now"):
                    self.assert_in_sight(selector, stage)

    def assert_in_sight(self, selector, message=None):
        """The first such element is not scrolled out of its boxes, or out of the page."""
        seen = self.browser.execute_script("""
            const element = document.querySelector(arguments[0]), {left, top, bottom, height} = element.getBoundingClientRect();
            for (let box = element.parentElement; box; box = box.parentElement) {
              const of = box.getBoundingClientRect();
              if (getComputedStyle(box).overflowY !== "visible" && (top < of.top - 1 || top + 8 > of.bottom)) return false;
            }
            return height > 0 && left < innerWidth && top + 8 < innerHeight;""", selector)
        self.assertTrue(seen, (selector, message))

    def test_units_are_words(self):
        self.open("03_online_softmax")
        self.assertEqual(self.texts(".lines th"), ["warps", "bytes", "sectors\nper request", "bank\nconflicts", "line", "source"])

    def test_dark(self):
        colour = "return getComputedStyle(document.body).backgroundColor"
        self.open("03_online_softmax")
        light = self.browser.execute_script(colour)
        self.open("03_online_softmax", scheme="dark")
        self.assertNotEqual(self.browser.execute_script(colour), light)

    def marked(self):
        """The marked lines, and the marked warps."""
        return [[e.text for e in self.browser.find_elements(By.CSS_SELECTOR, selector)]
                for selector in (".lines .fault .number", ".lanes .fault td:first-child")]

    def choose(self, select, value):
        self.browser.execute_script("arguments[0].value = arguments[1]; arguments[0].onchange()",
                                    self.find(select), value)

    def test_each_fault_is_marked(self):
        for stage, runs in BROKEN.items():
            self.assertIn(len(runs), (2, 3), stage)
            self.open(stage)
            for name in dict.fromkeys(run["pass"] for run in runs):
                self.choose("#pass", name)
                of_pass = [run for run in runs if run["pass"] == name]
                for number, run in enumerate(of_pass, 1):
                    with self.subTest((stage, run["fault"]["name"])):
                        self.choose("#fault", str(number))
                        self.check_marks(run)
                        self.choose("#fault", "0")
                        self.assertEqual(self.marked(), [[], []])
        self.assert_silent()

    def check_marks(self, run):
        """The first finding is marked, and the page is where the access is that comes last."""
        finding = run["findings"][0]
        warp, _, location, _ = finding["accesses"][slow(finding) if "order" in finding else -1]
        file, line = location.split(":")
        self.assertIn(str(line), self.marked()[0])
        self.assertIn(str(warp), self.marked()[1])
        self.assertIn(f"/{file}", self.find(".file").text)
        if finding["array"]:  # Else it is a register.
            self.assertIn(line, self.texts(".lines .now .number"))

    def test_a_race_of_two_warps_comes_first(self):
        of_two = lambda finding: len({warp for warp, *_ in finding["accesses"]}) == 2
        for run in (run for runs in BROKEN.values() for run in runs):
            known = [of_two(finding) for finding in run["findings"]]
            self.assertEqual(known, sorted(known, reverse=True), run["fault"]["name"])
        for run in BROKEN["02_tiled"][1:]:
            self.assertTrue(of_two(run["findings"][0]), run["fault"]["name"])

    def overtakings(self):
        """Each finding with an order of its own: (run, launch, finding)."""
        return [(run, run["launches"][finding["order"]["launch"]], finding) for runs in BROKEN.values() for run in runs
                for finding in run["findings"] if "order" in finding]

    def test_the_order_of_a_race(self):
        """It keeps each warp's own order and all barriers."""
        self.assertGreater(len(self.overtakings()), 5)
        # The clock shows this one: a wait is missing.
        self.assertNotIn("order", BROKEN["14_persistent"][0]["findings"][0])
        for run, launch, finding in self.overtakings():
            with self.subTest((run["stage"], run["fault"]["name"], finding["array"])):
                order, at, arrived = finding["order"], [0] * len(launch["warps"]), {}
                for number, step in enumerate(order["steps"]):
                    for warp, first, end in (warp for part in step["parts"] for warp in part["warps"]):
                        self.assertEqual(first, at[warp])
                        at[warp] = end
                        for event in launch["warps"][warp][first:end]:
                            if KINDS[event[0]] == "arrive":
                                arrived[tuple(event[2:4])] = number
                self.assertEqual(at, [len(warp) for warp in launch["warps"]])
                for number, step in enumerate(order["steps"]):
                    for warp, first, end in (warp for part in step["parts"] for warp in part["warps"]):
                        for event in launch["warps"][warp][first:end]:
                            if KINDS[event[0]] == "wait":
                                self.assertGreater(number, arrived.get(tuple(event[2:4]), -1))
                intervals = [step["interval"] for step in order["steps"]]
                self.assertEqual(intervals, sorted(intervals))
                self.assertEqual(len(set(order["at"])), 2)
                for step, (warp, _, location, _) in zip(order["at"], finding["accesses"]):
                    lines = [launch["places"][place][1] for part in order["steps"][step]["parts"]
                             if warp in [one for one, *_ in part["warps"]] for place in part["places"]]
                    self.assertIn(int(location.split(":")[1]), lines)

    def now(self):
        """What each warp does in the current step."""
        return self.texts(".lanes tr:not(.barrier) td.now")

    def test_one_sees_the_overtaking(self):
        run = BROKEN["02_tiled"][2]
        race = run["findings"][0]
        self.open("02_tiled")
        self.choose("#fault", "3")
        self.assertIn("KV tile 0", self.find(".where").text)
        self.assertEqual(self.now(), ["|"] + ["L"] * 7)  # Warp 0 is at the barrier of the next tile.
        self.assertIn("warp 1 stands still until warp 0 has overtaken it", self.find(".order").text)
        self.press(Keys.ARROW_LEFT)
        self.assertEqual(self.now(), ["SL"] + [""] * 7)
        written = self.browser.execute_script("return document.querySelector('mark:not([hidden])').dataset.text")
        stored = [value for event in run["launches"][2]["warps"][0] if len(event) > 10 and event[9][2] == 0
                  for value in event[10][:1] if run["launches"][2]["arrays"][event[2]]["name"] == "sV"]
        self.assertEqual(written, f"{stored[0]} → {stored[1]}".replace("-0 ", "0 "))
        self.assert_in_sight("mark:not([hidden])")
        self.find(".findings [aria-pressed=true]").click()
        self.assertFalse(self.find(".order").is_displayed())
        self.assertEqual(len(set(self.now())), 1)
        self.assertEqual(race["accesses"][0][0], 1)

    def test_what_a_fault_costs(self):
        for number in (2, 3):
            wrong = BROKEN["02_tiled"][number - 1]["findings"][-1]
            self.assertEqual((wrong["title"], wrong["array"]), ("WRONG VALUE", "O"))
            self.open("02_tiled")
            self.choose("#fault", str(number))
            self.browser.find_elements(By.CSS_SELECTOR, ".findings button")[-1].click()
            self.assertRegex(self.find(".finding").text, rf"= {wrong['is']}, and {wrong['was']} without the fault\n.* of 1,024 values")
            mark = self.find("mark:not([hidden])")
            self.assertEqual(mark.get_attribute("data-text"), f"is {wrong['is']}, should be {wrong['was']}")

    def test_a_guilty_warp_is_in_sight(self):
        for stage, number in (("14_persistent", 1), ("16_overlapped_backward", 3)):
            self.open(stage)
            self.choose("#fault", str(number))
            self.assert_in_sight(".lanes .fault.chosen", stage)

    def test_faults_are_actions(self):
        for stage, runs in BROKEN.items():
            self.open(stage)
            names = [name for name in self.texts("#fault option") if name]
            for name in names[1:]:
                self.assertRegex(name, r"^(Find|Forget|Give|Keep|Load|Multiply|Number|Remove|Rescale|Start|Use|Wait)\b[^:]+$")

    def test_a_broken_line_shows_what_it_was(self):
        for number, words in ((1, "was"), (2, "removed")):
            run = BROKEN["02_tiled"][number - 1]
            self.open("02_tiled", f"#step=5&fault={number}")
            self.assertEqual(self.find(".lines .changed .number").text, str(run["fault"]["line"]))
            self.assertEqual(self.find(".lines .changed del").text, run["fault"]["was"])
            self.assertEqual(self.find(".lines .changed .badge").text, words)

    def test_the_current_line_is_whole(self):
        self.open("02_tiled", "#step=5&fault=2")
        row = self.find(".lines .now")
        number, source = (row.find_element(By.CSS_SELECTOR, f".{name}").text for name in ("number", "source"))
        fault = BROKEN["02_tiled"][1]["fault"]
        self.assertEqual(self.find(".whole").text,
                         f"{number}: {source.strip()}\nremoved {fault['line']}: {fault['was']}")

    def test_bytes_of_a_broken_run(self):
        run = BROKEN["02_tiled"][0]
        self.open("02_tiled", "#step=100000&fault=1")
        self.assertEqual(self.totals(), self.counted(run["launches"][-1]))

    def test_beside_the_sound_run(self):
        for width in (390, 820, 1280, 1440, 1920):
            self.open("02_tiled", "#step=7&fault=1&beside=1", width)
            where = self.texts(".where")
            self.assertEqual(len(where), 2)
            for text in where:
                self.assertIn("step 7 of", text)
            panes = [self.shown_panes(f".player:nth-child({n})") for n in (1, 2)]
            self.assertEqual(panes[0], panes[1])
            self.assertLessEqual({"matrices"} if width == 390 else {"matrices", "warps"}, set(panes[0]), width)
            for number in (1, 2):
                self.assert_in_sight(f".player:nth-child({number}) .tensors", width)
            self.assertEqual(self.browser.execute_script(TOO_WIDE), [])
        self.press(Keys.ARROW_RIGHT)
        self.assertTrue(self.browser.current_url.endswith("#step=8,8&fault=1&beside=1"))
        self.assert_silent()

    def test_speed_while_playing(self):
        """The time between two steps."""
        self.open("03_online_softmax")
        self.browser.execute_script("window.times = []; const old = setInterval;"
                                    "window.setInterval = (what, time) => { times.push(time); return old(what, time); }")
        self.find("#play").click()
        self.choose("#speed", "2")
        self.assertEqual(self.browser.execute_script("return times"), [1000 / 6, 500])

    def test_the_address_keeps_the_finding(self):
        self.open("02_tiled")
        self.choose("#fault", "3")
        address, step = self.browser.current_url, self.step()
        self.open("02_tiled", address[address.index("#"):])
        self.assertEqual(self.texts(".findings [aria-pressed=true]"), ["⚠ RACE in shared memory: sV at kernel.cuh:131"])
        self.assertEqual((self.step(), self.now()), (step, ["|"] + ["L"] * 7))

    def test_keys_choose_a_warp(self):
        self.open("03_online_softmax")
        self.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
        self.assertEqual(self.texts(".lanes .chosen td:first-child"), ["1"])

    def test_names_for_those_who_do_not_see(self):
        self.open("03_online_softmax", "#step=3")
        self.find(".tabs [data-pane=shared]").click()
        for canvas in self.browser.find_elements(By.CSS_SELECTOR, "canvas"):
            self.assertEqual(canvas.get_attribute("role"), "img")
            self.assertTrue(canvas.get_attribute("aria-label"))
        for tab in self.browser.find_elements(By.CSS_SELECTOR, "[role=tab]"):
            pane = self.browser.find_element(By.ID, tab.get_attribute("aria-controls"))
            self.assertEqual(pane.get_attribute("role"), "tabpanel")
        self.find("[role=tab][data-pane=code]").send_keys(Keys.ARROW_RIGHT)
        self.assertEqual(self.find("[role=tab][aria-selected=true]").text, "Banks")
        self.assertEqual(self.step(), 3)

    def test_a_phone_shows_the_warps_of_a_fault(self):
        self.open("16_overlapped_backward", width=390, height=844)
        self.choose("#fault", "3")
        self.find(".tabs [data-pane=warps]").click()
        self.assert_in_sight(".lanes .fault.chosen")

    def test_targets_for_a_finger(self):
        self.open("02_tiled", "#step=5&fault=2", width=390, height=844)
        for target in self.browser.find_elements(By.CSS_SELECTOR, "button, select, #beside-label"):
            if target.is_displayed():
                self.assertGreaterEqual(min(target.size["width"], target.size["height"]), 44, target.text)

    def test_the_book_sets_the_theme(self):
        back = "return getComputedStyle(document.body).backgroundColor"
        self.open("03_online_softmax")
        light = self.browser.execute_script(back)
        for theme, is_light in (("dark", False), ("light", True), ("dark", False), ("auto", True)):
            self.browser.execute_script("window.postMessage({theme: arguments[0]}, '*')", theme)
            self.wait_for(lambda: (self.browser.execute_script(back) == light) == is_light, theme, 5)

    def test_links_out(self):
        self.open("02_tiled")
        self.assertTrue(self.find("#chapter").get_attribute("href").endswith("/stages/02_tiled/README.html"))
        self.assertEqual([name for name in self.texts("#stages option") if name], ALL)
        self.choose("#stages", "03_online_softmax")
        self.wait_for(lambda: "03_online_softmax.html" in self.browser.current_url, "the other stage")
        frame = "document.body.innerHTML = ''; const frame = document.createElement('iframe'); frame.src = arguments[0]; document.body.append(frame)"
        self.browser.execute_script(frame, (PAGES / "02_tiled.html").as_uri())
        self.browser.switch_to.frame(0)
        self.wait_for(lambda: self.find("#title").text == "02_tiled", "the page")
        self.assertFalse(self.find("#book").is_displayed())
        self.browser.switch_to.default_content()
        self.browser.get("about:blank")

    # ---- Tours --------------------------------------------------------------------------------------

    def captions(self, stage, run):
        """The captions of a run's tour, each in its place: (words, step)."""
        fault = [one for one in BROKEN[stage] if one["pass"] == run["pass"]].index(run) + 1 if "fault" in run else 0
        self.open(stage, f"#step=0&pass={run['pass']}&fault={fault}")
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-reduced-motion", "value": "reduce"}]})
        captions = []
        while self.find("#caption-next").is_displayed() and self.find("#caption-next").is_enabled():
            self.find("#caption-next").click()
            captions.append((self.find("#caption").text, self.step()))
        return captions

    def test_each_tour(self):
        """Each of its places is in the run, it goes forward, and names what is there."""
        for stage in STAGES:
            for run in RUNS[stage] + BROKEN[stage]:
                with self.subTest((stage, run["pass"], run.get("fault", {}).get("name"))):
                    captions = self.captions(stage, run)
                    self.assertEqual(len(captions), run["tour"].count("@ "))
                    self.assertIn(len(captions), range(4, 10))
                    for words, _ in captions:
                        self.assertNotRegex(words, r"[{}]|undefined|NaN")
                    arrays = {array["name"] for launch in run["launches"] for array in launch["arrays"]}
                    shown = [name.strip() for line in re.findall(r"^@ .*? \| (.*)", run["tour"], re.M) for name in line.split(",")]
                    self.assertLessEqual(set(shown), arrays | {"memory", "warps", "code", "banks", "softmax", "change"})
                    self.assert_silent()

    def test_the_story_of_a_dropped_barrier(self):
        run = BROKEN["02_tiled"][2]
        captions = self.captions("02_tiled", run)
        wrong = run["findings"][-1]
        self.assertEqual(len(captions), 6)
        self.assertTrue(captions[3][0].startswith("4 of 6. Warp 0 overtakes"), captions[3])
        self.assertIn(f"{wrong['name']} is {wrong['is']}, and should be {wrong['was']}", captions[-1][0])
        self.assertEqual([step for _, step in captions], sorted(step for _, step in captions))

    def test_a_tour_plays(self):
        self.open("02_tiled", "#step=0&fault=3&caption=4")
        self.assertEqual(self.now(), ["SL"] + [""] * 7)
        self.assertEqual(self.texts(".figure.shown figcaption"), [])
        self.browser.execute_script("const old = setTimeout; window.setTimeout = (what, time) => old(what, Math.min(time, 20))")
        self.find("#tour-play").click()
        self.wait_for(lambda: self.find("#caption").text.startswith("6 of 6") and self.find("#tour-play").text == "Play the tour", "the end")
        self.assertTrue(self.browser.current_url.endswith("&caption=6"))
        self.press(Keys.ARROW_LEFT)
        self.assertFalse(self.find("#caption").is_displayed())
        self.assert_silent()

    def test_another_run_keeps_the_step(self):
        self.open("02_tiled", "#step=7&fault=1&warp=2")
        self.find(".findings button").click()
        at = self.step()
        self.assertNotEqual(at, 0)
        self.find("#beside").click()
        self.assertEqual(self.step(), at)
        self.assertEqual(len(self.browser.find_elements(By.CSS_SELECTOR, ".findings [aria-pressed=true]")), 1)
        self.press(Keys.ARROW_RIGHT)
        self.choose("#fault", "0")
        self.assertEqual(self.step(), at + 1)

    def test_two_stages(self):
        ladder("--play", "02", "03")
        page = ROOT / "build/play/02_tiled-03_online_softmax.html"
        runs = file_of(page)["runs"]
        self.assertEqual(len({run["problem"] for run in runs}), 1)
        for width in (390, 1280, 1920):
            self.open(page, "#step=3", width=width)
            names = [e.text.split(":")[0] for e in self.browser.find_elements(By.CSS_SELECTOR, ".where")]
            self.assertEqual(names, ["02_tiled", "03_online_softmax"])
            self.assertEqual(self.browser.execute_script(TOO_WIDE), [])
        self.find("#speed option[value='1000']").click()
        self.find("#play").click()
        self.wait_for(lambda: self.find("#play").text == "Play", "its end")
        last = [len([step for launch in run["launches"] for step in launch["steps"]]) - 1 for run in runs]
        self.assertIn(f"#step={last[0]},{last[1]}", self.browser.current_url)
        self.assert_silent()

    def test_an_answer_to_an_exercise(self):
        """It is a run behind the stage's own; a file that is not begun has the exercise's own race."""
        page, answer = (ROOT / f"stages/02_tiled/exercises/2_race.{end}" for end in ("md", "cuh"))
        if not answer.exists():
            subprocess.run([ROOT / "scripts/exercise_file.py", page], check=True, capture_output=True)
            self.addCleanup(answer.unlink)
        file = pathlib.Path(FOLDER.name) / "answer.json"
        subprocess.run([ROOT / "scripts/maintainer/broken_runs.py", "--play", "02_tiled", "--answer", answer,
                        "--json", file], check=True)
        names = [run.get("fault", {}).get("name") for run in json.loads(file.read_text(encoding="utf-8"))["runs"]]
        self.assertEqual(names, [None, "Your answer to 2_race"])

    def test_rows_are_those_after_the_last_whole_tile(self):
        launch = RUNS["03_online_softmax"][0]["launches"][0]
        self.open("03_online_softmax", "#step=1")
        self.find(".tabs [data-pane=rows]").click()
        self.assertIn("No tile", self.find(".rows-key").text)
        for rows in launch["rows"]:
            done = max(n for n, step in enumerate(launch["steps"])
                       if step.get("tile") == rows["tile"] and step["paper"].startswith("[FA2 Alg.1 l.9]"))
            self.browser.execute_script(f"location.hash = '#step={done - 1}'")
            self.wait_for(lambda: self.step() == done - 1, done)
            self.assertNotIn(f"After {rows['tile']},", self.find(".rows-key").text)
            self.press(Keys.ARROW_RIGHT)
            self.assertIn(f"After {rows['tile']}:", self.find(".rows-key").text)
            sums = [e.text for e in self.browser.find_elements(By.CSS_SELECTOR, ".rows-table td:nth-child(3)")]
            self.assertEqual([float(text) for text in sums], rows["row_sum"])

    def test_the_key_lists_what_occurs(self):
        self.open("03_online_softmax")
        self.assertEqual(self.find(".warps .key").text, "L load · S store · X shuffle · | barrier · s warp sync")
        self.open("14_persistent")
        for words in ("copies in flight", "products in flight", "the phase of each mbarrier"):
            self.assertIn(words, self.find(".warps .key").text)

    def test_the_problem_in_words(self):
        self.assertEqual(RUNS["03_online_softmax"][0]["problem"], "b1_h1_q32k72_d32_f16")
        self.open("03_online_softmax")
        self.assertIn("1 batch, 1 head, 32 queries × 72 keys, head_dim 32, f16", self.find("#problem").text)
        self.assertIn("Space plays", self.find("#problem").text)

    def test_touch_has_no_keys(self):
        touch = lambda on: self.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": on})
        self.addCleanup(touch, False)
        touch(True)
        self.open("03_online_softmax", width=390)
        self.assertNotIn("Space plays", self.find("#problem").text)

    def test_copies_in_flight_and_phases(self):
        launch = RUNS["14_persistent"][0]["launches"][-1]
        kinds = {"copy": [flight for flight in launch["flights"] if flight[4] >= 0],
                 "product": [flight for flight in launch["flights"] if flight[4] < 0]}
        for kind, flights in kinds.items():
            _, warp, begin, end, _ = max(flights, key=lambda flight: flight[3] - flight[2])
            self.open("14_persistent", f"#step={end - 1}&warp={warp}")
            self.assertTrue(self.find(f".lanes .chosen td.now.{kind}").is_displayed())
            self.assertIn("In flight: ", self.find(".flights").text)
        last = len(launch["steps"]) - 1
        self.open("14_persistent", f"#step={last}")
        rows = self.browser.execute_script(
            "return [...document.querySelectorAll('.lanes .barrier')]"
            ".map(row => [row.cells[0].textContent, row.querySelector('.now').textContent])")
        self.assertEqual(rows, [[barrier["name"], str(len(barrier["ends"]))] for barrier in launch["barriers"]])
        self.assert_silent()

    def matrices(self):
        return [e.text.split()[0] for e in self.browser.find_elements(By.CSS_SELECTOR, "figcaption")]

    def test_the_order_of_matrices(self):
        self.open("03_online_softmax", width=1920)
        self.assertEqual(self.matrices(), ["Q", "K", "V", "sQ", "sK", "sP", "sV", "O", "LSE"])
        self.open("03_online_softmax", "#step=100000&pass=backward", width=1920)
        self.assertEqual(self.matrices()[:7], ["Q", "K", "V", "dO", "LSE", "workspace", "sK"])
        self.assertEqual(self.matrices()[-2:], ["dK", "dV"])

    def test_a_wrong_value_is_in_sight(self):
        finding = BROKEN["03_online_softmax"][0]["findings"][0]
        self.assertEqual((finding["title"], finding["array"]), ("WRONG VALUE", "O"))
        self.open("03_online_softmax")
        self.choose("#fault", "1")
        self.assert_in_sight("mark:not([hidden])")

    def test_an_element_tells_what_happened_to_it(self):
        run = RUNS["03_online_softmax"][0]
        self.open("03_online_softmax", f"#step={len(run['launches'][0]['steps']) - 1}")
        canvas = self.browser.find_elements(By.CSS_SELECTOR, ".tensors canvas")[self.matrices().index("O")]
        point = "arguments[0].dispatchEvent(new PointerEvent('pointermove', {clientX: " \
                "arguments[0].getBoundingClientRect().x + 1, clientY: arguments[0].getBoundingClientRect().y + 1}))"
        self.browser.execute_script(point, canvas)
        self.assertRegex(self.find(".element").text,
                         r"^O\[0\]\[0\] = -?[\d.e-]+: read 0 times, written 1 times, last by warp 0$")


if __name__ == "__main__":
    unittest.main()
