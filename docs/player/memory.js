// The large picture: each array as a matrix, from what a kernel reads, over shared memory, to what it writes.
import {colourOf, ink, prepared} from "player/ink";
import {eachLane, elementBytes, elementsOf, firstOffset, isRead, isRequest, kindOf, requestOf} from "player/state";

const NAMES = ["Q", "K", "V", "O", "dO", "LSE", "dQ", "dK", "dV"];
const GROUPS = ["Inputs (HBM)", "Shared memory", "Results (HBM)"];
// In pixels: of an element, of a figure, of the text above a matrix and above a group.
const SIZES = [8, 7, 6, 5, 4, 3.5, 3, 2.5, 2, 1.5, 1, 0.75, 0.5], LEAST = 128, CAPTION = 40, HEAD = 30, GAP = 12;

// How an array lies in its figure: an array with more than two extents as several matrices side by side.
// `place` is the column and the row of an element.
function shapeOf(array) {
  const count = elementsOf(array), {extents} = array;
  const across = extents.length > 1 ? extents.at(-1) : Math.min(count, count > 4096 ? 256 : 64);
  const rows = extents.length > 1 ? extents.at(-2) : Math.ceil(count / across);
  const columns = Math.ceil(count / (rows * across)) * (across + 1) - 1;
  const place = n => [
    Math.floor(n / (rows * across)) * (across + 1) + n % across, Math.floor(n % (rows * across) / across),
  ];
  return {columns, rows, count, place, across};
}

// The views of a launch's arrays, by group.
function grouped(run, launch) {
  const results = new Set(launch.warps.flat().filter(event =>
      isRequest(event) && !isRead(kindOf(run, event), requestOf(event))).map(event => requestOf(event).array));
  const groupOf = view => view.array.shared ? 1 : results.has(view.n) ? 2 : 0;
  const rank = ({array, n}) => array.shared || !NAMES.includes(array.name) ? 100 + n : NAMES.indexOf(array.name);
  const views = launch.arrays.map((array, n) => ({array, n, ...shapeOf(array)})).filter(view => view.count > 0)
                    .sort((a, b) => rank(a) - rank(b));
  return GROUPS.map((title, n) => ({title, views: views.filter(view => groupOf(view) === n)}))
               .filter(({views}) => views.length);
}

const sum = list => list.reduce((a, b) => a + b, 0);

// The height of boxes of these sizes in lines of this width, or Infinity.
function wrapped(widths, heights, width) {
  let height = 0, line = 0, left = width;
  widths.forEach((one, n) => {
    if (one > left) [height, line, left] = [height + line, 0, width];
    line = Math.max(line, heights[n]);
    left -= one;
    if (left < 0) height = Infinity;
  });
  return height + line;
}

// The size of an element with which all groups have room, side by side or one below the other. On a phone they
// need not.
function arranged(groups, width, height) {
  const most = of => Math.max(...of), sizes = SIZES.filter(size => width > 500 || size >= 2);
  for (const size of sizes) {
    const widths = groups.map(({views}) => views.map(view => Math.max(LEAST, view.columns * size) + GAP));
    const heights = groups.map(({views}) => views.map(view => view.rows * size + CAPTION));
    if (sum(widths.map(most)) <= width && HEAD + most(heights.map(sum)) <= height) return {size, beside: true};
    if (sum(widths.map((of, n) => HEAD + wrapped(of, heights[n], width))) <= height) return {size, beside: false};
  }
  return {size: sizes.at(-1), beside: false};
}

export class Matrices {
  #launch = null;

  constructor(box, text) {
    this.box = box;
    this.text = text;
  }

  #prepare({run, launch}) {
    if (this.#launch !== launch) {
      this.#launch = launch;
      this.groups = grouped(run, launch);
      this.views = this.groups.flatMap(({views}) => views);
      this.box.replaceChildren(...this.groups.map(({title, views}) => {
        const box = Object.assign(document.createElement("section"), {className: "memory"});
        box.append(Object.assign(document.createElement("h2"), {textContent: title}));
        for (const view of views) box.append(this.#figure(view));
        return box;
      }));
    }
    const {clientWidth, clientHeight} = this.box, {size, beside} = arranged(this.groups, clientWidth, clientHeight);
    this.box.classList.toggle("beside", beside);
    this.size = size;
  }

  #figure(view) {
    const [figure, caption, canvas, mark] = ["figure", "figcaption", "canvas", "mark"].map(
        name => document.createElement(name));
    Object.assign(view, {figure, caption, canvas, mark});
    canvas.role = "img";
    figure.append(caption, canvas, mark);
    return figure;
  }

  // `marked`: {array, element, text}, or null. `shown`: the names of arrays that a caption names.
  draw(state, event, marked, shown) {
    this.#prepare(state);
    for (const view of this.views) {
      view.figure.classList.toggle("shown", shown.includes(view.array.name));
      this.#drawOne(view, state, event);
      this.#mark(view, view.array.name === marked?.array ? marked : null);
    }
  }

  #drawOne(view, state, event) {
    const {array, canvas, rows, columns, count, place} = view, of = state.arrays[view.n], {size} = this;
    const framed = event && isRequest(event) && requestOf(event).array === view.n;
    const now = of.read.size + of.written.size > 0;
    // It is drawn again only if it has changed.
    const drawn = [of.requests, size, ink("--text")].join();
    if (view.drawn === drawn && !framed && !now) return;
    view.drawn = framed || now ? null : drawn;
    const paint = prepared(canvas, columns * size, rows * size);
    let most = 1, read = 0, written = 0;
    for (let n = 0; n < count; ++n) {
      most = Math.max(most, of.reads[n]);
      read += of.reads[n] > 0;
      written += of.writes[n] > 0;
    }
    const [empty, text, reading, writing] = ["--empty", "--text", "--reading", "--writing"].map(ink);
    const wrote = colourOf(view.n);
    for (let n = 0; n < count; ++n) {
      const [x, y] = place(n).map(one => one * size);
      paint.globalAlpha = 1;
      paint.fillStyle = of.written.has(n) ? writing : of.read.has(n) ? reading : of.writes[n] > 0 ? wrote : empty;
      paint.fillRect(x, y, size, size);
      if (of.reads[n] === 0) continue;
      // The more often it was read, the larger the dot.
      const dot = Math.max(1, size * (0.25 + 0.4 * Math.log2(1 + of.reads[n]) / Math.log2(1 + most)));
      paint.globalAlpha = size < 3 ? 0.25 : 0.6;
      paint.fillStyle = text;
      paint.fillRect(x + (size - dot) / 2, y + (size - dot) / 2, dot, dot);
    }
    paint.globalAlpha = 1;
    const percent = part => `${Math.floor(100 * part / count)}%`;
    view.caption.textContent = `${array.name} ${array.extents.join("×")}\n` +
        (read ? `read ${percent(read)} ` : "") + (written ? `written ${percent(written)}` : "");
    const memory = array.shared ? "shared" : "global", often = read ? `, at most ${most} times` : "";
    view.caption.title = canvas.ariaLabel = `${array.name}, ${array.element}, in ${memory} memory: of ${count} ` +
        `elements ${read} have been read${often}, and ${written} written`;
    if (framed) this.#frame(paint, view, event);
    canvas.onpointermove = canvas.onpointerdown = pointer => {
      const row = Math.floor(pointer.offsetY / size), column = Math.floor(pointer.offsetX / size);
      const block = Math.floor(column / (view.across + 1)), inside = column % (view.across + 1);
      if (row < rows && inside < view.across) this.#tell(view, of, (block * rows + row) * view.across + inside);
    };
  }

  #frame(paint, view, event) {
    const bytes = elementBytes(view.array), {laneBytes} = requestOf(event), {size} = this;
    this.#reveal(view, Math.floor(firstOffset(event) / bytes));
    paint.fillStyle = ink("--accent");
    eachLane(event, (lane, offset) => {
      for (let n = Math.floor(offset / bytes); n * bytes < offset + laneBytes; ++n) {
        paint.fillRect(...view.place(n).map(one => one * size), size, size);
      }
    });
  }

  // Frames an element, and says what is in it.
  #mark(view, marked) {
    const {figure, canvas, mark, count, place} = view;
    mark.hidden = !marked || marked.element < 0 || marked.element >= count;
    if (mark.hidden) return;
    const {size} = this, [column, row] = place(marked.element);
    const left = canvas.offsetLeft + column * size, top = canvas.offsetTop + row * size;
    const places = {left: left - 3, top: top - 3, width: size + 6, height: size + 6};
    for (const [name, value] of Object.entries(places)) mark.style[name] = `${value}px`;
    mark.dataset.text = marked.text;
    mark.classList.toggle("left", figure.offsetLeft + left > this.box.clientWidth / 2);
    this.#reveal(view, marked.element);
  }

  // Scrolls to an element.
  #reveal({figure, canvas, place}, n) {
    const top = figure.offsetTop, y = top + canvas.offsetTop + place(n)[1] * this.size;
    const {scrollTop, clientHeight} = this.box;
    if (top >= scrollTop && y < scrollTop + clientHeight - 30) return;
    this.box.scrollTop = y - top < clientHeight - 30 ? top : y - clientHeight / 2;
  }

  #tell(view, of, n) {
    if (n < 0 || n >= view.count) return;
    const value = of.values[n] === undefined ? "" : ` = ${of.values[n]}`;
    const writer = of.writer[n] < 0 ? "" : `, last by warp ${of.writer[n]}`;
    let rest = n;
    const place = view.array.extents.toReversed().map(extent => {
      const one = rest % extent;
      rest = Math.floor(rest / extent);
      return `[${one}]`;
    });
    this.text.textContent = `${view.array.name}${place.reverse().join("")}${value}: read ${of.reads[n]} times, ` +
        `written ${of.writes[n]} times${writer}`;
  }
}
