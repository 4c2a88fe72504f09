// What keys do, and the list of them.

import { byId, element } from "./elements.js";

const KEYS = [
  ["/", "search names, text, addresses and lines"],
  ["j  ↓", "the next instruction, or line of source with instructions"],
  ["k  ↑", "the one before"],
  ["J  PageDown", "twenty rows down"],
  ["K  PageUp", "twenty rows up"],
  ["←  →", "scroll long rows sideways"],
  ["s  c", "go to the source, or to the instructions"],
  ["Enter", "go from an instruction to its source line, or from a line to its first instruction"],
  ["n  p", "the next or previous instruction of the same line"],
  ["h  H", "the next hottest place, or the one before"],
  ["b", "show or hide PTX or SPIR-V"],
  ["f", "fold or unfold inlined calls"],
  ["i", "count inlined code on the lines it was inlined into, or not"],
  ["[  ]", "the previous or next kernel"],
  ["l", "copy a link to this place"],
  ["t", "light or dark"],
  ["Esc", "clear the selection"],
  ["?", "this list"],
];

export class Keys {
  constructor(app, search) {
    this.dialog = byId("keys");
    const close = element("button", { class: "quiet", autofocus: true }, "Close");
    close.addEventListener("click", () => this.dialog.close());
    const rows = KEYS.flatMap(([keys, what]) => [element("dt", {}, ...keys.split("  ").map((key) => element("kbd", {}, key))), element("dd", {}, what)]);
    this.dialog.append(element("h2", {}, "Keys"), element("dl", {}, ...rows), close);
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || this.dialog.open) return;
      const tag = event.target.tagName;
      if (/^(INPUT|TEXTAREA)$/.test(tag)) return;
      if (tag === "SELECT" && !/^[/?]$/.test(event.key)) return; // it uses arrows and letters itself
      if (event.key === "Enter" && event.target.tagName === "BUTTON") return;
      const act = this.acts(app, search)[event.key];
      if (!act || (!app.listing && !/^[?t]$/.test(event.key))) return;
      event.preventDefault();
      act();
    });
  }

  acts(app, search) {
    return {
      "/": () => search.open(),
      "?": () => this.show(),
      j: () => app.step(1),
      ArrowDown: () => app.step(1),
      k: () => app.step(-1),
      ArrowUp: () => app.step(-1),
      J: () => app.step(20),
      PageDown: () => app.step(20),
      K: () => app.step(-20),
      PageUp: () => app.step(-20),
      s: () => app.focusOn("source"),
      c: () => app.focusOn("code"),
      Enter: () => app.crossOver(),
      n: () => app.sameLine(1),
      p: () => app.sameLine(-1),
      h: () => app.nextHottest(1),
      H: () => app.nextHottest(-1),
      b: () => app.toggleLevel(),
      f: () => app.fold(),
      i: () => app.toggleCalled(),
      "[": () => app.neighbor(-1),
      "]": () => app.neighbor(1),
      l: () => app.copyLink(),
      t: () => app.toggleTheme(),
      Escape: () => app.clear(),
    };
  }

  show() {
    this.dialog.showModal();
  }
}
