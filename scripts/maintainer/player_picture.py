#!/usr/bin/env python3
"""Renews docs/figures/player.png, README.md's picture of the trace player, from build/players/02_tiled.html,
which docs/players.py makes. Needs Debian's Selenium."""
import sys

from repository import ROOT

sys.path.insert(0, str(ROOT / "tests/docs"))
import browser  # noqa: E402, it lies there

FAULT, CAPTION = "Remove the barrier before the next tile", 4
CHOOSE = """
const select = document.getElementById("fault");
select.value = [...select.options].find(option => option.textContent === arguments[0]).value;
select.onchange();
location.hash += `&caption=${arguments[1]}`;
"""


def main():
    browser.BrowserTest.setUpClass()
    page = browser.BrowserTest()
    page.set_screen(1280, height=760)
    page.browser.get((ROOT / "build/players/02_tiled.html").as_uri())
    is_ready = "return document.getElementById('fault').onchange !== null"
    page.wait_for(lambda: page.browser.execute_script(is_ready), "the page")
    page.browser.execute_script(CHOOSE, FAULT, CAPTION)
    page.wait_for(lambda: page.browser.find_element("id", "caption").text.startswith(f"{CAPTION} of"), "the caption")
    page.browser.save_screenshot(str(ROOT / "docs/figures/player.png"))
    browser.BrowserTest.tearDownClass()


if __name__ == "__main__":
    main()
