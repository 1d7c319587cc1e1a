// What a row's registers hold of the softmax. They are not recorded: the reference has computed them.

const COLUMNS = ["row_max", "row_sum", "o_scale"];

export class Rows {
  #shown = null;

  constructor(key, box) {
    this.key = key;
    this.box = box;
  }

  // `steps`: of the launch, up to the current one.
  draw(launch, steps) {
    const begun = new Set(steps.map(step => step.tile));
    const rows = launch.rows?.findLast(({tile}) => begun.has(tile)) ?? null;
    this.key.textContent = !launch.rows ? "This kernel has no running softmax." : !rows ? "No tile of keys yet." :
        `Registers, as the reference computes them after ${rows.tile}. The kernel may use another base.`;
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
