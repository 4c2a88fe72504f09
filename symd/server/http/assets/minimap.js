// The whole kernel at a glance beside its instructions: heat, what is lit, and the part in sight.

import { element } from "./elements.js";

export class Minimap {
  constructor(parent, app, pane) {
    this.app = app;
    this.pane = pane;
    this.canvas = element("canvas", { class: "minimap", "aria-hidden": "true" });
    parent.append(this.canvas);
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.#go(event);
    });
    this.canvas.addEventListener("pointermove", (event) => event.buttons && this.#go(event));
    pane.rows.scrolled.push(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  #go(event) {
    const box = this.pane.rows.box;
    const share = (event.clientY - this.canvas.getBoundingClientRect().top) / this.canvas.clientHeight;
    box.scrollTop = share * this.pane.lines.length * this.pane.rows.height - box.clientHeight / 2;
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.#draw();
    });
  }

  #draw() {
    const { canvas, pane, app } = this;
    const scale = devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (!width || !height || !app.listing) return;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    const style = getComputedStyle(canvas);
    const each = Math.min(pane.rows.height, height / Math.max(1, pane.lines.length));
    pen.drawImage(this.#base(style, each, scale), 0, 0);
    pen.scale(scale, scale);
    pen.fillStyle = style.getPropertyValue("--accent");
    let before = -2;
    for (const at of app.lit) {
      const y = Math.floor(pane.rowFor(at) * each);
      if (y - before < 1) continue;
      pen.fillRect(0, y, 3, Math.max(1.5, each));
      before = y;
    }
    const box = pane.rows.box;
    const top = (box.scrollTop / pane.rows.height) * each;
    const size = Math.max(8, (box.clientHeight / pane.rows.height) * each);
    pen.strokeStyle = style.getPropertyValue("--accent");
    pen.lineWidth = 1.5;
    pen.strokeRect(0.75, Math.min(top, height - size) + 0.75, width - 1.5, Math.min(size, height) - 1.5);
  }

  // What does not move: heat, or how long lines are. Drawn once for each listing, metric, size and colour.
  #base(style, each, scale) {
    const { canvas, app, pane } = this;
    const key = [app.heat, pane.lines, canvas.width, canvas.height, style.getPropertyValue("--hot")];
    if (this.key?.every((part, at) => part === key[at])) return this.drawn;
    this.key = key;
    this.drawn = element("canvas", { width: canvas.width, height: canvas.height });
    const pen = this.drawn.getContext("2d");
    pen.scale(scale, scale);
    if (app.heat.isThere) this.#heat(pen, style.getPropertyValue("--hot"), each);
    else this.#lengths(pen, style.getPropertyValue("--edge"), each);
    return this.drawn;
  }

  #heat(pen, hot, each) {
    const { canvas, app, pane } = this;
    const levels = new Float32Array(Math.ceil(canvas.clientHeight) + 1);
    pane.lines.forEach((line, row) => {
      if (line.at === undefined || line.heading !== undefined) return;
      const y = Math.floor(row * each);
      const level = app.heat.level(line.at);
      if (level > levels[y]) levels[y] = level;
    });
    levels.forEach((level, y) => {
      if (!level) return;
      pen.fillStyle = `rgb(${hot} / ${(level * 0.95).toFixed(3)})`;
      pen.fillRect(3, y, canvas.clientWidth - 6, Math.max(1.5, each));
    });
  }

  #lengths(pen, colour, each) {
    const { canvas, app, pane } = this;
    pen.fillStyle = colour;
    const step = Math.max(1, Math.floor(1 / each));
    for (let row = 0; row < pane.lines.length; row += step) {
      const line = pane.lines[row];
      if (line.at === undefined || line.heading !== undefined) continue;
      pen.fillRect(4, row * each, Math.min(canvas.clientWidth - 7, 2 + app.listing.text[line.at].length / 4), Math.max(0.5, each - 1));
    }
  }
}
