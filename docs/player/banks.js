// The banks of shared memory.
import {colourOf, ink, prepared} from "player/ink";
import {eachLane, elementBytes, firstOffset, isRequest, requestOf} from "player/state";

const BANKS = 32, BANK_BYTES = 4, LABELS = 64;

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
  canvas.ariaLabel = key.textContent = keyOf(launch, request, colour);
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
