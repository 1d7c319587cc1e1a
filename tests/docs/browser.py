"""A headless Chromium for the tests of pages, with Debian's Selenium."""
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait


class BrowserTest(unittest.TestCase):
    """Tests in a browser of their own, which keeps what pages write to the console."""

    @classmethod
    def setUpClass(cls):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        cls.browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()

    def wait_for(self, condition, what, seconds=100):
        """Waits until the condition holds."""
        WebDriverWait(self.browser, seconds).until(lambda _: condition(), what)

    def set_screen(self, width=1280, scheme="light", height=900):
        """Sets the window's size, and the colour scheme that the system asks for."""
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
