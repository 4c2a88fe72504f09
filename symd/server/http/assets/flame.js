// An icicle of functions and what was inlined into them, as wide as their samples, or as many as their bytes of code.

import { count, element, frameName, percent } from "./elements.js";

const DEEPEST = 8;
const NARROWEST = 0.004;
const MOST = 400;

function tree(listing, weight) {
  const root = { children: new Map(), weight: 0 };
  for (let number = 0; number < listing.count; number += 1) {
    const own = weight(number);
    if (!own) continue;
    root.weight += own;
    let node = root;
    const frames = listing.framesAt(number);
    for (let depth = frames.length - 1; depth >= 0; depth -= 1) {
      const name = frameName(frames[depth]);
      let child = node.children.get(name);
      if (!child) {
        child = { name, children: new Map(), weight: 0, hottest: number, most: 0, numbers: [] };
        node.children.set(name, child);
      }
      child.weight += own;
      child.numbers.push(number);
      if (own > child.most) {
        child.most = own;
        child.hottest = number;
      }
      node = child;
    }
  }
  return root;
}

export class Flame {
  constructor(parent, app) {
    this.parent = parent;
    this.app = app;
  }

  draw() {
    const { listing, heat } = this.app;
    this.bars = element("div", { class: "bars" });
    const root = tree(listing, heat.isThere ? (at) => heat.values[at] : (at) => listing.size[at]);
    const unit = `the kernel's ${heat.isThere ? this.app.metricName() : "bytes"}`;
    this.left = MOST;
    this.deep = 0;
    if (root.weight) this.#level(root, 0, 0, 1, root.weight, unit);
    this.parent.hidden = this.deep === 0;
    this.bars.style.setProperty("--levels", String(this.deep));
    this.parent.replaceChildren(element("h2", {}, element("span", {}, "Inlined calls"), element("small", {}, heat.isThere ? "% of kernel" : "% of the kernel's bytes")), this.bars);
  }

  #level(node, depth, from, width, whole, unit) {
    if (depth >= DEEPEST) return;
    let at = from;
    const children = [...node.children.values()].sort((a, b) => b.weight - a.weight);
    for (const child of children) {
      const size = (child.weight / node.weight) * width;
      if (size < NARROWEST || this.left-- <= 0) break;
      this.deep = Math.max(this.deep, depth + 1);
      const share = `${percent(child.weight / whole)}%`;
      const button = element(
        "button",
        {
          class: "flame",
          title: `${child.name}: ${share} of ${unit}, ${count(child.numbers.length, "instruction")}`,
          "aria-label": `${child.name}, ${share} of ${unit}`,
          onclick: () => this.app.select({ at: child.hottest, also: child.numbers }),
        },
        element("span", {}, child.name),
        element("small", {}, share),
      );
      button.style.left = `${at * 100}%`;
      button.style.width = `calc(${size * 100}% - 1px)`;
      button.style.top = `${depth * 21}px`;
      button.style.setProperty("--level", (0.55 + 0.45 * Math.sqrt(child.weight / whole)).toFixed(3));
      button.style.setProperty("--depth", String(depth));
      this.bars.append(button);
      this.#level(child, depth + 1, at, size, whole, unit);
      at += size;
    }
  }
}
