// One field for names, text, addresses and lines; what is typed decides.

import { ask } from "./asking.js";
import { byId, element, hex, kernelName, lastPart } from "./elements.js";

const EACH = 8;
const PAUSE = 120;

export class Search {
  constructor(app) {
    this.app = app;
    this.field = byId("find");
    this.list = byId("found");
    this.hits = [];
    this.current = 0;
    this.asked = 0;
    this.field.addEventListener("input", () => this.#soon());
    this.field.addEventListener("focus", () => this.field.value && this.#soon());
    this.field.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    this.field.addEventListener("keydown", (event) => this.#key(event));
  }

  open() {
    this.field.focus();
    this.field.select();
  }

  close() {
    clearTimeout(this.waiting);
    this.asked += 1; // an answer that comes now is nobody's: it would open the list again
    this.list.hidden = true;
    this.field.setAttribute("aria-expanded", "false");
    this.field.removeAttribute("aria-activedescendant");
  }

  #soon() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.#look(), PAUSE);
  }

  async #look() {
    const text = this.field.value.trim();
    this.asked += 1;
    this.looked = text;
    const mine = this.asked;
    if (!text) return this.close();
    this.#draw([...this.#places(text), ...this.#kernels(text), ...this.#functions(text), ...this.#source(text), ...this.#code(text)]);
    if (text.length < 2 || this.app.isReport) return undefined;
    const pattern = /[*?[]/.test(text) ? text : `*${text}*`;
    const answer = await ask(`api/modules/${this.app.digest}/names`, { pattern }).catch(() => ({ names: [] }));
    if (mine !== this.asked) return undefined;
    const known = new Set(this.hits.map((hit) => hit.name));
    const more = answer.names.filter((each) => each.kind !== "file" && each.section_offset !== null && !known.has(each.name)).slice(0, EACH);
    this.#draw([...this.hits, ...more.map((each) => ({ kind: each.kind, name: each.name, note: `+0x${hex(each.section_offset)}`, act: () => this.app.goTo(`${each.linkage_name ?? each.name}+0`, each.object) }))]);
    return undefined;
  }

  #places(text) {
    const { app } = this;
    const hits = [];
    if (/^(0x[0-9a-f]+|[0-9]+)$/i.test(text) && app.kernelName) {
      const offset = `0x${Number(text).toString(16)}`;
      hits.push({ kind: "offset", name: `${app.kernelName}+${offset}`, act: () => app.goTo(`${app.kernelName}+${offset}`) });
      hits.push({ kind: "address", name: text, act: () => app.goTo(text) });
    } else if (/\+(0x[0-9a-f]+|[0-9]+)$/i.test(text)) {
      hits.push({ kind: "place", name: text, act: () => app.goTo(text) });
    }
    const line = /^(.*):(\d+)$/.exec(text);
    if (line) {
      for (const file of app.listing.files()) {
        if (file.endsWith(line[1])) hits.push({ kind: "line", name: `${lastPart(file)}:${line[2]}`, act: () => app.showLine(file, Number(line[2])) });
      }
    }
    return hits;
  }

  #kernels(text) {
    const low = text.toLowerCase();
    const found = this.app.kernels.filter((each) => kernelName(each).toLowerCase().includes(low)).slice(0, EACH);
    return found.map((each) => ({ kind: "kernel", name: kernelName(each), note: this.app.apart(each).join(" · ") || each.target, act: () => this.app.openKernel(each) }));
  }

  #functions(text) {
    const low = text.toLowerCase();
    const { listing } = this.app;
    const found = new Map();
    for (let number = 0; number < listing.count && found.size < EACH; number += 1) {
      for (const frame of listing.framesAt(number)) {
        if (frame.inlined && frame.function.toLowerCase().includes(low) && !found.has(frame.function)) found.set(frame.function, number);
      }
    }
    return [...found].map(([name, number]) => ({ kind: "inlined", name, note: listing.placeName(number), act: () => this.app.select({ at: number }) }));
  }

  #source(text) {
    const low = text.toLowerCase();
    const hits = [];
    for (const [file, source] of this.app.texts) {
      const lines = source.text?.split("\n") ?? [];
      for (let line = 0; line < lines.length && hits.length < EACH; line += 1) {
        if (lines[line].toLowerCase().includes(low)) hits.push({ kind: "source", name: lines[line].trim(), note: `${lastPart(file)}:${line + 1}`, act: () => this.app.showLine(file, line + 1) });
      }
    }
    return hits;
  }

  #code(text) {
    const low = text.toLowerCase();
    const { listing } = this.app;
    const hits = [];
    for (let number = 0; number < listing.count && hits.length < EACH; number += 1) {
      if (listing.text[number].toLowerCase().includes(low)) {
        hits.push({ kind: "code", name: listing.text[number].replace(/\s+/g, " ").trim(), note: listing.placeName(number), act: () => this.app.select({ at: number }) });
      }
    }
    return hits;
  }

  #draw(hits) {
    this.hits = hits;
    this.current = Math.min(this.current, Math.max(0, hits.length - 1));
    const rows = hits.map((hit, at) => {
      const row = element("div", { id: `found-${at}`, class: "hit", role: "option", "aria-selected": String(at === this.current) }, element("small", {}, hit.kind), element("span", {}, hit.name), element("small", { class: "note" }, hit.note ?? ""));
      row.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        this.#take(at);
      });
      return row;
    });
    this.list.replaceChildren(...(rows.length ? rows : [element("div", { class: "hit none", role: "option", "aria-selected": "false", "aria-disabled": "true" }, "No match")]));
    this.list.hidden = false;
    this.field.setAttribute("aria-expanded", "true");
    if (rows.length) this.field.setAttribute("aria-activedescendant", `found-${this.current}`);
  }

  #key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const number = this.hits.length;
      if (number) {
        this.current = (this.current + (event.key === "ArrowDown" ? 1 : -1) + number) % number;
        this.#draw(this.hits);
        byId(`found-${this.current}`)?.scrollIntoView({ block: "nearest" });
      }
    } else if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(this.waiting);
      if (this.list.hidden || this.looked !== this.field.value.trim()) {
        this.current = 0;
        this.#look();
      }
      this.#take(this.current);
    } else if (event.key === "Escape") {
      this.close();
      this.field.blur();
    }
    event.stopPropagation();
  }

  #take(at) {
    const hit = this.hits[at];
    if (!hit) return;
    this.close();
    this.field.blur();
    this.current = 0;
    hit.act();
  }
}
