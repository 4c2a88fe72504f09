// The level between source and machine code: PTX or SPIR-V, where the module contains it.

import { levelLine } from "./colours.js";
import { element, longest } from "./elements.js";
import { Rows } from "./rows.js";

const HEIGHT = 20;

export class LevelPane {
  constructor(parent, app) {
    this.app = app;
    this.parent = parent;
    this.name = element("b", {});
    parent.append(element("div", { class: "head" }, this.name));
    this.lines = [];
    this.rows = new Rows(parent, {
      label: "PTX or SPIR-V",
      height: HEIGHT,
      heads: () => [["Line"], [this.name.textContent]],
      render: (row, number) => this.#render(row, number),
      restate: (row, number) => this.#state(row, number),
      choose: (number) => this.#choose(number),
      hover: () => {},
    });
  }

  // level: {level, lines, and for each row of its table section_index, offset, line, end_sequence}; or lines with file and line.
  setLevel(level, listing) {
    this.lines = level?.lines ?? [];
    this.name.textContent = level?.level ?? "";
    this.ofInstruction = new Map();
    this.ofLine = new Map();
    this.sources = null;
    if (level?.source_line) this.#bySource(level, listing);
    else if (level?.level) this.#byAddress(level, listing);
    this.rows.setCount(this.lines.length, longest(this.lines));
  }

  #byAddress(level, listing) {
    const order = level.offset.map((_, at) => at).sort((a, b) => level.section_index[a] - level.section_index[b] || level.offset[a] - level.offset[b] || a - b);
    let at = 0;
    const numbers = [...listing.location.keys()].map((number) => [listing.sections[listing.section[number]].section_index, listing.offset[number], number]);
    numbers.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    for (const [section, offset, number] of numbers) {
      while (at + 1 < order.length && (level.section_index[order[at + 1]] < section || (level.section_index[order[at + 1]] === section && level.offset[order[at + 1]] <= offset))) at += 1;
      const row = order[at];
      if (row === undefined || level.section_index[row] !== section || level.offset[row] > offset || level.end_sequence[row] || !level.line[row]) continue;
      this.#join(number, level.line[row] - 1);
    }
  }

  // Linked by source lines: what comes from the same line belongs together.
  #bySource(level, listing) {
    level.source_line.forEach((line, row) => {
      const file = level.files[level.source_file[row]];
      const known = line ? listing.lines.get(file)?.get(line) : null;
      for (const number of known?.own ?? []) this.#join(number, row);
    });
  }

  #join(number, line) {
    if (!this.ofInstruction.has(number)) this.ofInstruction.set(number, []);
    this.ofInstruction.get(number).push(line);
    if (!this.ofLine.has(line)) this.ofLine.set(line, []);
    this.ofLine.get(line).push(number);
  }

  #choose(row) {
    const numbers = this.ofLine.get(row);
    if (numbers?.length) this.app.select({ at: numbers[0] });
  }

  #state(row, number) {
    const own = this.ofLine.get(number) ?? [];
    const chosen = own.some((at) => this.app.isLit(at));
    row.className = `row lvl${own.length ? "" : " bare"}${chosen ? " lit" : ""}`;
    row.setAttribute("aria-selected", String(chosen));
  }

  #render(row, number) {
    this.#state(row, number);
    row.replaceChildren(element("b", {}, String(number + 1)), element("code", {}, ...levelLine(this.lines[number])));
  }

  show(at) {
    const [row] = this.ofInstruction?.get(at) ?? [];
    this.rows.setCurrent(row ?? -1);
    this.rows.scrollTo(row ?? -1);
  }
}
