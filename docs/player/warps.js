// A lane for each warp: what it does in the steps around the current one.
import {kindOf} from "player/state";

const LETTERS = {
  "load": "L", "store": "S", "atomic": "A", "copy load": "C", "copy store": "C", "box copy": "C",
  "box store": "C", "box add": "C", "shuffle": "X", "vote": "V", "product": "P", "warp sync": "s", "barrier": "|",
  "commit copies": "c", "commit products": "c", "commit stores": "c", "arrive": "a", "wait": "w",
  "wait for copies": "w", "wait for products": "w", "wait for stores": "w",
};

const WORDS = {
  L: "load", S: "store", A: "atomic", C: "copy", X: "shuffle", V: "vote", P: "product", "|": "barrier", s: "warp sync",
  c: "commit", a: "arrive", w: "wait",
};

// Lists what occurs in a run.
export function listLetters(key, run) {
  const events = run.launches.flatMap(launch => launch.warps.flat());
  const used = new Set(events.map(event => LETTERS[kindOf(run, event)]));
  key.querySelector(".letters").textContent =
      Object.keys(WORDS).filter(letter => used.has(letter)).map(letter => `${letter} ${WORDS[letter]}`).join(" · ");
  const flights = run.launches.flatMap(launch => launch.flights);
  key.querySelector(".of-copies").hidden = !flights.some(([, , , , array]) => array >= 0);
  key.querySelector(".of-products").hidden = !flights.some(([, , , , array]) => array < 0);
  key.querySelector(".of-barriers").hidden = !run.launches.some(launch => launch.barriers.length);
}

export class Warps {
  constructor(box, choose) {
    this.box = box;
    this.choose = choose;
  }

  // The letters of what each warp does in a step, each once.
  #letters(run, step) {
    if (step.letters) return step.letters;
    step.letters = step.launch.warps.map(() => "");
    for (const [warp, first, end] of step.parts.flatMap(part => part.warps)) {
      const events = step.launch.warps[warp].slice(first, end);
      step.letters[warp] = [...new Set(events.map(event => LETTERS[kindOf(run, event)]))].join("");
    }
    return step.letters;
  }

  // `marked`: the warps of a fault, which come first.
  draw(run, steps, at, warp, marked) {
    const launch = steps[at].launch;
    const first = steps.findIndex(step => step.launch === launch);
    const end = first + launch.steps.length;
    const room = Math.max(5, Math.floor((this.box.clientWidth - 110) / 34));
    const from = Math.max(first, Math.min(at - Math.floor(room / 2), end - room));
    const shown = steps.slice(from, Math.min(end, from + room));
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    head.append(Object.assign(document.createElement("th"), {textContent: "warp"}));
    shown.forEach((step, n) => {
      const cell = Object.assign(document.createElement("th"), {textContent: from + n});
      cell.classList.toggle("now", from + n === at);
      head.append(cell);
    });
    const warps = launch.warps.map((_, one) => one).sort((a, b) => marked.has(b) - marked.has(a));
    for (const one of warps) {
      const row = table.insertRow();
      row.classList.toggle("chosen", one === warp);
      row.classList.toggle("fault", marked.has(one));
      row.insertCell().textContent = one;
      const flights = launch.flights.filter(flight => flight[1] === one);
      shown.forEach((step, n) => {
        const cell = row.insertCell(), local = from + n - first;
        const letters = this.#letters(run, step)[one];
        cell.textContent = letters;
        cell.dataset.kind = letters.slice(-1);
        cell.classList.toggle("now", from + n === at);
        for (const [, , begin, end, array] of flights) {
          if (begin <= local && local < end) cell.classList.add(array < 0 ? "product" : "copy");
        }
        cell.onclick = () => this.choose(from + n, one);
      });
    }
    for (const barrier of launch.barriers) this.#barrier(table, barrier, shown, from - first, at - first);
    this.box.replaceChildren(table);
    for (const name of ["fault", "chosen"]) this.#reveal([...table.rows].filter(row => row.classList.contains(name)));
  }

  // Scrolls to these rows; if not all fit, to the last.
  #reveal(rows) {
    const head = this.box.querySelector("th")?.offsetHeight ?? 0, {clientHeight} = this.box;
    for (const {offsetTop, offsetHeight} of rows) {
      if (offsetTop - head < this.box.scrollTop) this.box.scrollTop = offsetTop - head;
      const below = offsetTop + offsetHeight - clientHeight;
      if (below > this.box.scrollTop) this.box.scrollTop = below;
    }
  }
  // The phase that runs at the end of each step; a step in which one ends is marked.
  #barrier(table, {name, ends}, shown, from, at) {
    const row = table.insertRow();
    row.className = "barrier";
    row.insertCell().textContent = name;
    shown.forEach((_, n) => {
      const cell = row.insertCell();
      cell.textContent = ends.filter(end => end <= from + n).length;
      cell.classList.toggle("ends", ends.includes(from + n));
      cell.classList.toggle("now", from + n === at);
    });
  }
}
