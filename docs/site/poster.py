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


def link(address, recorded, run, launch, words, before=""):
    """The link with the picture of one launch of a run, as HTML."""
    return (f'<a class="poster" href="{address}" title="The run of a block, step by step">{before}'
            f'{picture(recorded["kinds"], run, launch)}'
            f"<span><b>▶ {words}</span><small>{LEGEND}</small></a>")


def runs_of(page):
    """What a player's page plays."""
    return json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))


def poster(page, address):
    """The link to the first run of a player's page."""
    recorded = runs_of(page)
    run = recorded["runs"][0]
    launch = max(run["launches"], key=lambda one: len(one["steps"]))
    steps = sum(len(one["steps"]) for one in run["launches"])
    ways = sum("fault" in one for one in recorded["runs"])
    what = f"{len(launch['warps'])} warps, {steps} steps; {ways} ways to break it"
    return link(address, recorded, run, launch, f"Step through this run</b> {what}")


def broken_poster(page, address, fault):
    """The link to a run with a fault, with the line that it lacks."""
    recorded = runs_of(page)
    run = [run for run in recorded["runs"] if "fault" in run][fault - 1]
    launch = next(one for one in run["launches"] if one["kernel"] == run["findings"][0]["kernel"])
    races, wrong = (sum(finding["count"] for finding in run["findings"] if title in finding["title"])
                    for title in ("RACE", "WRONG VALUE"))
    what = f"Without this line: {races:,} accesses race and {wrong:,} results are wrong"
    line = f"<code><del>{html.escape(run['fault']['was'])}</del></code>"
    return link(address, recorded, run, launch, f"Watch it break</b> {what}", line)
