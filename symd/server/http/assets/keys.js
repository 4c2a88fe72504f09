// What keys do, and the list of them.

import { byId, element } from "./elements.js";

const KEYS = [
  ["/", "search names, text, addresses and lines"],
  ["j  ↓", "the next instruction, or line of source with instructions"],
  ["k  ↑", "previous row"],
  ["J  PageDown", "twenty rows down; K PageUp up"],
  ["s  c", "go to the source; to the instructions"],
  ["Enter", "go to the other side: the line of an instruction, or the first instruction of a line"],
  ["n  p", "the next, the previous instruction of the same line"],
  ["h", "the hottest instruction"],
  ["b", "show or hide PTX or SPIR-V"],
  ["f", "fold or unfold inlined calls"],
  ["i", "include or exclude inlined code in the heat of lines"],
  ["[  ]", "the previous, the next kernel"],
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
      if (tag === "SELECT" && !/^[/?]$/.test(event.key)) return; // the list's own keys: arrows, and letters of its entries
      if (event.key === "Enter" && event.target.tagName === "BUTTON") return;
      const act = this.acts(app, search)[event.key];
      if (!act) return;
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
      h: () => app.goToHottest(),
      b: () => app.toggleLevel(),
      f: () => app.fold(),
      i: () => app.toggleCalled(),
      "[": () => app.neighbour(-1),
      "]": () => app.neighbour(1),
      l: () => app.copyLink(),
      t: () => app.toggleTheme(),
      Escape: () => app.letGo(),
    };
  }

  show() {
    this.dialog.showModal();
  }
}
