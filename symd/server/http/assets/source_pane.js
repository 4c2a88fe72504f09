// The text of a source file, each line with how many instructions, or what share of the samples, come from it.

import { sourceLine } from "./colours.js";
import { heatCells, shareHead } from "./code_pane.js";
import { count, element, lastPart, longest, missing, quoted } from "./elements.js";
import { Rows } from "./rows.js";

const HEIGHT = 20;

export class SourcePane {
  constructor(parent, app) {
    this.app = app;
    this.file = null;
    this.text = [];
    this.runs = [];
    this.numbers = null;
    this.files = element("select", { "aria-label": "Source file" });
    this.files.addEventListener("change", () => app.openFile(this.files.value));
    this.note = element("small", {});
    this.missing = element("div", { class: "missing", hidden: true });
    parent.append(element("div", { class: "head" }, this.files, this.note), this.missing);
    this.rows = new Rows(parent, {
      label: "Source",
      height: HEIGHT,
      heads: () => [["Line"], app.heat?.isThere ? shareHead(app) : ["Instr.", "Instructions that come from the line"], ["Source"]],
      render: (row, number) => this.#render(row, number),
      restate: (row, number) => this.#state(row, this.lineOf(number)),
      choose: (number) => app.select({ file: this.file, line: this.lineOf(number) }),
      hover: (number) => app.hover(number < 0 ? null : { file: this.file, line: this.lineOf(number) }),
    });
  }

  setFiles(files) {
    this.files.replaceChildren(...files.map((file) => element("option", { value: file, title: file }, lastPart(file))));
    this.files.hidden = files.length === 0;
  }

  setSource(file, source) {
    this.file = file;
    this.files.value = file ?? "";
    this.files.title = file ?? "";
    this.numbers = null;
    this.lineRows = null;
    if (source?.text !== null && source?.text !== undefined) {
      this.text = source.text.split("\n");
      this.runs = source.runs ?? [];
      this.note.textContent = source.origin === "MODULE" ? "from the module" : source.md5 ? "matches the build (MD5)" : "from disk; the build names no MD5";
    } else {
      // Lines that instructions come from, without their text.
      this.numbers = [...(this.app.listing?.lines.get(file)?.keys() ?? [])].sort((a, b) => a - b);
      this.lineRows = new Map(this.numbers.map((line, row) => [line, row]));
      this.text = this.numbers.map(() => "");
      this.runs = [];
      this.note.textContent = /MD5/.test(source?.problem) ? "no match (MD5)" : "";
    }
    this.missing.hidden = this.numbers === null;
    this.missing.replaceChildren(...(this.numbers ? this.#missing(file, source?.problem) : []));
    this.rows.box.scrollTop = 0;
    this.rows.setCount(this.text.length, longest(this.text));
  }

  #missing(file, problem) {
    if (!file) return missing("No source lines are known for this kernel. Compilers record them with -g, or nvcc with -lineinfo.");
    const folder = file.slice(0, Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\"), 0));
    const text = `No source text for ${lastPart(file)}${problem ? `: ${problem}` : ""}. To show it, start symd again and say where ${folder || "its folder"} is on this machine:`;
    return missing(text, this.app.command(folder ? `--map ${quoted(folder)}=FOLDER` : "--source-root FOLDER"));
  }

  lineOf(row) {
    return this.numbers ? this.numbers[row] : row + 1;
  }

  rowOf(line) {
    return this.numbers ? (this.lineRows.get(line) ?? -1) : line <= this.text.length ? line - 1 : -1;
  }

  #state(row, line) {
    const state = this.app.stateOfLine(this.file, line);
    row.className = `row src${this.app.listing?.lines.get(this.file)?.has(line) ? "" : " bare"}${state}`;
    row.setAttribute("aria-selected", String(state.includes("chosen")));
  }

  #render(row, number) {
    const { app } = this;
    const line = this.lineOf(number);
    const known = app.listing?.lines.get(this.file)?.get(line);
    this.#state(row, line);
    row.title = this.text[number].trim().slice(0, 500);
    const parts = [element("b", {}, String(line))];
    if (app.heat.isThere) {
      const { sums, highest } = app.heat.lines(this.file, app.withCalled);
      const sum = sums.get(line) ?? 0;
      parts.push(...heatCells(sum / app.heat.total, highest ? Math.sqrt(sum / highest) : 0));
    } else {
      const size = known ? known.own.length || "" : "";
      parts.push(element("em", { title: size ? count(size, "instruction") : null }, String(size)));
    }
    parts.push(element("code", {}, ...sourceLine(this.text[number], this.runs[number] ?? [])));
    row.replaceChildren(...parts);
  }

  show(line, how) {
    const row = this.rowOf(line);
    this.rows.setCurrent(row);
    this.rows.scrollTo(row, how);
  }

  // The next line above or below that has instructions.
  step(by) {
    const chosen = this.app.chosen;
    const lines = this.app.listing?.lines.get(this.file);
    let row = chosen?.line ? this.rowOf(chosen.line) : this.rows.firstInSight() - Math.sign(by);
    let left = Math.abs(by);
    let found = -1;
    for (row += Math.sign(by); row >= 0 && row < this.text.length; row += Math.sign(by)) {
      if (!lines?.has(this.lineOf(row))) continue;
      found = this.lineOf(row);
      left -= 1;
      if (left <= 0) break;
    }
    return found;
  }
}
