// A long list of rows of one height, of which only those in sight are elements, below the headings of their columns.

import { element } from "./elements.js";

const AHEAD = 8;
const LONGEST = 400;

export class Rows {
  // heads() are the columns' headings as [text, title, class]; render(row element, number) fills a row, restate(row element, number) changes
  // what is lit in it; choose(number, event) is told of clicks, hover(number or -1) of the pointer.
  constructor(parent, { label, height, heads, render, restate, choose, hover }) {
    this.label = label;
    this.height = height;
    this.heads = heads;
    this.render = render;
    this.restate = restate;
    this.count = 0;
    this.pool = [];
    this.current = -1;
    this.space = element("div", { class: "space", role: "presentation" });
    this.head = element("div", { class: "heads", "aria-hidden": "true" });
    this.box = element("div", { class: "rows", role: "listbox", tabindex: "0" }, this.head, this.space);
    parent.append(this.box);
    this.box.addEventListener("scroll", () => this.show(), { passive: true });
    this.box.addEventListener("click", (event) => {
      const number = this.numberOf(event);
      if (number >= 0) choose(number, event);
    });
    this.box.addEventListener("pointerover", (event) => event.pointerType === "mouse" && hover(this.numberOf(event)));
    this.box.addEventListener("pointerleave", () => hover(-1));
    this.scrolled = [];
    new ResizeObserver(() => this.#resized()).observe(this.box);
  }

  // A pane that was hidden, as on a phone, could not be scrolled.
  #resized() {
    const appears = !this.tall && this.box.clientHeight > 0;
    this.tall = this.box.clientHeight;
    if (appears) this.scrollTo(this.current);
    this.show();
  }

  numberOf(event) {
    const row = event.target.closest?.("[data-number]");
    return row ? Number(row.dataset.number) : -1;
  }

  // How many rows there are, and how many characters the longest text has: what does not fit is scrolled to sideways.
  setCount(count, longest) {
    this.count = count;
    this.space.style.height = `${count * this.height}px`;
    this.box.style.setProperty("--longest", String(Math.min(longest, LONGEST)));
    this.again();
  }

  // Render all rows in sight anew: what they show has changed.
  again() {
    const heads = this.heads();
    this.head.replaceChildren(...heads.map(([text, title, kind]) => element("span", { title, class: kind ?? null }, text)));
    this.box.setAttribute("aria-label", `${this.label}. Columns: ${heads.map(([text]) => text).join(", ")}`);
    for (const row of this.pool) row.dataset.number = "-1";
    this.show();
  }

  // What is lit has changed, not what rows say.
  relight() {
    for (const row of this.pool) if (!row.hidden && row.dataset.number !== "-1") this.restate(row, Number(row.dataset.number));
  }

  show() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - AHEAD);
    const last = Math.min(this.count, Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.height) + AHEAD);
    const wanted = last - first;
    while (this.pool.length < wanted) {
      const row = element("div", { class: "row", role: "option", "aria-selected": "false" });
      this.pool.push(row);
      this.space.append(row);
    }
    const size = this.pool.length;
    const used = new Set();
    for (let number = first; number < last; number += 1) {
      const row = this.pool[number % size];
      used.add(row);
      if (row.dataset.number === String(number)) continue;
      row.dataset.number = String(number);
      row.id = `${this.box.parentElement.id}-${number}`;
      row.style.transform = `translateY(${number * this.height}px)`;
      row.hidden = false;
      row.setAttribute("aria-setsize", String(this.count));
      row.setAttribute("aria-posinset", String(number + 1));
      this.render(row, number);
    }
    for (const row of this.pool) {
      if (!used.has(row)) {
        row.hidden = true;
        row.dataset.number = "-1";
      }
    }
    for (const told of this.scrolled) told();
  }

  setCurrent(number) {
    this.current = number;
    if (number >= 0) this.box.setAttribute("aria-activedescendant", `${this.box.parentElement.id}-${number}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  isInSight(number) {
    const top = number * this.height;
    return top >= this.box.scrollTop && top + this.height + this.head.offsetHeight <= this.box.scrollTop + this.box.clientHeight;
  }

  scrollTo(number, { always = false } = {}) {
    if (number < 0 || (!always && this.isInSight(number))) return;
    const above = Math.floor((this.box.clientHeight * 0.38) / this.height);
    this.box.scrollTop = Math.max(0, (number - above) * this.height);
    this.show();
  }

  // The row above or below that is in sight first, for keys when nothing is chosen.
  firstInSight() {
    return Math.ceil(this.box.scrollTop / this.height);
  }
}
