// The instructions, with headings where code of another function begins and where a call was inlined; those can be folded.

import { instruction } from "./colours.js";
import { count, element, frameName, hex, lastPart, longest, missing, percent } from "./elements.js";
import { Rows } from "./rows.js";

const HEIGHT = 20;
const BEFORE_OPERANDS = 12; // characters that guard and opcode may take beyond their own

export class CodePane {
  constructor(parent, app) {
    this.app = app;
    this.folded = new Set();
    this.lines = [];
    this.rowOf = new Int32Array(0);
    this.by = element("small", {});
    const fold = element("button", { class: "quiet", title: "Fold or unfold inlined calls (f)", onclick: () => app.fold() }, "Fold calls");
    this.between = element("button", { class: "quiet wide-only", "aria-pressed": "false", title: "Show or hide PTX or SPIR-V (b)", hidden: true, onclick: () => app.toggleLevel() });
    this.missing = element("div", { class: "missing", hidden: true });
    parent.append(element("div", { class: "head" }, element("b", {}, "Instructions"), this.by, element("span", { class: "tools" }, this.between, fold)), this.missing);
    this.rows = new Rows(parent, {
      label: "Instructions",
      height: HEIGHT,
      heads: () => [["Offset", "From the kernel's start, hexadecimal"], ...(app.heat?.isThere ? [shareHead(app)] : []), ["Line", "Source line"], ["Instruction"]],
      render: (row, number) => this.#render(row, number),
      restate: (row, number) => {
        const line = this.lines[number];
        if (line.heading === undefined && !line.call) this.#state(row, line.at);
      },
      choose: (number, event) => this.#choose(number, event),
      hover: (number) => app.hover(this.#selection(number)),
    });
  }

  setListing(listing) {
    this.listing = listing;
    const { problem, disassembler } = listing.answer;
    this.by.textContent = problem ? "" : `${listing.count.toLocaleString("en")}, by ${disassembler}`;
    this.by.title = this.by.textContent;
    this.missing.hidden = !problem;
    this.missing.replaceChildren(...(problem ? missing(`No text of the instructions: ${problem}.`) : []));
    this.longest = longest(listing.text) + BEFORE_OPERANDS;
    this.folded = new Set();
    this.#arrange();
  }

  // Rows: {at} is an instruction; {heading, ...} a heading of a function; {call, first, length} an inlined call.
  #arrange() {
    const listing = this.listing;
    this.lines = [];
    this.rowOf = new Int32Array(listing.count);
    let functionBefore = null;
    let keyBefore = null;
    const keys = new Map();
    let number = 0;
    while (number < listing.count) {
      const name = listing.functionAt(number);
      if (name !== functionBefore) {
        this.lines.push({ heading: name, at: number });
        functionBefore = name;
        keyBefore = null;
      }
      const location = listing.location[number];
      if (!keys.has(location)) keys.set(location, listing.stackKey(location));
      const key = keys.get(location);
      const frames = listing.frames(location);
      if (key !== keyBefore && frames.length > 1) {
        let end = number + 1;
        for (; end < listing.count; end += 1) {
          const other = listing.location[end];
          if (!keys.has(other)) keys.set(other, listing.stackKey(other));
          if (keys.get(other) !== key) break;
        }
        this.lines.push({ call: frames, first: number, length: end - number });
        if (this.folded.has(number)) {
          for (let inside = number; inside < end; inside += 1) this.rowOf[inside] = this.lines.length - 1;
          number = end;
          keyBefore = key;
          continue;
        }
      }
      keyBefore = key;
      this.rowOf[number] = this.lines.length;
      this.lines.push({ at: number });
      number += 1;
    }
    this.rows.setCount(this.lines.length, this.longest);
  }

  foldAll() {
    const calls = this.lines.filter((line) => line.call);
    const open = calls.filter((line) => !this.folded.has(line.first));
    for (const line of calls) {
      if (open.length) this.folded.add(line.first);
      else this.folded.delete(line.first);
    }
    this.#arrange();
    this.reveal();
    return open.length > 0;
  }

  #toggle(line) {
    if (this.folded.has(line.first)) this.folded.delete(line.first);
    else this.folded.add(line.first);
    this.#arrange();
  }

  #selection(row) {
    const line = this.lines[row];
    return line && line.at !== undefined && line.heading === undefined ? { at: line.at } : null;
  }

  #choose(row) {
    const line = this.lines[row];
    if (line.call) this.#toggle(line);
    else this.app.select({ at: line.at });
  }

  #render(row, number) {
    const line = this.lines[number];
    if (line.heading !== undefined) return this.#heading(row, line);
    if (line.call) return this.#call(row, line);
    return this.#instruction(row, line.at);
  }

  #heading(row, line) {
    row.className = "row heading";
    row.title = line.heading;
    const section = this.listing.sections[this.listing.section[line.at]];
    row.replaceChildren(element("span", {}, line.heading || "code outside of known functions"), element("small", {}, section.section ?? `section ${section.section_index}`));
    row.setAttribute("aria-selected", "false");
  }

  #call(row, line) {
    const folded = this.folded.has(line.first);
    row.className = `row call${folded ? " folded" : ""}`;
    const chain = line.call.slice(0, -1).map(frameName).reverse().join(" › ");
    const site = line.call[line.call.length - 1];
    const from = site.file ? `${lastPart(site.file)}:${site.line}` : site.function;
    const parts = [element("span", { class: "fold", "aria-hidden": "true" }, folded ? "▸" : "▾"), element("span", { class: "chain" }, chain), element("small", {}, `inlined at ${from}`)];
    if (folded) {
      const heat = this.app.heat;
      let sum = 0;
      for (let at = line.first; at < line.first + line.length; at += 1) sum += heat.values[at];
      parts.push(element("small", { class: "sum" }, `${count(line.length, "instruction")}${heat.isThere ? `, ${percent(sum / heat.total)}% of kernel` : ""}`));
    }
    row.title = folded ? "Show the inlined instructions" : "Fold the inlined instructions";
    row.setAttribute("aria-selected", "false");
    row.replaceChildren(...parts);
  }

  #state(row, at) {
    const state = this.app.stateOf(at);
    row.className = `row code${state}`;
    row.setAttribute("aria-selected", String(state.includes("chosen")));
  }

  #instruction(row, at) {
    const { listing, app } = this;
    const frames = listing.framesAt(at);
    const inner = frames[0];
    const { guard, opcode, pieces } = instruction(listing.text[at]);
    this.#state(row, at);
    row.title = listing.text[at].slice(0, 500);
    const offset = listing.kernelOffset(at);
    const parts = [element("b", {}, offset < 0 ? `-${hex(-offset)}` : hex(offset, 5))];
    if (app.heat.isThere) parts.push(...heatCells(app.heat.share(at), app.heat.level(at)));
    parts.push(
      element("em", {}, inner?.line ? String(inner.line) : ""),
      element("code", {}, element("span", { class: "guard" }, guard), element("span", { class: "op" }, opcode), ...pieces),
    );
    row.replaceChildren(...parts);
  }

  rowFor(at) {
    return this.rowOf[at];
  }

  show(at, how) {
    this.rows.setCurrent(this.rowOf[at]);
    this.rows.scrollTo(this.rowOf[at], how);
  }

  reveal() {
    const chosen = this.app.chosen;
    if (chosen?.at >= 0) this.show(chosen.at, { always: true });
  }

  // The next instruction above or below; of a folded call the next beyond it.
  step(by) {
    const chosen = this.app.chosen;
    let row = chosen?.at >= 0 ? this.rowOf[chosen.at] + Math.sign(by) : this.rows.firstInSight();
    let left = Math.abs(by) - 1;
    let found = -1;
    for (; row >= 0 && row < this.lines.length; row += Math.sign(by)) {
      if (!this.#selection(row)) continue;
      found = row;
      if (left-- <= 0) break;
    }
    return found < 0 ? -1 : this.lines[found].at;
  }
}

// The heading over both cells of a share.
export function shareHead(app) {
  return ["% of kernel", `Share of the ${app.heat.total.toLocaleString("en")} ${app.metricName()} in this kernel`, "share"];
}

export function heatCells(share, level) {
  const bar = element("span", { class: "bar" });
  bar.style.setProperty("--level", level.toFixed(3));
  return [element("u", {}, share ? percent(share) : ""), bar];
}
