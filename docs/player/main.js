// The page: its controls, its address, and what it draws.
import {Code, lineOf} from "player/code";
import {drawBanks, Matrices} from "player/memory";
import {isRequest, kindOf, requestOf, State, stepsOf} from "player/state";
import {Warps} from "player/warps";

const $ = id => document.getElementById(id);
// JSON, packed by gzip, in base64.
const packed = Uint8Array.from(atob($("runs").textContent.trim()), letter => letter.charCodeAt(0));
const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
const file = await new Response(unpacked).json();
const runs = file.runs.map(run => ({...run, kinds: file.kinds, steps: stepsOf(run)}));

let run, state, at = -1, warp = 0, request = 0, timer = 0, fault = null;
let taken = -1;  // the last step that `state` has taken

const code = new Code($("file"), $("lines"));
const lanes = new Warps($("lanes"), (step, one) => { warp = one; go(step); });
const matrices = new Matrices($("tensors"), $("element"));

// The events of the chosen warp in the current step.
function events() {
  const step = run.steps[at];
  for (const part of step.parts) {
    for (const [one, first, end] of part.warps) {
      if (one === warp) return step.launch.warps[one].slice(first, end);
    }
  }
  return [];
}

// Brings the state to the current step: back means anew from the launch's first.
function bring() {
  const {launch} = run.steps[at];
  if (state?.launch !== launch || taken > at) {
    state = new State(run, launch);
    taken = run.steps.findIndex(step => step.launch === launch) - 1;
  }
  while (taken < at) state.take(run.steps[++taken]);
}

function total(name, value) {
  const item = document.createElement("div");
  const term = Object.assign(document.createElement("dt"), {textContent: name});
  const count = Object.assign(document.createElement("dd"), {textContent: value.toLocaleString("en")});
  count.dataset.total = value;
  item.append(term, count);
  return item;
}

function draw() {
  bring();
  const step = run.steps[at], made = events();
  request = Math.max(0, Math.min(request, made.length - 1));
  const event = made[request];
  const accesses = fault?.accesses ?? [];
  code.draw(run, state, step);
  code.mark(new Set(accesses.map(([, , location]) => location)));
  lanes.draw(run, run.steps, at, warp, new Set(accesses.map(([one]) => one)));
  drawBanks($("banks"), $("bank-key"), state, event, $("colour").value, fault?.array);
  matrices.draw(state, event);
  $("scrub").value = at;
  $("where").textContent = [
    `Step ${at} of ${run.steps.length - 1}`, step.launch.kernel, `interval ${step.interval}`, step.tile, step.paper,
  ].filter(Boolean).join(" · ");
  $("request").textContent = event ? `Warp ${warp}, request ${request + 1} of ${made.length} in this step: ` +
      told(event) : `Warp ${warp} does nothing in this step.`;
  const totals = state.totals;
  $("totals").replaceChildren(
      total("global bytes read", totals.globalRead), total("global bytes written", totals.globalWritten),
      total("sectors", totals.sectors), total("shared bytes", totals.shared),
      total("bank conflicts", totals.conflicts));
  if (!timer) history.replaceState(null, "", address());  // A browser allows only a few a second.
}

function told(event) {
  const words = `${kindOf(run, event)}, line ${lineOf(state.launch, event)}`;
  if (!isRequest(event)) return words;
  const of = requestOf(event);
  const name = of.array < 0 ? "" : ` of ${state.launch.arrays[of.array].name}`;
  const counts = of.shared ? `${of.conflicts} bank conflicts` : `${of.sectors} sectors`;
  return `${words}${name}: ${of.bytes} bytes, ${of.laneBytes} a lane, ${counts}`;
}

function address() {
  const pass = run.pass === runs[0].pass ? "" : `&pass=${run.pass}`;
  const zoom = (warp ? `&warp=${warp}` : "") + (request ? `&request=${request}` : "");
  return `#step=${at}${pass}${zoom}`;
}

function go(step, keep = false) {
  at = Math.max(0, Math.min(step, run.steps.length - 1));
  if (!keep) request = 0;
  if (warp >= run.steps[at].launch.warps.length) warp = 0;
  draw();
  if (at === run.steps.length - 1) pause();
}

function pause() {
  clearInterval(timer);
  timer = 0;
  history.replaceState(null, "", address());
  $("play").textContent = "Play";
}

function play() {
  if (timer) return pause();
  if (at === run.steps.length - 1) go(0);
  $("play").textContent = "Pause";
  timer = setInterval(() => go(at + 1), 1000 / Number($("speed").value));
}

// The next step with another paper's line or tile.
function nextPart(direction) {
  const key = n => `${run.steps[n].index} ${run.steps[n].tile} ${run.steps[n].paper}`;
  let n = at;
  while (run.steps[n + direction] && key(n) === key(at)) n += direction;
  go(n);
}

function choose(pass) {
  run = runs.find(one => one.pass === pass) ?? runs[0];
  state = undefined;
  fault = null;
  warp = 0;
  $("title").textContent = `${run.stage}, ${run.pass}`;
  document.title = `${run.stage}: a block's run`;
  $("problem").textContent = `${run.problem}: one block, step by step. The clock is logical; nothing here is a time.`;
  $("pass").value = run.pass;
  $("scrub").max = run.steps.length - 1;
  $("findings").hidden = run.findings.length === 0;
  $("findings").replaceChildren(...run.findings.map(finding => {
    const item = document.createElement("li"), button = document.createElement("button");
    button.finding = finding;
    button.ariaPressed = "false";
    button.textContent = `⚠ ${finding.title}: ${finding.array} at ${finding.location}`;
    button.onclick = () => show(finding);
    item.append(button, Object.assign(document.createElement("pre"), {textContent: finding.text}));
    return item;
  }));
}

// Marks a fault: its lines, its warps, its array; and goes to where its last access is made first.
function show(finding) {
  fault = fault === finding ? null : finding;
  for (const button of document.querySelectorAll("#findings button")) {
    button.ariaPressed = String(fault !== null && button.finding === fault);
  }
  const last = fault?.accesses.at(-1);
  if (!last) return draw();
  const step = run.steps.findIndex(({launch, parts}) => parts.some(part =>
    part.warps.some(([one]) => one === last[0]) &&
    part.places.some(place => nameOf(launch.places[place]) === last[2])));
  warp = last[0];
  go(step < 0 ? at : step);
}

// "kernel.cuh:97"
const nameOf = ([of, line]) => `${run.files[of].path.split("/").at(-1)}:${line}`;

function open() {
  const asked = new URLSearchParams(location.hash.slice(1));
  choose(asked.get("pass") ?? runs[0].pass);
  warp = Number(asked.get("warp")) || 0;
  request = Number(asked.get("request")) || 0;
  go(Number(asked.get("step")) || 0, true);
}

const KEYS = {
  "ArrowRight": () => go(at + 1), "ArrowLeft": () => go(at - 1), "Home": () => go(0),
  "End": () => go(run.steps.length - 1), " ": play, "PageDown": () => nextPart(1), "PageUp": () => nextPart(-1),
  "]": () => zoom(1), "[": () => zoom(-1),
};

function zoom(by) {
  request = Math.max(0, request + by);
  draw();
}

document.addEventListener("keydown", event => {
  if (event.target.matches("select, input, button") && event.key !== "End" && event.key !== "Home") return;
  if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  KEYS[event.key]();
});
$("first").onclick = () => go(0);
$("back").onclick = () => go(at - 1);
$("play").onclick = play;
$("next").onclick = () => go(at + 1);
$("last").onclick = () => go(run.steps.length - 1);
$("scrub").oninput = () => go(Number($("scrub").value));
$("request-back").onclick = () => zoom(-1);
$("request-next").onclick = () => zoom(1);
$("colour").onchange = draw;
$("pass").onchange = () => { pause(); choose($("pass").value); go(0); };
$("pass").replaceChildren(...runs.map(one => Object.assign(document.createElement("option"), {textContent: one.pass})));
for (const tab of document.querySelectorAll("#tabs button")) {
  tab.onclick = () => {
    for (const other of document.querySelectorAll("#tabs button")) other.ariaSelected = String(other === tab);
    for (const pane of document.querySelectorAll(".pane")) pane.classList.toggle("shown", pane.id === tab.dataset.pane);
    draw();
  };
}
window.addEventListener("resize", draw);
window.addEventListener("hashchange", open);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
open();
