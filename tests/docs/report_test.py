#!/usr/bin/env python3
"""The page *How fast is attention on a GPU?* in a browser, opened from a file: its numbers, filters, colours and
widths; and the check of the files that it shows."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import BrowserTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import report  # noqa: E402, it lies there, and sets the path
import repository  # noqa: E402
from peers import Cell  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()
TABLE = """return [...document.querySelectorAll("#" + arguments[0] + " tbody tr")]
    .map(row => [...row.cells].map(cell => cell.textContent))"""
# Contrast of the page's texts, and of marks in charts, with what is behind them; and of both the least.
CONTRAST = """
const paint = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const light = color => {
  paint.clearRect(0, 0, 1, 1);
  paint.fillStyle = color;
  paint.fillRect(0, 0, 1, 1);
  const linear = v => v <= 10 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const [r, g, b] = [...paint.getImageData(0, 0, 1, 1).data].map(linear);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const least = (selector, property) => Math.min(...[...document.querySelectorAll(selector)].map(e => {
  const behind = getComputedStyle(e.closest("figure") ?? document.body).backgroundColor;
  const [low, high] = [getComputedStyle(e)[property], behind].map(light).sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}));
return [light(getComputedStyle(document.body).backgroundColor) < 0.1,
        least(".report :is(p, a, label, td, th, summary, figcaption)", "color"),
        least(".report svg text", "fill"), least(".report svg :is(circle, rect:not([style*=line]))", "fill")];
"""


def json_of(path):
    return json.loads((report.RESULTS / path).read_text(encoding="utf-8"))


def digits(value):
    """As the page's script writes a number."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def made_up():
    """The H200's ladder on another GPU, four times as slow, at two lengths."""
    result = json_of("nvidia-h200/ladder.json")
    result["provenance"]["device"] = "NVIDIA A100"
    for row in [row for row in result["rows"] if "ms" in row]:
        row.update(ms=4 * row["ms"], tflops=row["tflops"] / 4, ceiling_tflops=400)
        result["rows"].append({**row, "problem": "b8_h32_q2048k2048_d64_f16", "ms": row["ms"] / 2})
    return result


class Page(BrowserTest):
    """The page in a window."""

    def open(self, address="", width=1280, scheme="light", yours=None):
        """Opens the page anew; fails if it writes anything to the console."""
        self.set_screen(width, scheme)
        file = pathlib.Path(FOLDER.name, "yours.html" if yours else "report.html")
        if not file.exists():
            file.write_text(report.page(yours), encoding="utf-8")
        self.browser.get("about:blank")
        self.browser.get(f"{file.as_uri()}{address}")
        self.assertEqual(self.browser.get_log("browser"), [])

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def table(self, figure):
        """The numbers of a figure."""
        return self.browser.execute_script(TABLE, figure)

    def count(self, selector):
        return len(self.browser.find_elements(By.CSS_SELECTOR, selector))

    def chosen(self, name):
        """What a filter says."""
        return self.find(f"#choice [name={name}]").get_attribute("value")

    def test_first_screen(self):
        """The sentence has the numbers of the results, and the curves stand under it."""
        self.open()
        text = self.find(".answer").text
        best = max(row["tflops"]["14_persistent"][0] for row in json_of("nvidia-h200/peers.json")["rows"]
                   if row["head_dim"] in (64, 128) and "14_persistent" in row["tflops"])
        self.assertIn(f"{best:.0f} TFLOP/s forward", text)
        self.assertIn(f"{report.committed.ratio('14_persistent'):.2f} × the speed", text)
        box = self.find("#curves svg").rect
        self.assertLess(box["y"] + box["height"], 900)

    def test_curves_equal_the_results(self):
        """For every pass, dtype, head_dim and mask."""
        self.open()
        for file in ("peers", "peers_bf16", "peers_f32"):
            kinds = {}
            for row in json_of(f"nvidia-h200/{file}.json")["rows"]:
                kinds.setdefault((row["pass"], row["dtype"], row["head_dim"], row["causal"]), []).append(row)
            for (which, dtype, head_dim, causal), rows in kinds.items():
                address = f"#pass={which}&dtype={dtype}&d={head_dim}&mask={'causal' if causal else 'none'}"
                self.browser.execute_script("location.hash = arguments[0]", address)
                self.wait_for(lambda: f"{which}, {dtype}, head_dim {head_dim}, mask: {'causal' if causal else 'none'}"
                              in self.find("#curves figcaption").text, address)
                names = sorted({name for row in rows for name in row["tflops"]})
                found = {cells[0]: cells[1:] for cells in self.table("curves")}
                with self.subTest(address=address):
                    self.assertEqual(len(found), len(names))
                    self.assertIn(f"{file}.json", self.find("#curves figcaption").text)
                    for name in names:
                        shown = found[report.PEERS.get(name, name.replace("_", " "))]
                        speeds = {row["seq"]: row["tflops"].get(name) for row in rows}
                        wanted = [digits(speeds[seq][0]) if speeds[seq] else "–" for seq in sorted(speeds)]
                        # Longer sequences are of another run.
                        self.assertEqual([text.split(" (")[0] for text in shown[:len(wanted)]], wanted, name)

    def test_other_tables_equal_the_results(self):
        self.open()
        rows = {(cells[0], cells[1]): cells[2:] for cells in self.table("ladder")}
        timed = [row for row in json_of("nvidia-h200/ladder.json")["rows"] if "ms" in row]
        self.assertEqual(len(rows), len(timed))
        for row in timed:
            key = row["stage"].replace("_", " "), row["pass"]
            self.assertEqual(rows[key][:2], [digits(row["ms"]), digits(row["tflops"])])
        self.assertEqual(self.count("#ladder svg a"), len(timed))
        roof = {(cells[0], cells[1]): cells for cells in self.table("roofline")}
        moved = sum(row["dram_read_bytes"] + row["dram_write_bytes"] for row in json_of("nvidia-h200/kernels.json")["rows"]
                    if (row["stage"], row["pass"], row["problem"]) == ("14_persistent", "forward", report.PROBLEM))
        self.assertEqual(roof["14 persistent", "forward"][2], digits(4 * 4 * 32 * 4096**2 * 64 / moved))
        timeline = json_of("nvidia-h200/timeline_14_persistent.json")["timelines"][0]
        tile = next(cells for cells in self.table("tiles") if cells[:2] == ["14 persistent", "64"])
        lanes = [lane["cycles"] for lane in timeline["lanes"] if "parts" in lane]
        self.assertEqual(tile[2], digits(sum(lanes) / len(lanes)))
        history = [run["tflops"].get("14_persistent forward f16", [None] * 20) for run in json_of("history.json")["runs"]
                   if run["device"] == "NVIDIA H200" and run["file"] == "peers.json"]
        speeds = [run[15] for run in history if len(run) > 15 and run[15]]
        self.assertEqual(json_of("history.json")["problems"][15], "b4_h16_q4096k4096_d128")
        past = next(cells for cells in self.table("history") if cells[0] == "14 persistent")
        self.assertEqual(past[3:], [digits(speeds[-1]), str(len(speeds)), f"{100 * (speeds[-1] / speeds[-2] - 1):+.1f} %"])
        extra = next(row["extra_bytes"] for row in timed if row["stage"] == "01_naive")
        self.assertEqual(self.table("memory")[0][5], report.decimal_bytes(extra))
        for figure in ("stalls", "memory", "steps", "chip"):
            self.assertGreater(len(self.table(figure)), 10, figure)

    def test_filters_and_address(self):
        """By keyboard; what was chosen stays in the address, and an address chooses."""
        self.open()
        self.find("#choice [name=pass]").send_keys("b")
        self.assertIn("pass=backward", self.browser.current_url)
        self.assertIn("18 dq on the way", self.find("#curves svg").get_attribute("aria-label"))
        box = self.find("#names [value=cudnn]")
        box.send_keys(Keys.SPACE)
        self.assertNotIn("cuDNN", self.find("#curves svg").text)
        address = self.browser.current_url
        self.open("#" + address.split("#")[1])
        self.assertEqual(self.chosen("pass"), "backward")
        self.assertFalse(self.find("#names [value=cudnn]").is_selected())
        self.find("#names [value=cudnn]").send_keys(Keys.SPACE)
        self.assertIn("cuDNN", self.find("#curves svg").text)
        self.open("#gpu=no+such&pass=sideways&d=64")
        self.assertEqual((self.chosen("gpu"), self.chosen("pass"), self.chosen("d")), ("NVIDIA H200", "forward", "64"))

    def test_no_mixed_gpus(self):
        """A GPU's chart has that GPU's runs alone, and says which, unless another is asked for."""
        self.open("#gpu=NVIDIA+H100+80GB+HBM3&mask=causal&d=128")
        self.assertNotIn("H200", self.find("#curves figcaption").text)
        self.assertIn("nvidia-h100/peers_long.json", self.find("#curves figcaption").text)
        self.open("#unit=%25+of+the+GPU's+ceiling")
        row = next(row for row in json_of("nvidia-h200/peers.json")["rows"] if row["head_dim"] == 128)
        # The fastest matrix products that were measured on the H200 are those of the ladder's ceiling.
        ceiling = max(one["ceiling_tflops"] for one in json_of("nvidia-h200/ladder.json")["rows"] if "ceiling" in one)
        found = {cells[0]: cells[1:] for cells in self.table("curves")}
        share = 100 * row["tflops"]["14_persistent"][0] / ceiling
        self.assertEqual(found["14 persistent"][0].split(" (")[0], digits(share))

    def test_widths_and_colours(self):
        """Nothing reaches beyond the window; texts and marks can be read, light and dark."""
        for width, scheme in ((390, "dark"), (390, "light"), (768, "light"), (1280, "dark"), (1920, "light")):
            self.open(width=width, scheme=scheme)
            with self.subTest(width=width, scheme=scheme):
                self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), width)
                self.assertEqual(self.browser.execute_script(
                    "return [...document.querySelectorAll('.report svg')]"
                    ".filter(e => e.getBoundingClientRect().right > innerWidth).length"), 0)
                dark, *contrast = self.browser.execute_script(CONTRAST)
                self.assertEqual(dark, scheme == "dark")
                self.assertGreaterEqual(min(contrast[:2]), 4.5, contrast)
                self.assertGreaterEqual(contrast[2], 3 if scheme == "light" else 2.5, contrast)

    def test_accessible(self):
        """Each control has a label, each chart a name, headings go down by one; tables scroll by keyboard."""
        self.open()
        self.assertEqual(self.count(".report :is(select, input)"), self.count(".report label > :is(select, input)"))
        self.assertEqual(self.count(".report svg"), self.count(".report svg[role][aria-label]"))
        levels = [int(heading.tag_name[1]) for heading in self.browser.find_elements(By.CSS_SELECTOR, "h1, h2, h3")]
        self.assertEqual(levels[0], 1)
        self.assertTrue(all(after <= before + 1 for before, after in zip(levels, levels[1:])))
        self.assertEqual(self.count(".scroll"), self.count(".scroll[tabindex='0'][role=region][aria-label]"))
        self.assertEqual(self.count("[src], link"), 0, "needs another file")

    def test_yours(self):
        """Another GPU's results beside the committed ones, as a share of its own ceiling; and a simulator's counts."""
        self.open(yours=made_up())
        self.assertEqual((self.chosen("gpu"), self.chosen("beside")), ("NVIDIA A100 (yours)", "NVIDIA H200"))
        speed = next(row["tflops"] for row in made_up()["rows"] if row["stage"] == "14_persistent" and "ms" in row)
        found = {cells[0]: cells[1:] for cells in self.table("curves")}
        self.assertEqual([text for text in found["14 persistent"] if text != "–"], [digits(speed)] * 2)
        self.assertEqual(len([text for text in found["14 persistent*"] if text != "–"]), 6)
        mine = next(cells for cells in self.table("ladder") if cells[0] == "14 persistent")
        self.assertEqual(mine[6:], [digits(speed), f"{speed / 4:.0f}\N{NO-BREAK SPACE}%"])
        self.assertFalse(self.find("#counts").is_displayed())
        self.assertIn("Your NVIDIA A100 reaches 132 TFLOP/s forward (33", self.find(".answer").text)

    def test_counts(self):
        result = json_of("cpu-simulator/ladder.json")
        row = next(row for row in result["rows"] if "bank_conflicts" in row)
        row["bank_conflicts"] += 7
        pathlib.Path(FOLDER.name, "yours.html").unlink(missing_ok=True)
        self.open(yours=result)
        pathlib.Path(FOLDER.name, "yours.html").unlink()
        self.assertIn("7 (0)", self.table("counts")[0])
        self.assertTrue(self.find("#counts .worse").is_displayed())


class InTheBook(BrowserTest):
    """The same page in the book, which scripts/docs.sh has built."""

    def test_theme_button_and_search(self):
        site = ROOT / "build/docs/html"
        self.set_screen(1280, "light")
        self.browser.get(f"{site.as_uri()}/docs/how_fast.html")
        self.browser.find_element(By.CSS_SELECTOR, ".theme-toggle-content .theme-toggle").click()
        dark, *contrast = self.browser.execute_script(CONTRAST)
        self.browser.execute_script("localStorage.clear()")
        self.assertTrue(dark)
        self.assertGreaterEqual(min(contrast[:2]), 4.5, contrast)
        self.browser.get(f"{site.as_uri()}/search.html?q=fa3")
        result = "#search-results li a[href*='docs/how_fast.html']"
        self.wait_for(lambda: self.browser.find_elements(By.CSS_SELECTOR, result), "the page among the results")


class Files(unittest.TestCase):
    """What is refused, with which sentence."""

    def test_refused(self):
        ladder, peers = json_of("nvidia-h200/ladder.json"), json_of("nvidia-h200/peers.json")
        self.assertIsNone(report.fault_of(ladder) or report.fault_of(peers))
        timed = next(number for number, row in enumerate(ladder["rows"]) if "ms" in row)

        def broken(result, change):
            other = copy.deepcopy(result)
            change(other)
            return report.fault_of(other)
        for sentence, result, change in (
                ('its provenance has no "device"', ladder, lambda r: r["provenance"].pop("device")),
                ('its provenance has no "device"', ladder, lambda r: r.pop("provenance")),
                ('it has no "rows"', ladder, lambda r: r["rows"].clear()),
                ('row 1 has no "pass"', ladder, lambda r: r["rows"][0].update({"pass": "sideways"})),
                ('row 1 has no "stage"', ladder, lambda r: r["rows"][0].pop("stage")),
                ('"ms" above 0', ladder, lambda r: r["rows"][timed].update(ms=0)),
                ('"tflops" above 0', ladder, lambda r: r["rows"][timed].update(tflops=float("nan"))),
                ('"ceiling_tflops" above 0', ladder, lambda r: r["rows"][timed].update(ceiling_tflops="fast")),
                ('"ceilings" are not all numbers', peers, lambda r: r["ceilings"].update(copy_tbs=None)),
                ("contradict each other", ladder, lambda r: r["rows"][timed].update(ms=1.0)),
                ('row 1 has no "seq"', peers, lambda r: r["rows"][0].pop("seq")),
                ("[TFLOP/s, spread] of fa2", peers, lambda r: r["rows"][0]["tflops"].update(fa2=[-1, 0]))):
            with self.subTest(sentence=sentence):
                self.assertIn(sentence, broken(result, change))
        self.assertIn("provenance", report.fault_of([]))

    def test_contributed_folder(self):
        """A folder of docs/results is shown, or refused with the name of the wrong file."""
        root, good = pathlib.Path(FOLDER.name, "contributed"), json.dumps(made_up())
        folder = root / "docs/results/nvidia-a100"
        folder.mkdir(parents=True)
        with mock.patch.multiple(report, ROOT=root, RESULTS=folder.parent):
            (folder / "ladder.json").write_text(good, encoding="utf-8")
            run, = report.committed_runs()
            self.assertEqual((run["gpu"], run["ceilings"]), ("NVIDIA A100", {"f16": 400, "f32": 400}))
            self.assertIn("docs/results/nvidia-a100/ladder.json", run["origin"])
            self.assertIn(["14_persistent", "forward", "f16", 64, False, 2048], [cell[:6] for cell in run["cells"]])
            (folder / "ladder.json").write_text('{"rows": []}', encoding="utf-8")
            with self.assertRaisesRegex(report.ReportError, "nvidia-a100/ladder.json cannot be shown: its provenance"):
                list(report.committed_runs())

    def test_the_script_refuses(self):
        for text, sentence in (("{", "it is not JSON"), ("{}", "its provenance has no")):
            file = pathlib.Path(FOLDER.name, "wrong.json")
            file.write_text(text, encoding="utf-8")
            done = subprocess.run([ROOT / "scripts/report.py", "--yours", file], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"cuflash: {file} cannot be shown: {sentence}", done.stderr)


LADDER = """#!/usr/bin/env python3
import json, pathlib, re, sys
result = json.loads(pathlib.Path("docs/results/nvidia-h200/ladder.json").read_text())
result["provenance"]["device"] = "NVIDIA A100"
if "--timed" in sys.argv:
    shape = sys.argv[sys.argv.index("--timed") + 1]
    batch, heads, length, _, head_dim = map(int, re.findall("[0-9]+", shape))
    for row in result["rows"]:
        if "ms" in row:
            flops = 4 * batch * heads * length**2 * head_dim * (1 if row["pass"] == "forward" else 2.5)
            row.update(problem=shape + "_f16", ms=flops / row["tflops"] * 1e-9)
pathlib.Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps(result))
"""
CMAKE = """#!/bin/sh
[ "$1" = --version ] && echo cmake version 3.25.1 && exit
[ "$1" = --preset ] && mkdir -p "build/$2/bin" && exit
cp tools/fake_ladder "$2/bin/ladder"
"""


class Command(unittest.TestCase):
    """scripts/run.sh --report on a machine with a made-up GPU, whose ladder repeats the H200's speeds at each length."""

    def test_on_a_gpu(self):
        root = pathlib.Path(FOLDER.name, "checkout")
        repository.copy_sources(root)
        subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
        (root / "tools").mkdir()
        for name, text in (("cmake", CMAKE), ("fake_ladder", LADDER), ("nvidia-smi", "#!/bin/sh\necho GPU 0\n"),
                           ("nvcc", "#!/bin/sh\n")):
            (root / "tools" / name).write_text(text, encoding="utf-8")
            (root / "tools" / name).chmod(0o755)
        environment = os.environ | {"PATH": f"{root}/tools:{os.environ['PATH']}"}
        environment.pop("CUFLASH_TURN", None)
        done = subprocess.run([root / "scripts/run.sh", "--report"], env=environment, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads((root / "build/report.json").read_text(encoding="utf-8"))
        self.assertIsNone(report.fault_of(result))
        timed = {row["problem"] for row in result["rows"] if "ms" in row}
        shapes = {Cell("forward", "f16", row["head_dim"], False, row["seq"]).shape
                  for row in json_of("nvidia-h200/peers.json")["rows"] if row["head_dim"] in (64, 128)}
        self.assertEqual(timed, {f"b{batch}_h{heads}_q{seq}k{seq}_d{head_dim}_f16"
                                 for batch, heads, seq, head_dim in shapes})
        self.assertIn("NVIDIA A100 (yours)", (root / "build/report.html").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
