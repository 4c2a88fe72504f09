// Modules, kernels with their share of the samples, and the hottest lines.

import { count, element, lastPart, percent } from "./elements.js";

const MOST_LINES = 12;
const MOST_KERNELS = 500;
const ELSEWHERE = {
  UNKNOWN_KERNEL: "in kernels that this module lacks",
  UNKNOWN_MODULE: "in other modules, or in none",
  OTHER_MODULE: "in other modules",
  OUTSIDE_TEXT: "outside of this module's code",
  AMBIGUOUS: "in several modules or kernels of one name",
  OTHER_CODE: "in code of no kernel above",
};

export class Side {
  constructor(parent, app) {
    this.parent = parent;
    this.app = app;
  }

  draw() {
    const { app } = this;
    const parts = [];
    if (app.modules.length > 1) parts.push(heading("Modules"), list(app.modules.map((each) => this.#module(each))));
    parts.push(heading("Kernels"), this.#kernels());
    const lines = this.#hotLines();
    if (lines.length) parts.push(heading("Hot lines"), list(lines));
    this.parent.replaceChildren(...parts);
  }

  #module(module) {
    const chosen = module.sha256 === this.app.digest;
    return item(chosen, lastPart(module.label || module.sha256.slice(0, 16)), module.failure ?? `${module.format || "not read yet"} · ${size(module.size)}`, () => this.app.openModule(module.sha256));
  }

  #kernels() {
    const { app } = this;
    const shown = app.kernels.slice(0, MOST_KERNELS);
    const many = new Set(app.kernels.map((each) => each.object)).size > 1;
    const items = shown.map((each) => {
      const chosen = each.object === app.object && each.name === app.kernelName;
      const facts = [each.size ? `${each.size.toLocaleString("en")} bytes` : null, each.simd_width ? `SIMD${each.simd_width}` : null, each.registers ? `${each.registers} registers` : null];
      if (many) facts.push(each.target ?? lastPart(each.object));
      const share = app.kernelShare(each);
      return item(chosen, each.readable ?? each.name ?? "all code", facts.filter(Boolean).join(" · "), () => app.openKernel(each.object, each.name), share);
    });
    for (const { reason, share } of app.elsewhere()) items.push(element("li", { class: "elsewhere" }, element("span", {}, ELSEWHERE[reason] ?? reason), element("em", {}, `${percent(share)} %`)));
    if (app.kernels.length > shown.length) {
      const more = app.kernels.slice(MOST_KERNELS);
      const share = more.reduce((all, each) => all + app.kernelShare(each), 0);
      items.push(element("li", { class: "hint" }, `and ${more.length.toLocaleString("en")} more${share > 0 ? `, with ${percent(share)} %` : ""}: search finds them`));
    }
    return list(items);
  }

  #hotLines() {
    const { heat, listing } = this.app;
    if (!heat?.isThere) return [];
    const found = [];
    for (const file of listing.files()) {
      for (const [line, sum] of heat.lines(file, false).sums) if (sum) found.push({ file, line, sum });
    }
    found.sort((a, b) => b.sum - a.sum);
    const most = found[0]?.sum ?? 1;
    return found.slice(0, MOST_LINES).map(({ file, line, sum }) => {
      const text = this.app.textOf(file, line);
      const button = element(
        "button",
        { class: "hot", title: `${file}:${line}` },
        element("em", {}, `${percent(sum / heat.total)} %`),
        element("small", {}, text === null ? lastPart(file) : String(line)),
        element("code", {}, text === null ? `:${line}` : text.trim()),
      );
      button.style.setProperty("--level", (sum / most).toFixed(3));
      button.addEventListener("click", () => this.app.showLine(file, line));
      return element("li", {}, button);
    });
  }
}

function heading(text) {
  return element("h2", {}, text);
}

function list(items) {
  return element("ul", {}, ...items);
}

function item(chosen, name, facts, act, share = 0) {
  const button = element("button", { class: `thing${chosen ? " on" : ""}`, "aria-current": chosen ? "true" : null, title: name }, element("span", {}, name), element("small", {}, facts), share > 0 ? element("em", {}, `${percent(share)} %`) : null);
  button.addEventListener("click", act);
  return element("li", {}, button);
}

export function size(bytes) {
  if (bytes < 1 << 20) return count(bytes, "byte");
  return `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}
