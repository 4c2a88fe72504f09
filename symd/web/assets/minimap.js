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
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => this.#draw());
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
    pen.scale(scale, scale);
    const style = getComputedStyle(canvas);
    const hot = style.getPropertyValue("--hot");
    const rows = pane.lines.length;
    const each = Math.min(pane.rows.height, height / Math.max(1, rows));
    const used = each * rows;
    if (app.heat.isThere) {
      const levels = new Float32Array(Math.ceil(height) + 1);
      for (let row = 0; row < rows; row += 1) {
        const at = pane.lines[row].at;
        if (at === undefined || pane.lines[row].heading !== undefined) continue;
        const y = Math.floor(row * each);
        const level = app.heat.level(at);
        if (level > levels[y]) levels[y] = level;
      }
      levels.forEach((level, y) => {
        if (!level) return;
        pen.fillStyle = `rgb(${hot} / ${(level * 0.95).toFixed(3)})`;
        pen.fillRect(3, y, width - 6, Math.max(1.5, each));
      });
    } else {
      pen.fillStyle = style.getPropertyValue("--edge");
      const step = Math.max(1, Math.floor(rows / used));
      for (let row = 0; row < rows; row += step) {
        const line = pane.lines[row];
        if (line.at === undefined || line.heading !== undefined) continue;
        pen.fillRect(4, row * each, Math.min(width - 7, 2 + app.listing.text[line.at].length / 4), Math.max(0.5, each - 1));
      }
    }
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
}
