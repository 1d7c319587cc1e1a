// One run in its panes: what it has done up to a step.
import {Code, lineOf, warpNames} from "player/code";
import {drawBanks, Matrices} from "player/memory";
import {Rows} from "player/rows";
import {barrierOf, isAtBarrier, isRequest, kindOf, requestOf, State} from "player/state";
import {listLetters, Warps} from "player/warps";

function total(name, value, title) {
  const item = Object.assign(document.createElement("div"), {title});
  const term = Object.assign(document.createElement("dt"), {textContent: name});
  const count = Object.assign(document.createElement("dd"), {textContent: value.toLocaleString("en")});
  count.dataset.total = value;
  item.append(term, count);
  return item;
}

export class Player {
  #state;
  #taken = -1;  // the last step that the state has taken

  // `moved`: called when the reader has chosen another step in this run.
  constructor(run, moved) {
    this.run = run;
    this.steps = run.steps;
    this.at = this.warp = this.request = 0;
    this.finding = null;  // the marked one
    this.moved = moved;
    this.box = document.getElementById("player").content.firstElementChild.cloneNode(true);
    this.code = new Code(this.#find("file"), this.#find("whole"), this.#find("lines"), run.fault);
    this.lanes = new Warps(this.#find("lanes"), (step, warp) => this.#choose(step, warp));
    listLetters(this.box.querySelector(".warps .key"), run);
    this.matrices = new Matrices(this.#find("tensors"), this.#find("element"));
    this.rows = new Rows(this.#find("rows-key"), this.#find("rows-table"));
    this.#find("panes").classList.toggle("no-rows", !run.launches.some(launch => launch.rows));
    this.#find("colour").onchange = () => this.draw();
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

  zoom(by) {
    this.request = Math.max(0, this.request + by);
    this.draw();
  }

  draw() {
    this.#bring();
    const {run, steps, at, warp} = this, state = this.#state, step = steps[at], made = this.#events();
    this.request = Math.max(0, Math.min(this.request, made.length - 1));
    const event = made[this.request], accesses = this.finding?.accesses ?? [];
    this.code.draw(run, state, step, warp);
    this.code.mark(new Set(accesses.map(([, , location]) => location)));
    this.lanes.draw(run, steps, at, warp, new Set(accesses.map(([one]) => one)));
    drawBanks(this.#find("banks"), this.#find("bank-key"), state, event, this.#find("colour").value,
              this.finding?.array);
    this.matrices.draw(state, event, this.finding);
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
    this.moved(this);
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

  // Marks a finding, or none: its lines, its warps, its array.
  mark(finding) {
    this.finding = finding;
    for (const button of this.#find("findings").querySelectorAll("button")) {
      button.ariaPressed = String(button.finding === this.finding);
    }
    const text = this.#find("finding");
    text.hidden = !this.finding;
    text.textContent = this.finding?.text ?? "";
    text.scrollTop = 0;
  }

  // Marks a finding, and goes to where its last access is first made. If it is marked, takes the marks away.
  show(finding) {
    this.mark(this.finding === finding ? null : finding);
    const last = this.finding?.accesses.at(-1);
    if (!last) return this.draw();
    const step = finding.step ?? this.#stepOf(finding.kernel, last);
    this.#choose(step < 0 ? this.at : step, last[0], finding.request);
  }

  // The first step in which this warp of the kernel is at this line, or nearest to it: a line that uses
  // registers alone is no step. If it can be, one in this tile.
  #stepOf(kernel, [warp, , location, tile]) {
    const [file, line] = location.split(":");
    let nearest = -1, least = Infinity;
    this.steps.forEach(({launch, parts, tile: at}, n) => {
      if (launch.kernel !== kernel) return;
      for (const part of parts.filter(({warps}) => warps.some(([one]) => one === warp))) {
        for (const [of, number] of part.places.map(place => launch.places[place])) {
          const far = Math.abs(number - line) + (at === tile ? 0 : 0.5);
          if (far >= least || !this.run.files[of].path.endsWith(`/${file}`)) continue;
          [nearest, least] = [n, far];
        }
      }
    });
    return nearest;
  }
}
