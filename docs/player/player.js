// One run in its panes: what it has done up to a step.
import {Code, lineOf, warpNames} from "player/code";
import {drawBanks} from "player/banks";
import {Matrices} from "player/memory";
import {Rows} from "player/rows";
import {
  barrierOf, elementOf, isAtBarrier, isRequest, kindOf, launchesOf, requestOf, State, stepsOf,
} from "player/state";
import {captionsOf} from "player/tour";
import {listLetters, Warps} from "player/warps";

function total(name, value, title) {
  const item = Object.assign(document.createElement("div"), {title});
  const term = Object.assign(document.createElement("dt"), {textContent: name});
  const count = Object.assign(document.createElement("dd"), {textContent: value.toLocaleString("en")});
  count.dataset.total = value;
  item.append(term, count);
  return item;
}

const PANES = {matrices: "Memory", warps: "Warps", code: "Code", shared: "Banks", rows: "Softmax"};

// Which access of a finding is overtaken: in its order, the later one.
const slowOf = ({order}) => order && order.at[1] > order.at[0] ? 1 : 0;
// Which one overtakes, or is the only one.
const fastOf = finding => Math.min(1 - slowOf(finding), finding.accesses.length - 1);

export class Player {
  #state;
  #taken = -1;  // the last step that the state has taken
  #order = null;  // the finding whose order is shown; null: the clock that all warps share
  #shown;  // what the tour's caption shows: panes, arrays

  // `number`: of the player in the page. `page`: `moved` is called when the reader has chosen another step
  // of this run, `changed` when the steps are others, and `showPane` when the reader has chosen a pane.
  constructor(run, number, page) {
    this.run = run;
    this.steps = run.steps ??= stepsOf(run.launches);
    this.at = this.warp = this.request = 0;
    this.finding = null;  // the marked one
    this.page = page;
    this.box = document.getElementById("player").content.firstElementChild.cloneNode(true);
    this.code = new Code(this.#find("file"), this.#find("whole"), this.#find("lines"), run.fault);
    this.lanes = new Warps(this.#find("lanes"), (step, warp) => this.#choose(step, warp));
    listLetters(this.box.querySelector(".warps .key"), run);
    this.matrices = new Matrices(this.#find("tensors"), this.#find("element"));
    this.rows = new Rows(this.#find("rows-key"), this.#find("rows-table"));
    this.#find("colour").onchange = () => this.draw();
    this.#listTabs(number);
    this.#showFault();
    this.#listFindings();
  }

  get last() {
    return this.steps.length - 1;
  }

  // How many the chosen warp has in the current step.
  get requests() {
    return this.#events().length;
  }

  #find(name) {
    return this.box.querySelector(`.${name}`);
  }

  #listTabs(number) {
    const hasRows = this.run.launches.some(launch => launch.rows);
    const names = Object.keys(PANES).filter(name => name !== "rows" || hasRows), tabs = this.#find("tabs");
    tabs.replaceChildren(...names.map(name => {
      const tab = Object.assign(document.createElement("button"), {textContent: PANES[name]});
      const pane = this.box.querySelector(`.pane.${name}`);
      pane.id = `${name}-${number}`;
      tab.role = "tab";
      tab.dataset.pane = name;
      tab.setAttribute("aria-controls", pane.id);
      tab.onclick = () => this.page.showPane(name);
      return tab;
    }));
    tabs.onkeydown = event => {
      const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!by) return;
      event.preventDefault();
      const seen = [...tabs.children].filter(tab => tab.offsetParent);
      const tab = seen.at((seen.indexOf(event.target) + by) % seen.length);
      tab.click();
      tab.focus();
    };
  }

  go(step, request = 0) {
    this.at = Math.max(0, Math.min(step, this.last));
    this.request = request;
    if (this.warp >= this.steps[this.at].launch.warps.length) this.warp = 0;
    this.draw();
  }

  // The next step with another paper's line or tile.
  nextPart(direction) {
    const key = n => `${this.steps[n].index} ${this.steps[n].tile} ${this.steps[n].paper}`;
    let n = this.at;
    while (this.steps[n + direction] && key(n) === key(this.at)) n += direction;
    this.go(n);
  }

  nextWarp(by) {
    const count = this.steps[this.at].launch.warps.length;
    this.warp = (this.warp + by + count) % count;
    this.go(this.at);
  }

  zoom(by) {
    this.request = Math.max(0, this.request + by);
    this.draw();
  }

  draw() {
    this.#bring();
    const {run, steps, at, warp} = this, state = this.#state, step = steps[at], made = this.#events();
    this.request = Math.max(0, Math.min(this.request, made.length - 1));
    const event = made[this.request], accesses = this.finding?.accesses ?? [];
    this.code.draw(run, state, step, warp, this.#shown?.includes("change"));
    this.code.mark(new Set(accesses.map(([, , location]) => location)));
    this.lanes.draw(run, steps, at, warp, new Set(accesses.map(([one]) => one)));
    if (this.#find("banks").offsetParent) {
      drawBanks(this.#find("banks"), this.#find("bank-key"), state, event, this.#find("colour").value,
                this.finding?.array);
    }
    this.matrices.draw(state, event, this.#marked(), this.#shown ?? []);
    this.rows.draw(step.launch, this.#local());
    this.#find("where").textContent = [
      `${run.stage}: step ${at} of ${this.last}`, step.launch.kernel, `interval ${step.interval}`, step.tile, step.paper,
    ].filter(Boolean).join(" · ");
    this.#find("request").textContent = event ? `Warp ${warp}, request ${this.request + 1} of ${made.length} in ` +
        `this step: ${this.#told(event)}` : `Warp ${warp} does nothing in this step.`;
    const totals = state.totals;
    this.#find("totals").replaceChildren(
        total("global bytes read", totals.globalRead, "Bytes that the lanes have requested, in this kernel up to this step"),
        total("global bytes written", totals.globalWritten, "Bytes that the lanes have stored, up to this step"),
        total("sectors", totals.sectors, "Sectors of 32 bytes that the requests to global memory touch"),
        total("shared bytes", totals.shared, "Read from shared memory, or written to it"),
        total("bank conflicts", totals.conflicts, "Wavefronts of shared memory beyond the minimum"));
    this.#find("flights").textContent = this.#flying(step.launch);
  }

  // The marked element, with what it holds.
  #marked() {
    const {finding} = this, {launch, arrays} = this.#state;
    const of = arrays[launch.arrays.findIndex(({name}) => name === finding?.array)];
    if (!of || finding.kernel !== launch.kernel) return null;
    const element = elementOf(launch, finding), value = of.values[element], before = of.before[element];
    const unknown = of.writes[element] ? "copied" : "not written";
    const held = [before, value].filter(one => one !== undefined).join(" → ") || unknown;
    const text = finding.is === undefined ? held : value === undefined ? "" :
        `is ${finding.is}, should be ${finding.was}`;
    return {array: finding.array, element, text};
  }

  // Puts a frame around what a caption shows, and opens its pane.
  emphasise(shown) {
    if (this.#shown === shown) return;
    this.#shown = shown;
    this.box.classList.toggle("toured", shown.length > 0);
    const names = Object.keys(PANES).filter(name => shown.includes(PANES[name].toLowerCase()));
    for (const name of Object.keys(PANES)) {
      this.box.querySelector(`.pane.${name}`).classList.toggle("shown", names.includes(name));
    }
    if (names.length) this.page.showPane(...names);
    this.draw();
  }

  // The current step, counted from its launch's first.
  #local() {
    const {launch} = this.steps[this.at];
    return this.at - this.steps.findIndex(step => step.launch === launch);
  }

  // "In flight: copies to sK, sV by warp 0"
  #flying(launch) {
    const local = this.#local(), by = new Map();
    for (const [kind, warp, from, to, array] of launch.flights) {
      if (local < from || local >= to) continue;
      const name = array < 0 ? "products" : `${this.run.kinds[kind]} ${launch.arrays[array].name}`;
      by.set(name, (by.get(name) ?? new Set()).add(warp));
    }
    const parts = [...by].map(([name, warps]) => `${name} (warp ${warpNames(warps)})`);
    return parts.length ? `In flight: ${parts.join(" · ")}` : "";
  }

  #choose(step, warp, request) {
    this.warp = warp;
    this.go(step, request);
    this.page.moved(this);
  }

  // The events of the chosen warp in the current step.
  #events() {
    const step = this.steps[this.at];
    for (const part of step.parts) {
      for (const [one, first, end] of part.warps) {
        if (one === this.warp) return step.launch.warps[one].slice(first, end);
      }
    }
    return [];
  }

  // Brings the state to the current step: back means anew from the launch's first.
  #bring() {
    const {launch} = this.steps[this.at];
    if (this.#state?.launch !== launch || this.#taken > this.at) {
      this.#state = new State(this.run, launch);
      this.#taken = this.steps.findIndex(step => step.launch === launch) - 1;
    }
    while (this.#taken < this.at) this.#state.take(this.steps[++this.#taken]);
  }

  #told(event) {
    const launch = this.#state.launch, words = `${kindOf(this.run, event)}, line ${lineOf(launch, event)}`;
    if (isAtBarrier(this.run, event)) {
      const {barrier, phase} = barrierOf(event);
      return `${words}: ${launch.barriers[barrier].name}, phase ${phase}`;
    }
    if (!isRequest(event)) return words;
    const of = requestOf(event);
    const name = of.array < 0 ? "" : ` of ${launch.arrays[of.array].name}`;
    const counts = of.shared ? `${of.conflicts} bank conflicts` : `${of.sectors} sectors`;
    return `${words}${name}: ${of.bytes} bytes, ${of.laneBytes} per lane, ${counts}`;
  }

  // ---- Faults -------------------------------------------------------------------------------------

  #showFault() {
    const {fault} = this.run, box = this.#find("change");
    box.hidden = !fault;
    const place = fault?.line ? ` at ${fault.path.split("/").at(-1)}:${fault.line}` : "";
    if (fault) box.textContent = `Broken${place}: ${fault.name}`;
  }

  #listFindings() {
    const {findings} = this.run, box = this.#find("findings");
    box.hidden = findings.length === 0;
    box.replaceChildren(...findings.map(finding => {
      const item = document.createElement("li"), button = document.createElement("button");
      button.finding = finding;
      button.ariaPressed = "false";
      const what = finding.array ? `${finding.title}: ${finding.array}` : finding.title;
      button.textContent = `⚠ ${what} at ${finding.location}`;
      button.onclick = () => this.show(finding);
      item.append(button);
      return item;
    }));
  }

  // Marks a finding, or none: its lines, its warps, its array. A race is shown in its own order.
  mark(finding, order = finding?.order ? finding : null) {
    this.finding = finding;
    for (const button of this.#find("findings").querySelectorAll("button")) {
      button.ariaPressed = String(button.finding === this.finding);
    }
    const text = this.#find("finding");
    text.hidden = !this.finding;
    text.textContent = this.finding?.text ?? "";
    text.scrollTop = 0;
    this.#setOrder(order);
  }

  // Marks a finding, and goes to where its last access is made. If it is marked, takes the marks away.
  show(finding) {
    this.mark(this.finding === finding ? null : finding);
    if (!this.finding?.accesses.length) return this.draw();
    const steps = this.#accessSteps(finding), last = finding.order ? slowOf(finding) : steps.length - 1;
    this.#choose(steps[last] < 0 ? this.at : steps[last], finding.accesses[last][0], finding.request);
  }

  // The steps of a finding's accesses in the shown order.
  #accessSteps(finding) {
    if (finding.step !== undefined) {
      return [this.#stepOfEvent(this.#eventOf(this.run.steps[finding.step], finding.accesses[0][0]))];
    }
    if (finding.order && this.#order === finding) {
      const begin = this.steps.findIndex(({index}) => index === finding.order.launch);
      return finding.order.at.map(step => begin + step);
    }
    let from = -1;
    return finding.accesses.map(access => from = this.#stepOf(finding.kernel, access, from));
  }

  #setOrder(order) {
    if (this.#order === order) return;
    const event = this.#eventOf(this.steps[this.at], this.warp);
    this.#order = order;
    this.steps = order ? order.steps ??= stepsOf(launchesOf(this.run, order)) : this.run.steps;
    this.#state = undefined;
    this.at = Math.max(0, this.#stepOfEvent(event));
    const note = this.#find("order");
    note.hidden = !order;
    if (order) {
      const slow = `warp ${order.accesses[slowOf(order)][0]}`, fast = `warp ${order.accesses[1 - slowOf(order)][0]}`;
      note.textContent = `Shown in an order in which this race happens: ${slow} stands still until ${fast} has ` +
          "overtaken it. Each warp keeps its own order, and all barriers hold.";
    }
    this.page.changed();
  }

  // The first event of a warp, or else of any, in a step.
  #eventOf({index, parts}, warp) {
    const all = parts.flatMap(part => part.warps), [one, first] = all.find(([one]) => one === warp) ?? all[0];
    return {index, one, first};
  }

  #stepOfEvent({index, one, first}) {
    return this.steps.findIndex(step => step.index === index && step.parts.some(
        ({warps}) => warps.some(([warp, from, end]) => warp === one && from <= first && first < end)));
  }

  // ---- The tour -----------------------------------------------------------------------------------

  // A tour is in the order of the first finding, if that has one.
  get #tourOrder() {
    const [first] = this.run.findings;
    return first?.order ? first : null;
  }

  captions() {
    const [first] = this.run.findings, wrong = this.#wrong(), order = this.#order;
    this.#setOrder(this.#tourOrder);
    const steps = first ? this.#accessSteps(first) : [];
    const captions = captionsOf(this.run, this.steps, {
      "start": 0, "end": this.last, "access": first && steps.at(-1), "slow access": first && steps[slowOf(first)],
      "fast access": first && steps[fastOf(first)], "wrong value": wrong && this.#accessSteps(wrong)[0],
    });
    this.#setOrder(order);
    return captions;
  }

  beginTour() {
    this.mark(null, this.#tourOrder);
  }

  // A caption marks the finding that its place names.
  arrive({place}) {
    const [first] = this.run.findings;
    const marked = place.endsWith("access") ? first : place === "wrong value" ? this.#wrong() : null;
    this.mark(marked, this.#tourOrder);
    if (marked) this.warp = marked.accesses[place === "slow access" ? slowOf(marked) : fastOf(marked)][0];
    this.go(this.at, marked?.request);
  }

  #wrong() {
    return this.run.findings.findLast(({title}) => title === "WRONG VALUE");
  }

  // A caption's words with the run's own warps and numbers. What the element of the first finding holds at
  // the caption's step is {holds}, and before that {held}.
  filled({words, step}) {
    const [first] = this.run.findings, wrong = this.#wrong();
    const slow = first?.accesses[slowOf(first)], fast = first?.accesses[fastOf(first)];
    const names = {
      slow: `warp ${slow?.[0]}`, slow_lane: `lane ${slow?.[1]}`,
      fast: `warp ${fast?.[0]}`, fast_lane: `lane ${fast?.[1]}`,
      element: first?.text.trim().split("\n")[0].replace(/ \(.*\)$/, ""), number: first?.text.match(/[\d,]+/)?.[0],
      wrong: wrong?.name, is: wrong?.is, was: wrong?.was, many: wrong?.text.match(/[\d,]+ of [\d,]+/)?.[0],
    };
    if (/\{h(eld|olds)\}/.test(words)) {
      const {launch} = this.steps[step], state = new State(this.run, launch);
      for (const one of this.steps.slice(0, step + 1)) if (one.launch === launch) state.take(one);
      const of = state.arrays[launch.arrays.findIndex(({name}) => name === first.array)];
      names.held = of.before[elementOf(launch, first)];
      names.holds = of.values[elementOf(launch, first)];
    }
    return words.replace(/\{(\w+)\}/g, (whole, name) => names[name] ?? whole)
        .replace(/(^|[.] )([wl])(?=(arp|ane) \d)/g, (_, before, letter) => before + letter.toUpperCase());
  }

  // The first step after `from` in which this warp of the kernel is at this line, or nearest to it: a line that
  // uses registers alone is no step. If it can be, one in this tile.
  #stepOf(kernel, [warp, , location, tile], from) {
    const [file, line] = location.split(":");
    let nearest = -1, least = Infinity;
    this.steps.forEach(({launch, parts, tile: at}, n) => {
      if (launch.kernel !== kernel) return;
      for (const part of parts.filter(({warps}) => warps.some(([one]) => one === warp))) {
        for (const [of, number] of part.places.map(place => launch.places[place])) {
          const far = Math.abs(number - line) + (at === tile ? 0 : 0.25) + (n > from ? 0 : 0.5);
          if (far >= least || !this.run.files[of].path.endsWith(`/${file}`)) continue;
          [nearest, least] = [n, far];
        }
      }
    });
    return nearest;
  }
}
