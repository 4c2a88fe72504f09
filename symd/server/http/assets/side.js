// Modules, kernels with their share of the samples, and the hottest lines.

import { count, element, kernelName, lastPart, percent } from "./elements.js";

const MOST_LINES = 12;
const MOST_KERNELS = 500;
const ELSEWHERE = {
  UNKNOWN_KERNEL: "in kernels that are not in this module",
  UNKNOWN_MODULE: "in other modules, or in none",
  OTHER_MODULE: "in other modules",
  OUTSIDE_TEXT: "outside this module's code",
  AMBIGUOUS: "in several modules or kernels with the same name",
  OTHER_CODE: "in code outside these kernels",
};

export class Side {
  constructor(parent, app) {
    this.parent = parent;
    this.app = app;
  }

  draw() {
    const { app } = this;
    const isHot = app.profile.total > 0;
    const parts = [];
    if (app.modules.length > 1) parts.push(heading("Modules"), list(app.modules.map((each) => this.#module(each))));
    parts.push(heading("Kernels", isHot ? "% of profile" : ""), this.#kernels());
    const lines = this.#hotLines();
    if (lines.length) parts.push(heading("Hot lines", kernelName(app.kernel)), columns(), list(lines));
    this.parent.replaceChildren(...parts);
  }

  // Modules of one file name are told apart by their folders, or else by how their digests begin.
  #module(module) {
    const { modules, digest } = this.app;
    const name = lastPart(module.label);
    const others = modules.filter((each) => each !== module && lastPart(each.label) === name);
    const isTwice = !name || others.some((each) => each.label === module.label);
    const facts = [module.failure ?? (module.format || "not read yet"), size(module.size), isTwice ? module.sha256.slice(0, 12) : others.length ? module.label.slice(0, -name.length) : null];
    return item(module.sha256 === digest, name || "(no name)", facts.filter(Boolean).join(" · "), () => this.app.openModule(module.sha256));
  }

  #kernels() {
    const { app } = this;
    const { shares, elsewhere } = app.profile;
    const shown = app.kernels.slice(0, MOST_KERNELS);
    const items = shown.map((each) => {
      const facts = [...app.apart(each), each.size ? count(each.size, "byte") : null, each.simd_width ? `SIMD${each.simd_width}` : null, each.registers ? count(each.registers, "register") : null];
      return item(each === app.kernel, kernelName(each), facts.filter(Boolean).join(" · "), () => app.openKernel(each), shares.get(each));
    });
    for (const { reason, share } of elsewhere) items.push(element("li", { class: "elsewhere" }, element("span", {}, ELSEWHERE[reason] ?? reason), element("em", {}, `${percent(share)}%`)));
    if (app.kernels.length > shown.length) {
      const more = app.kernels.slice(MOST_KERNELS);
      const share = more.reduce((all, each) => all + shares.get(each), 0);
      items.push(element("li", { class: "hint" }, `${more.length.toLocaleString("en")} more${share > 0 ? ` (${percent(share)}%)` : ""}: search for them by name`));
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
        element("em", {}, `${percent(sum / heat.total)}%`),
        element("small", {}, text === null ? lastPart(file) : String(line)),
        element("code", {}, text === null ? `:${line}` : text.trim()),
      );
      button.style.setProperty("--level", (sum / most).toFixed(3));
      button.addEventListener("click", () => this.app.showLine(file, line));
      return element("li", {}, button);
    });
  }
}

// note: the column's heading, or whose these things are
function heading(text, note = "") {
  return element("h2", {}, element("span", {}, text), note ? element("small", { title: note }, note) : null);
}

function columns() {
  return element("div", { class: "hot columns" }, element("em", {}, "% of kernel"), element("small", {}, "Line"), element("span", {}, "Source"));
}

function list(items) {
  return element("ul", {}, ...items);
}

function item(chosen, name, facts, act, share = 0) {
  const button = element("button", { class: `thing${chosen ? " on" : ""}`, "aria-current": chosen ? "true" : null, title: name }, element("span", {}, name), element("small", {}, facts), share > 0 ? element("em", {}, `${percent(share)}%`) : null);
  button.addEventListener("click", act);
  return element("li", {}, button);
}

export function size(bytes) {
  if (bytes < 1 << 20) return count(bytes, "byte");
  return `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}
