// What a run has done up to a step: counts of lines, and what has happened to each element. All of
// it is recorded; this file only adds it up.

const KIND = 0, PLACE = 1, ARRAY = 2, SHARED = 3, BYTES = 4, SECTORS = 5, CONFLICTS = 7;
const LANE_BYTES = 8, LANES = 9, VALUES = 10;

// True if the event reads its array and writes it, too: the simulator counts both.
const isAtomic = (kind, request) => kind === "atomic" || (kind === "box add" && !request.shared);

// True if the event reads its array; else it writes it. A box is read in one memory and written in the other.
export const isRead = (kind, request) => kind === "load" || kind === "copy load" ||
    (kind === "box copy" && !request.shared) || ((kind === "box store" || kind === "box add") && request.shared);

export const kindOf = (run, event) => run.kinds[event[KIND]];
export const placeOf = (launch, event) => launch.places[event[PLACE]];
export const isRequest = event => event.length > LANES;
// Of an event at a barrier.
export const isAtBarrier = (run, event) => ["arrive", "wait"].includes(kindOf(run, event));
export const barrierOf = event => ({barrier: event[2], phase: event[3]});
export const requestOf = event => ({
  array: event[ARRAY], shared: event[SHARED] === 1, bytes: event[BYTES], sectors: event[SECTORS],
  conflicts: event[CONFLICTS], laneBytes: event[LANE_BYTES],
});

// The offset of a request's first lane.
export const firstOffset = event => event[LANES][2];

// Calls visit(lane, offset) for each lane of a request, or each piece of a box.
export function eachLane(event, visit) {
  const spans = event[LANES];
  for (let n = 0; n < spans.length; n += 4) {
    for (let i = 0; i < spans[n + 1]; ++i) visit(spans[n] + i, spans[n + 2] + i * spans[n + 3]);
  }
}

// The bytes of an element, from its type's name.
export const elementBytes = array =>
    ({f32: 4, f16: 2, bf16: 2})[array.element] ?? Number.parseInt(array.element, 10);

export const elementsOf = array => array.extents.reduce((product, n) => product * n, 1);

// The steps of all launches, one after the other.
export function stepsOf(launches) {
  return launches.flatMap((launch, index) => launch.steps.map(step => ({...step, launch, index})));
}

// The launches in the order in which a finding happens.
export function launchesOf(run, {order}) {
  return run.launches.map((launch, n) => n !== order?.launch ? launch : {
    ...launch, steps: order.steps, flights: order.flights,
    barriers: launch.barriers.map((barrier, n) => ({...barrier, ends: order.ends[n]})),
  });
}

// The element that a finding names in its array, or -1.
export function elementOf(launch, {array, element, offset}) {
  const of = launch.arrays.find(({name}) => name === array);
  return element ?? (of && offset !== undefined ? Math.floor(offset / elementBytes(of)) : -1);
}

function emptyArray(array) {
  const count = elementsOf(array);
  return {
    reads: new Uint32Array(count), writes: new Uint32Array(count),
    writer: new Int16Array(count).fill(-1), values: new Array(count),
    before: new Array(count),  // the values that were overwritten
    read: new Set(), written: new Set(),  // in the last step
    requests: 0,
  };
}

function emptyTotals() {
  return {globalRead: 0, globalWritten: 0, shared: 0, sectors: 0, conflicts: 0};
}

// The state of one launch. It goes forward step by step; to go back it begins anew.
export class State {
  constructor(run, launch) {
    this.run = run;
    this.launch = launch;
    this.arrays = launch.arrays.map(emptyArray);
    this.totals = emptyTotals();
    this.lines = new Map();  // by "file:line"
  }

  take(step) {
    for (const {read, written} of this.arrays) {
      read.clear();
      written.clear();
    }
    for (const part of step.parts) {
      for (const [warp, first, end] of part.warps) {
        for (let n = first; n < end; ++n) this.#takeEvent(this.launch.warps[warp][n], warp);
      }
    }
  }

  // How many requests to shared memory have been taken.
  shared() {
    return this.arrays.reduce((sum, of, n) => sum + (this.launch.arrays[n].shared ? of.requests : 0), 0);
  }

  line(file, line) {
    return this.lines.get(`${file}:${line}`);
  }

  #takeEvent(event, warp) {
    if (!isRequest(event)) return;
    const request = requestOf(event), kind = kindOf(this.run, event);
    this.#count(request, kind, placeOf(this.launch, event));
    if (request.array >= 0) this.#touch(event, request, kind, warp);
  }

  #count(request, kind, [file, line]) {
    const key = `${file}:${line}`;
    if (!this.lines.has(key)) {
      this.lines.set(key, {bytes: 0, sectors: 0, globalRequests: 0, sharedRequests: 0, conflicts: 0});
    }
    const of = this.lines.get(key), totals = this.totals;
    const reads = isRead(kind, request) || isAtomic(kind, request), writes = !isRead(kind, request);
    of.bytes += request.bytes;
    of.sectors += request.sectors;
    of.conflicts += request.conflicts ?? 0;
    if (request.bytes > 0) ++of[request.shared ? "sharedRequests" : "globalRequests"];
    if (request.shared) totals.shared += request.bytes * (isAtomic(kind, request) ? 2 : 1);
    if (!request.shared && reads) totals.globalRead += request.bytes;
    if (!request.shared && writes) totals.globalWritten += request.bytes;
    totals.sectors += request.sectors * (isAtomic(kind, request) ? 2 : 1);
    totals.conflicts += request.conflicts ?? 0;
  }

  #touch(event, request, kind, warp) {
    const state = this.arrays[request.array];
    ++state.requests;
    const size = elementBytes(this.launch.arrays[request.array]);
    const elements = Math.max(1, request.laneBytes / size), values = event[VALUES];
    let value = 0;
    eachLane(event, (lane, offset) => {
      const first = Math.floor(offset / size);
      for (let n = first; n < first + elements; ++n, ++value) {
        if (n < 0 || n >= state.reads.length) continue;
        if (isRead(kind, request)) {
          ++state.reads[n];
          state.read.add(n);
          continue;
        }
        ++state.writes[n];
        state.written.add(n);
        state.writer[n] = warp;
        state.before[n] = state.values[n];
        state.values[n] = values?.[value];
      }
    });
  }
}
