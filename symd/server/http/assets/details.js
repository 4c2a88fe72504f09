// What is known of the place that is chosen: its frames, the variables in scope, or the instructions of a line.

import { ask } from "./asking.js";
import { count, element, hex, lastPart, percent } from "./elements.js";

const MOST_PLACES = 60;
const PAUSE = 80;

export class Details {
  constructor(parent, app) {
    this.parent = parent;
    this.app = app;
    this.asked = 0;
  }

  // Nothing is chosen: the pane is gone.
  clear() {
    this.asked += 1;
    this.parent.hidden = true;
    this.parent.replaceChildren();
  }

  #show(...sections) {
    this.parent.hidden = false;
    this.parent.replaceChildren(...sections);
  }

  showInstruction(at) {
    const { listing, heat } = this.app;
    const name = listing.placeName(at);
    const reason = this.app.reasons[listing.table.reason[listing.location[at]]] ?? "";
    const facts = [`address 0x${hex(listing.address(at))}`, count(listing.size[at], "byte")];
    if (heat.isThere) facts.unshift(`${heat.values[at].toLocaleString("en")} ${this.app.metricName()} (${percent(heat.share(at))}% of kernel, ${percent(heat.values[at] / this.app.profile.total)}% of profile)`);
    const variables = element("section", { class: "variables", tabindex: "0", "aria-label": "Variables here" }, element("h2", {}, "Variables here"), element("p", { class: "hint" }, "…"));
    this.#show(
      element(
        "section",
        { class: "place", tabindex: "0", "aria-label": name },
        element("h2", { class: "place-name" }, element("span", {}, name), element("span", { class: `chip ${reason.toLowerCase()}` }, reason)),
        listing.text[at] ? element("pre", {}, listing.text[at].replace(/\s+/g, " ").trim().slice(0, 2000)) : null,
        element("p", { class: "facts" }, facts.join(" · ")),
        ...this.#frames(listing.framesAt(at)),
      ),
      variables,
    );
    this.#variables(variables, name);
  }

  #frames(frames) {
    if (!frames.length) return [element("p", { class: "hint" }, "No function or source line is known here.")];
    return [element("h2", {}, frames.length > 1 ? "Frames, innermost first" : "Frame"), element("ol", { class: "frames" }, ...frames.map((frame, depth) => this.#frame(frame, depth, frames.length)))];
  }

  #frame(frame, depth, number) {
    const where = frame.file ? `${lastPart(frame.file)}:${frame.line || "?"}${frame.column ? `:${frame.column}` : ""}` : "no file";
    const go = element("button", { class: "frame", title: frame.file || null, disabled: !frame.file || !frame.line }, element("b", {}, frame.function || "(unnamed)"), element("span", {}, where));
    go.addEventListener("click", () => this.app.showLine(frame.file, frame.line));
    return element("li", {}, go, depth < number - 1 ? element("em", {}, "inlined") : null);
  }

  async #variables(section, name) {
    const { app } = this;
    this.asked += 1;
    const mine = this.asked;
    await new Promise((done) => setTimeout(done, PAUSE));
    if (mine !== this.asked) return;
    let lines;
    try {
      const place = await ask(`api/modules/${app.digest}/place`, { query: name, object: app.object });
      lines = place.variables.length ? [variableTable(place)] : [element("p", { class: "hint" }, "None known.")];
      lines.push(...place.notes.map((note) => element("p", { class: "hint" }, note)));
    } catch (error) {
      lines = [element("p", { class: "hint" }, error.message)];
    }
    if (mine === this.asked) section.replaceChildren(element("h2", {}, "Variables here"), ...lines);
  }

  showLine(file, line) {
    const { listing, heat } = this.app;
    this.asked += 1;
    const known = listing.lines.get(file)?.get(line) ?? { own: [], called: [] };
    const all = [...new Set([...known.own, ...known.called])].sort((a, b) => a - b);
    const facts = [count(known.own.length, "instruction")];
    if (known.called.length) facts.push(`${known.called.length.toLocaleString("en")} more inlined into it`);
    if (heat.isThere) {
      const own = heat.lines(file, false).sums.get(line) ?? 0;
      const total = heat.lines(file, true).sums.get(line) ?? 0;
      facts.unshift(`${own.toLocaleString("en")} ${this.app.metricName()} (${percent(own / heat.total)}% of kernel${total > own ? `; ${percent(total / heat.total)}% with inlined code` : ""})`);
    }
    const shown = all.slice(0, MOST_PLACES);
    const places = shown.map((at) => {
      const go = element("button", { class: "place-button" }, listing.placeName(at));
      go.addEventListener("click", () => this.app.select({ at }));
      return go;
    });
    if (all.length > shown.length) places.push(element("span", { class: "hint" }, `${(all.length - shown.length).toLocaleString("en")} more`));
    this.#show(
      element(
        "section",
        { class: "place", tabindex: "0", "aria-label": `${lastPart(file)}:${line}` },
        element("h2", { class: "place-name" }, element("span", {}, `${lastPart(file)}:${line}`)),
        element("p", { class: "facts" }, facts.join(" · ")),
        element("p", { class: "hint", title: file }, file),
      ),
      element("section", { class: "places", tabindex: "0", "aria-label": "Its instructions" }, element("h2", {}, "Its instructions"), element("div", { class: "wrap" }, ...places)),
    );
  }
}

function variableTable(place) {
  const heads = ["Name", "Type", place.simd_width ? `Where, SIMD${place.simd_width}` : "Where", "Line"].map((text) => element("th", { scope: "col" }, text));
  const bodies = variableGroups(place).map(([title, variables]) =>
    element("tbody", {}, element("tr", {}, element("th", { scope: "rowgroup", colspan: "4" }, title)), ...variables.map((each) => variableRow(each, place.section_offset))),
  );
  return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), ...bodies);
}

// What each frame has, innermost first; then what no certain frame has, and the globals.
function variableGroups(place) {
  const named = place.frames.map((frame, number) => `#${number} ${frame.function ?? "(unnamed)"}${frame.inlined ? " (inlined)" : ""}`);
  const groups = new Map([...named, "no certain frame", "globals"].map((title) => [title, []]));
  for (const each of place.variables) {
    const title = each.kind === "global" ? "globals" : (named[each.frame] ?? "no certain frame");
    groups.get(title).push(each);
  }
  return [...groups].filter(([, variables]) => variables.length);
}

function variableRow(each, here) {
  const isElsewhere = each.live.length && !each.live.some(([start, end]) => start <= here && here < end);
  const where = each.location ?? (isElsewhere ? "not here" : "optimized out");
  return element(
    "tr",
    { class: each.optimized_out ? "gone" : null },
    element("th", { scope: "row" }, each.name ?? "(unnamed)"),
    element("td", {}, each.type),
    element("td", { title: each.doubt?.text ?? null }, each.doubt ? `${where} (doubtful)` : where),
    element("td", { title: each.declared_file ?? null }, each.declared_line ?? ""),
  );
}
