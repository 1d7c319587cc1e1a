// The stage's source: the line of each warp, and what each line has asked for.
import {placeOf} from "player/state";

const short = n => n < 1000 ? String(n) : n < 1e6 ? `${(n / 1e3).toPrecision(3)}k` : `${(n / 1e6).toPrecision(3)}M`;

// "0-3, 6"
export function warpNames(warps) {
  const names = [];
  const sorted = [...warps].sort((a, b) => a - b);
  for (let n = 0; n < sorted.length;) {
    let last = n;
    while (sorted[last + 1] === sorted[last] + 1) ++last;
    names.push(last > n ? `${sorted[n]}-${sorted[last]}` : String(sorted[n]));
    n = last + 1;
  }
  return names.join(", ");
}

// The columns beside a line: their classes, and their heads with what they mean.
const COLUMNS = ["warps", "bytes", "sectors", "conflicts", "number", "source"];
const HEADS = [
  ["warps", "the warps that are at the line"], ["bytes", "bytes requested by the line so far"],
  ["sectors\nper request", "sectors of 32 bytes, for each request to global memory"],
  ["bank\nconflicts", "in shared memory: wavefronts beyond the minimum"], ["line", "the line's number"],
  ["source", ""],
];

const badge = text => Object.assign(document.createElement("span"), {className: "badge", textContent: text});

export class Code {
  #shown = null;

  // `fault`: what is broken in this run, if anything.
  constructor(title, whole, box, fault) {
    this.title = title;
    this.whole = whole;
    this.box = box;
    this.fault = fault;
    this.rows = [];
  }

  #show(run, file) {
    if (this.#shown === run.files[file]) return;
    this.#shown = run.files[file];
    this.title.textContent = run.files[file].path;
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const [name, title] of HEADS) {
      head.append(Object.assign(document.createElement("th"), {textContent: name, title}));
    }
    this.rows = run.files[file].text.split("\n").map((text, n) => {
      const row = table.insertRow();
      const cells = COLUMNS.map(name => {
        const cell = row.insertCell();
        cell.className = name;
        return cell;
      });
      cells[4].textContent = n + 1;
      cells[5].textContent = text;
      return {row, cells};
    });
    if (this.#isBroken()) this.#change(this.rows[this.fault.line - 1]);
    this.box.replaceChildren(table);
  }

  // True if the shown file has the broken line.
  #isBroken() {
    return this.fault?.line && this.fault.path === this.#shown.path;
  }

  // "removed", or "was" if another line stands in its place.
  #badge() {
    const line = this.#shown.text.split("\n")[this.fault.line - 1];
    return badge(line.trim() ? "was" : "removed");
  }

  // Shows what stood in the broken line, framed.
  #change({row, cells: {5: source}}) {
    const was = Object.assign(document.createElement("del"), {textContent: this.fault.was});
    row.className = "changed";
    source.append(source.textContent.trim() ? "  " : "", this.#badge(), was);
  }

  // Shows the line of `chosen`, a warp, or of the first that does something; or the broken one.
  draw(run, state, step, chosen, change) {
    const warps = new Map();  // by line of the shown file
    const its = step.parts.find(part => part.warps.some(([warp]) => warp === chosen)) ?? step.parts[0];
    const [file, first] = change ? [run.files.findIndex(({path}) => path === this.fault.path), this.fault.line] :
        state.launch.places[its.places[0]];
    this.#show(run, file);
    for (const part of step.parts) {
      for (const place of part.places) {
        const [of, line, kernelLine] = state.launch.places[place];
        if (of !== file) continue;
        for (const at of new Set([line, kernelLine])) {
          if (!warps.has(at)) warps.set(at, new Set());
          for (const [warp] of part.warps) warps.get(at).add(warp);
        }
      }
    }
    const put = (cell, text) => { if (cell.textContent !== text) cell.textContent = text; };
    this.rows.forEach(({row, cells}, n) => {
      const here = warps.get(n + 1), counts = state.line(file, n + 1);
      row.classList.toggle("now", here !== undefined);
      put(cells[0], here ? `▶ ${warpNames(here)}` : "");
      put(cells[1], counts ? short(counts.bytes) : "");
      put(cells[2], counts?.globalRequests ? (counts.sectors / counts.globalRequests).toFixed(1) : "");
      put(cells[3], counts?.sharedRequests ? short(counts.conflicts) : "");
      cells[3].classList.toggle("bad", Boolean(counts?.conflicts));
    });
    this.#showWhole(first);
    this.#reveal(first);
  }

  // The current line, which the pane may cut, and the removed one.
  #showWhole(line) {
    this.whole.replaceChildren(`${line}: ${this.#shown.text.split("\n")[line - 1].trim()}`);
    if (!this.#isBroken()) return;
    this.whole.append(document.createElement("br"), this.#badge(), ` ${this.fault.line}: ${this.fault.was}`);
  }

  #reveal(line) {
    const row = this.rows[line - 1]?.row;
    if (!row) return;
    const above = row.offsetTop - this.box.scrollTop;
    if (above < 30 || above > this.box.clientHeight - 60) {
      this.box.scrollTop = row.offsetTop - this.box.clientHeight / 3;
    }
  }

  // Marks the lines that a fault names, "kernel.cuh:97", in the file that is shown.
  mark(locations) {
    const name = this.#shown.path.split("/").at(-1);
    this.rows.forEach(({row}, n) => row.classList.toggle("fault", locations.has(`${name}:${n + 1}`)));
  }
}

export const lineOf = (launch, event) => placeOf(launch, event)[1];
