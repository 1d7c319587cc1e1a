// What a row's registers hold of the softmax. They are not recorded: the reference has computed them.

const COLUMNS = ["row_max", "row_sum", "o_scale"];

// The step in which the maximum and the sum have taken a tile: the last at the paper's line for them,
// or the tile's last.
function updatedAt({steps}, tile) {
  const isIn = step => step.tile === tile;
  const updated = steps.findLastIndex(step => isIn(step) && step.paper?.startsWith("[FA2 Alg.1 l.9]"));
  return updated >= 0 ? updated : steps.findLastIndex(isIn);
}

export class Rows {
  #shown = null;

  constructor(key, box) {
    this.key = key;
    this.box = box;
  }

  // `at`: the current step, counted from the launch's first.
  draw(launch, at) {
    const isDone = ({tile}) => updatedAt(launch, tile) >= 0 && updatedAt(launch, tile) <= at;
    const rows = launch.rows?.findLast(isDone) ?? null;
    this.key.textContent = !launch.rows ? "This kernel has no running softmax." : !rows ? "No tile of keys is done." :
        `After ${rows.tile}: computed by the reference, not recorded; in natural units.`;
    if (this.#shown === rows) return;
    this.#shown = rows;
    this.box.replaceChildren(...(rows ? [this.#table(rows)] : []));
  }

  #table(rows) {
    const table = document.createElement("table"), head = table.createTHead().insertRow();
    for (const name of ["row", ...COLUMNS]) {
      head.append(Object.assign(document.createElement("th"), {textContent: name}));
    }
    rows.row_max.forEach((_, n) => {
      const row = table.insertRow();
      row.insertCell().textContent = n;
      for (const name of COLUMNS) row.insertCell().textContent = rows[name][n];
    });
    return table;
  }
}
