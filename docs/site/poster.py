"""The poster of a player: a link to the player's page, with a picture of the run that it plays."""
import html
import json

# Classes of book.css by the kinds of instructions in a run. A step without any of them is a "wait".
CLASSES = {
    "load": "read", "copy load": "read", "copy store": "read", "box copy": "read",
    "store": "write", "atomic": "write", "box store": "write", "box add": "write",
    "product": "product",
}
CELL = 10  # units of the picture for a step of a warp


def picture(kinds, run, launch):
    """What each warp does in each step, a row for each warp, with the step of the first wrong value."""
    cells = {}
    for n, step in enumerate(launch["steps"]):
        for warp, first, end in (warp for part in step["parts"] for warp in part["warps"]):
            done = {CLASSES.get(kinds[event[0]]) for event in launch["warps"][warp][first:end]}
            if done:
                kind = next((kind for kind in ("product", "write", "read") if kind in done), "wait")
                cells.setdefault(kind, []).append(f"M{CELL * n} {CELL * warp}h9v8h-9z")
    width, height = CELL * len(launch["steps"]), CELL * len(launch["warps"])
    marks = ""
    before = sum(len(one["steps"]) for one in run["launches"][:run["launches"].index(launch)])
    for finding in run["findings"]:
        if 0 <= finding.get("step", -1) - before < len(launch["steps"]):
            marks = f'<path class="wrong" d="M{CELL * (finding["step"] - before)} 0h9v{height}h-9z"/>'
    paths = "".join(f'<path class="{kind}" d="{"".join(path)}"/>' for kind, path in cells.items())
    return (f'<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" aria-hidden="true">'
            f"{paths}{marks}</svg>")


LEGEND = "A row is a warp, a column a step: " + ", ".join(
    f'<i class="{kind}"></i> {word}' for kind, word in
    (("read", "load"), ("write", "store"), ("product", "product"), ("wait", "anything else")))


def poster(page, address, fault=0):
    """The link to this address of a player's page, as HTML, with the first run or the fault of this number."""
    recorded = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    sound, *others = recorded["runs"]
    broken = [run for run in others if "fault" in run and run["pass"] == sound["pass"]]
    run, line = sound, ""
    launch = max(run["launches"], key=lambda one: len(one["steps"]))
    words = "Step through this run"
    steps = sum(len(one["steps"]) for one in run["launches"])
    ways = sum("fault" in one for one in others)
    what = f"{len(launch['warps'])} warps, {steps} steps; {ways} ways to break it"
    if fault:
        run, words = broken[fault - 1], "Watch it break"
        launch = next(one for one in run["launches"] if one["kernel"] == run["findings"][0]["kernel"])
        line = f"<code><del>{html.escape(run['fault']['was'])}</del></code>"
        races, wrong = (sum(finding["count"] for finding in run["findings"] if title in finding["title"])
                        for title in ("RACE", "WRONG VALUE"))
        what = f"Without this line: {races:,} accesses race and {wrong:,} results are wrong"
    return (f'<a class="poster" href="{address}" title="The run of a block, step by step">{line}'
            f'{picture(recorded["kinds"], run, launch)}'
            f"<span><b>▶ {words}</b> {what}</span><small>{LEGEND}</small></a>")
