// The banks of shared memory, and the arrays as matrices.
import {eachLane, elementBytes, firstOffset, isRequest, requestOf} from "player/state";

const BANKS = 32, BANK_BYTES = 4, LABELS = 64, WIDTH = 80;
// Colours that differ in lightness, too.
const HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a63d2", "#b0a000"];

export const colourOf = n => HUES[n % HUES.length];

const ink = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A canvas of this size on any screen.
function prepared(canvas, width, height) {
  const scale = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return context;
}

// `marked`: the array of a fault, by name.
export function drawBanks(canvas, key, state, event, colour, marked) {
  const {launch} = state;
  const rows = Math.ceil(launch.shared_bytes / (BANKS * BANK_BYTES));
  const cell = Math.max(6, Math.floor((canvas.parentElement.clientWidth - LABELS - 16) / BANKS));
  const height = rows > 300 ? 4 : rows > 100 ? 6 : 10;
  const width = LABELS + BANKS * cell, whole = Math.max(1, rows) * height + 14;
  const at = word => [LABELS + word % BANKS * cell, 14 + Math.floor(word / BANKS) * height];
  // What is written is drawn again only if it has changed.
  const drawn = [state.shared(), colour, marked, width, ink("--text")].join();
  if (canvas.launch !== launch || canvas.drawn !== drawn) {
    canvas.arrays ??= document.createElement("canvas");
    drawArrays(prepared(canvas.arrays, width, whole), state, colour, marked, at, cell, height);
    Object.assign(canvas, {launch, drawn});
  }
  const paint = prepared(canvas, width, whole);
  paint.drawImage(canvas.arrays, 0, 0, width, whole);
  paint.font = "10px sans-serif";
  const request = event && isRequest(event) ? requestOf(event) : null;
  if (request?.shared && request.array >= 0) drawLanes(paint, launch, event, request, at, cell, height);
  key.textContent = keyOf(launch, request, colour);
}

function drawArrays(paint, state, colour, marked, at, cell, height) {
  paint.font = "10px sans-serif";
  paint.fillStyle = ink("--text");
  for (let bank = 0; bank < BANKS; bank += cell < 14 ? 4 : 1) paint.fillText(bank, LABELS + bank * cell, 10);
  const empty = ink("--empty"), text = ink("--text");
  state.launch.arrays.forEach((array, n) => {
    if (!array.shared) return;
    const size = elementBytes(array), of = state.arrays[n], each = Math.max(1, BANK_BYTES / size);
    const first = Math.floor(array.offset / BANK_BYTES);
    for (let element = 0; element < of.writes.length; element += each) {  // the first of a word
      const word = Math.floor((array.offset + element * size) / BANK_BYTES);
      const written = of.writes[element] > 0;
      for (let more = 0; more < Math.max(1, size / BANK_BYTES); ++more) {
        const [x, y] = at(word + more);
        paint.fillStyle = written ? colourOf(colour === "warp" ? of.writer[element] : n) : empty;
        paint.fillRect(x, y, cell - 1, height - 1);
      }
    }
    const faulty = array.name === marked, y = at(first)[1];
    paint.fillStyle = faulty ? ink("--bad") : text;
    paint.fillText((faulty ? "⚠ " : "") + array.name.slice(0, 10), 2, y + 9);
    if (faulty) {
      const last = at(Math.floor((array.offset + of.writes.length * size - 1) / BANK_BYTES))[1];
      paint.fillRect(LABELS - 5, y, 3, last + height - y);
    }
  });
}

// Scrolls a box if this height of its content is out of sight.
function reveal(box, y) {
  if (y < box.scrollTop || y > box.scrollTop + box.clientHeight - 20) box.scrollTop = y - box.clientHeight / 3;
}

// The lanes of a request, in the words that they want.
function drawLanes(paint, launch, event, request, at, cell, height) {
  paint.strokeStyle = ink("--text");
  paint.lineWidth = 2;
  const first = launch.arrays[request.array].offset + firstOffset(event);
  reveal(paint.canvas.parentElement, at(Math.floor(first / BANK_BYTES))[1]);
  eachLane(event, (lane, offset) => {
    const begin = launch.arrays[request.array].offset + offset;
    const last = Math.floor((begin + request.laneBytes - 1) / BANK_BYTES);
    for (let word = Math.floor(begin / BANK_BYTES); word <= last; ++word) {
      const [x, y] = at(word);
      paint.fillStyle = ink("--back");
      paint.fillRect(x, y, cell - 1, height - 1);
      paint.strokeRect(x, y, cell - 1, height - 1);
      paint.fillStyle = ink("--text");
      if (cell >= 10 && height >= 10) paint.fillText(lane, x + 1, y + 8, cell - 2);
    }
  });
}

function keyOf(launch, request, colour) {
  const names = launch.arrays.filter(array => array.shared).map(array => array.name).join(", ");
  if (!names) return "This kernel has no shared memory.";
  const of = colour === "warp" ? "Coloured by the warp that wrote last" : "Coloured by array";
  const what = !request?.shared ? "" : ` Framed: the words of the request, with the lane's number; ` +
      `${request.conflicts} bank conflicts.`;
  return `${of}; empty: not written. Arrays: ${names}.${what}`;
}

// Rows and columns: of an array with more extents, all but the last are rows.
function shapeOf(array) {
  const columns = array.extents.length > 1 ? array.extents.at(-1) : Math.min(64, array.extents[0] ?? 1);
  const count = array.extents.reduce((product, n) => product * n, 1);
  return {columns, rows: Math.ceil(count / columns), count};
}

// The order of the matrices: what a kernel reads, shared memory, and what it writes.
const INPUTS = ["Q", "K", "V"], INPUTS_OF_BACKWARD = [...INPUTS, "O", "dO", "LSE"];
const OUTPUTS = ["O", "LSE", "dQ", "dK", "dV"];

function ordered(views) {
  const inputs = views.some(({array}) => array.name === "dO") ? INPUTS_OF_BACKWARD : INPUTS;
  const rank = ({array: {name, shared}}) =>
      shared ? 10 : inputs.includes(name) ? inputs.indexOf(name) : 20 + OUTPUTS.indexOf(name);
  return views.sort((a, b) => rank(a) - rank(b));
}

export class Matrices {
  constructor(box, text) {
    this.box = box;
    this.text = text;
    this.launch = null;
  }

  #prepare(launch) {
    if (this.launch === launch) return;
    this.launch = launch;
    this.box.replaceChildren();
    const views = launch.arrays.map((array, n) => ({array, n, ...shapeOf(array)})).filter(view => view.count > 0);
    this.views = ordered(views).map(view => {
      const figure = document.createElement("figure");
      const caption = document.createElement("figcaption"), canvas = document.createElement("canvas");
      figure.append(caption, canvas);
      this.box.append(figure);
      return {...view, figure, caption, canvas};
    });
  }

  // `finding`: the marked one. If it has a wrong value, that is framed.
  draw(state, event, finding) {
    this.#prepare(state.launch);
    for (const view of this.views) {
      const here = finding?.kernel === state.launch.kernel && finding.array === view.array.name;
      this.#drawOne(view, state, event, here ? finding.element ?? -1 : -1);
    }
  }

  #drawOne(view, state, event, wrong) {
    const {array, canvas, rows, columns, count} = view, of = state.arrays[view.n];
    const framed = event && isRequest(event) && requestOf(event).array === view.n;
    // It is drawn again only if it has changed.
    const drawn = [of.requests, ink("--text")].join();
    if (view.drawn === drawn && !framed && wrong < 0) return;
    view.drawn = framed || wrong >= 0 ? null : drawn;
    const size = Math.max(1, Math.min(4, Math.floor(WIDTH / columns), Math.ceil(2 * WIDTH / rows)));
    const paint = prepared(canvas, columns * size, rows * size);
    let most = 1, read = 0, written = 0;
    for (let n = 0; n < count; ++n) {
      most = Math.max(most, of.reads[n]);
      read += of.reads[n] > 0;
      written += of.writes[n] > 0;
    }
    const empty = ink("--empty"), wrote = colourOf(view.n), text = ink("--text");
    for (let n = 0; n < count; ++n) {
      const x = n % columns * size, y = Math.floor(n / columns) * size;
      paint.globalAlpha = 1;
      paint.fillStyle = of.writes[n] > 0 ? wrote : empty;
      paint.fillRect(x, y, size, size);
      if (of.reads[n] === 0) continue;
      // The more often it was read, the larger the dot.
      const dot = Math.max(1, size * (0.35 + 0.5 * Math.log2(1 + of.reads[n]) / Math.log2(1 + most)));
      paint.globalAlpha = 0.75;
      paint.fillStyle = text;
      paint.fillRect(x + (size - dot) / 2, y + (size - dot) / 2, dot, dot);
    }
    paint.globalAlpha = 1;
    const percent = part => `${Math.floor(100 * part / count)}%`;
    view.caption.textContent = `${array.name} ${array.extents.join("×")}\nread ${percent(read)}\n` +
        `written ${percent(written)}`;
    const memory = array.shared ? "shared" : "global", often = read ? `, at most ${most} times` : "";
    view.caption.title = `${array.name}, ${array.element}, in ${memory} memory: of ${count} elements ` +
        `${read} have been read${often}, and ${written} written`;
    if (framed) this.#frame(paint, view, event, size);
    if (wrong >= 0) this.#frameWrong(paint, view, wrong, size);
    canvas.onpointermove = canvas.onpointerdown = pointer => {
      const row = Math.floor(pointer.offsetY / size), column = Math.floor(pointer.offsetX / size);
      this.#tell(view, of, row * columns + column, row, column);
    };
  }

  #frame(paint, view, event, size) {
    const bytes = elementBytes(view.array), {laneBytes} = requestOf(event);
    this.#reveal(view, Math.floor(firstOffset(event) / bytes), size);
    paint.fillStyle = ink("--accent");
    eachLane(event, (lane, offset) => {
      for (let n = Math.floor(offset / bytes); n * bytes < offset + laneBytes; ++n) {
        paint.fillRect(n % view.columns * size, Math.floor(n / view.columns) * size, size, size);
      }
    });
  }

  #frameWrong(paint, view, n, size) {
    this.#reveal(view, n, size);
    const right = n % view.columns * size + size + 3, bottom = Math.floor(n / view.columns) * size + size + 3;
    const left = Math.max(1, right - size - 6), top = Math.max(1, bottom - size - 6);
    for (const [width, colour] of [[4, "--back"], [2, "--bad"]]) {
      paint.lineWidth = width;
      paint.strokeStyle = ink(colour);
      paint.strokeRect(left, top, right - left, bottom - top);
    }
  }

  // Scrolls to an element.
  #reveal({figure, canvas, columns}, n, size) {
    const top = figure.offsetTop, y = canvas.offsetTop + Math.floor(n / columns) * size;
    const {scrollTop, clientHeight} = this.box;
    if (top >= scrollTop && y < scrollTop + clientHeight - 8) return;
    this.box.scrollTop = y - top < clientHeight - 8 ? top : y - clientHeight / 2;
  }

  #tell(view, of, n, row, column) {
    if (n < 0 || n >= view.count) return;
    const value = of.values[n] === undefined ? "" : ` = ${of.values[n]}`;
    const writer = of.writer[n] < 0 ? "" : `, last by warp ${of.writer[n]}`;
    this.text.textContent = `${view.array.name}[${row}][${column}]${value}: read ${of.reads[n]} times, ` +
        `written ${of.writes[n]} times${writer}`;
  }
}
