// The page: which runs it shows, its controls, and its address.
import {Player} from "player/player";
import {Tour} from "player/tour";

const $ = id => document.getElementById(id);

// ---- The theme: the system's, or the one that the book has chosen ----------------------------------

const dark = window.matchMedia("(prefers-color-scheme: dark)");
let theme = "auto";
function setTheme() {
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  redraw();
}
window.addEventListener("message", ({source, data}) => {
  if (source !== window.parent || !["light", "dark", "auto"].includes(data?.theme)) return;
  theme = data.theme;
  setTheme();
});
dark.addEventListener("change", setTheme);

let players = [], pass = null, fault = 0, beside = false, timer = 0;
const tour = new Tour($("tour"), {
  guide: () => players.at(-1),  // the broken run
  go: step => {
    pause();
    players.forEach(player => player.go(step));
    told();
  },
  told,
});
setTheme();

// JSON, packed by gzip, in base64.
const packed = Uint8Array.from(atob($("runs").textContent.trim()), letter => letter.charCodeAt(0));
const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
const file = await new Response(unpacked).json();
const runs = file.runs.map(run => ({
  ...run, kinds: file.kinds, lines: run.files.map(({text}) => text.split("\n")),
}));
const stages = [...new Set(runs.map(run => run.stage))];

const faultsOf = one => runs.filter(run => run.pass === one && run.fault);
const soundOf = one => stages.map(stage => runs.find(run => run.stage === stage && run.pass === one && !run.fault));

const hasKeys = !window.matchMedia("(pointer: coarse)").matches;

// "1 batch, 4 heads on 2 of K and V, 32 queries × 72 keys, head_dim 32, f16"
function inWords(problem) {
  const [, batch, heads, kvHeads, queries, keys, headDim, rest] =
      problem.match(/^b(\d+)_h(\d+)(?:x(\d+))?_q(\d+)k(\d+)_d(\d+)_(.*)$/);
  const many = (n, one, more) => `${n} ${n === "1" ? one : more}`;
  return [
    many(batch, "batch", "batches"), many(heads, "head", "heads") + (kvHeads ? ` on ${kvHeads} of K and V` : ""),
    `${many(queries, "query", "queries")} × ${many(keys, "key", "keys")}`, `head_dim ${headDim}`, ...rest.split("_"),
  ].join(", ");
}

// Shows the runs of a pass: the sound ones, or one with a fault, counted from 1.
function choose(nextPass, nextFault, nextBeside) {
  [pass, fault, beside] = [nextPass, Math.min(nextFault, faultsOf(nextPass).length), nextBeside];
  const broken = fault ? [faultsOf(pass)[fault - 1]] : [];
  const shown = fault && !beside ? broken : [...soundOf(pass), ...broken];
  players = shown.map((run, n) => new Player(run, n, {moved, changed, showPane}));
  document.querySelector("main").replaceChildren(...players.map(player => player.box));
  showSamePane();
  document.title = `${stages.join(" and ")}: a block's run`;
  $("title").textContent = stages.join(" and ");
  const warps = Math.max(...shown[0].launches.map(launch => launch.warps.length));
  $("problem").textContent = `The ${warps} warps of one block compute attention, ${pass}: ` +
      `${inWords(shown[0].problem)}. See what is read and written in memory, and what each warp does in each step. ` +
      `${hasKeys ? "Space plays, ← and → step. " : ""}The clock is logical, not a time.`;
  $("pass").value = pass;
  const names = ["nothing broken", ...faultsOf(pass).map(run => run.fault.name)];
  $("fault").replaceChildren(...names.map((name, n) => new Option(name, n, false, n === fault)));
  $("faults").hidden = names.length === 1;
  $("beside-label").hidden = fault === 0;
  $("beside").checked = beside;
  changed();
}

// The reader has chosen a step of one run.
function moved(one) {
  tour.leave();
  for (const player of players) if (player !== one) player.go(one.at);
  told();
}

// The order of a run's steps has changed, because of a finding.
function changed() {
  $("scrub").max = Math.max(...players.map(player => player.last));
}

// Moves each run, and notes where it is.
function each(move) {
  players.forEach(move);
  if (timer && players.every(player => player.at === player.last)) pause();
  told();
}

// Notes where the runs are: in the address, and in which buttons can go on.
function told() {
  $("scrub").value = Math.max(...players.map(player => player.at));
  const all = is => players.every(is);
  $("first").disabled = $("back").disabled = all(player => player.at === 0);
  $("last").disabled = $("next").disabled = all(player => player.at === player.last);
  $("request-back").disabled = all(player => player.request === 0);
  $("request-next").disabled = all(player => player.request >= player.requests - 1);
  if (!timer && !tour.isMoving) history.replaceState(null, "", address());  // A browser allows only a few a second.
}

function address() {
  const {warp, request, run, finding} = players.at(-1);
  const options = {
    step: players.map(player => player.at).join(), pass: pass === runs[0].pass ? null : pass, fault,
    beside: fault && beside ? 1 : 0, warp, request, finding: run.findings.indexOf(finding) + 1, caption: tour.at + 1,
  };
  return "#" + Object.entries(options).filter(([name, value]) => name === "step" || value)
      .map(([name, value]) => `${name}=${value}`).join("&");
}

const by = steps => {
  tour.leave();
  each(player => player.go(player.at + steps));
};
const zoom = requests => each(player => player.zoom(requests));
const toPart = direction => {
  tour.leave();
  each(player => player.nextPart(direction));
};
const toWarp = direction => each(player => player.nextWarp(direction));
const toFirst = () => by(-Infinity);
const toLast = () => by(Infinity);

function pause() {
  clearInterval(timer);
  timer = 0;
  $("play").textContent = "Play";
}

function begin() {
  clearInterval(timer);
  timer = setInterval(() => by(1), 1000 / Number($("speed").value));
}

function play() {
  if (timer) {
    pause();
    return told();
  }
  if (players.every(player => player.at === player.last)) toFirst();
  $("play").textContent = "Pause";
  begin();
}

// Shows the first of these panes that has a tab, in the place under the tabs. On a wide screen some panes have a
// place of their own, and no tab.
function showPane(...panes) {
  const tabs = [...document.querySelectorAll(".tabs button")], seen = tabs.filter(tab => tab.offsetParent);
  const known = panes.find(pane => seen.some(tab => tab.dataset.pane === pane));
  const chosen = known ?? seen[0]?.dataset.pane ?? panes[0];
  document.querySelector("main").dataset.pane = chosen;
  for (const tab of tabs) {
    tab.ariaSelected = String(tab.dataset.pane === chosen);
    tab.tabIndex = tab.dataset.pane === chosen ? 0 : -1;
  }
  redraw();
}
const showSamePane = () => showPane(document.querySelector("main").dataset.pane);

function redraw() {
  for (const player of players) player.draw();
}

function open() {
  const asked = new URLSearchParams(location.hash.slice(1)), number = name => Number(asked.get(name)) || 0;
  choose(soundOf(asked.get("pass"))[0] ? asked.get("pass") : runs[0].pass, number("fault"), number("beside") === 1);
  const steps = (asked.get("step") ?? "0").split(",").map(Number), broken = players.at(-1);
  if (number("caption")) return tour.open(number("caption") - 1);
  tour.open();
  broken.mark(broken.run.findings[number("finding") - 1] ?? null);
  each((player, n) => {
    player.warp = number("warp");
    player.go(steps[n] || steps[0] || 0, number("request"));
  });
}

const KEYS = {
  "ArrowRight": () => by(1), "ArrowLeft": () => by(-1), "Home": toFirst, "End": toLast, " ": play,
  "ArrowDown": () => toWarp(1), "ArrowUp": () => toWarp(-1),
  "PageDown": () => toPart(1), "PageUp": () => toPart(-1), "]": () => zoom(1), "[": () => zoom(-1),
  "n": () => tour.next(), "p": () => tour.back(),
};
// Where a key has another meaning.
const takes = key => key === " " ? "button, input, select, a" :
    `select, #scrub, [role=tab]${["ArrowUp", "ArrowDown"].includes(key) ? ", .scroll, pre" : ""}`;

document.addEventListener("keydown", event => {
  if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches(takes(event.key))) return;
  event.preventDefault();
  KEYS[event.key]();
});
$("first").onclick = toFirst;
$("back").onclick = () => by(-1);
$("play").onclick = play;
$("next").onclick = () => by(1);
$("last").onclick = toLast;
$("scrub").oninput = () => {
  tour.leave();
  each(player => player.go(Number($("scrub").value)));
};
$("request-back").onclick = () => zoom(-1);
$("request-next").onclick = () => zoom(1);
$("speed").onchange = () => timer && begin();

// Other runs, at the same step.
function change(...choice) {
  pause();
  const before = players.at(-1);
  choose(...choice);
  tour.open();
  const now = players.at(-1);
  if (now.run === before.run) now.mark(before.finding);
  each(player => {
    player.warp = before.warp;
    player.go(before.at, before.request);
  });
}
$("pass").onchange = () => {
  change($("pass").value, 0, false);
  toFirst();
};
$("fault").onchange = () => {
  change(pass, Number($("fault").value), beside);
  const broken = players.at(-1);
  if (fault) broken.show(broken.run.findings[0]);
};
$("beside").onchange = () => change(pass, fault, $("beside").checked);
// A list that keeps the focus would take the keys for itself.
document.addEventListener("change", ({target}) => target.matches("select") && target.blur());
const passes = [...new Set(runs.map(run => run.pass))];
$("pass").replaceChildren(...passes.map(one => new Option(one)));

// A page of the book leads to its chapter, and to the pages of other stages.
$("book").hidden = !file.stages || window.parent !== window;
if (!$("book").hidden) {
  $("chapter").href = `../stages/${stages[0]}/README.html`;
  $("stages").replaceChildren(...file.stages.map(stage => new Option(stage, stage, false, stage === stages[0])));
  $("stages").onchange = () => { location.href = `${$("stages").value}.html`; };
}
window.addEventListener("resize", showSamePane);
window.addEventListener("hashchange", open);
open();
