// The page: what is open, what is chosen, and how the panes follow each other.

import { ask, isReport, stayPresent } from "./asking.js";
import { CodePane } from "./code_pane.js";
import { Details } from "./details.js";
import { byId, count, element, hex, kernelName, lastPart, missing, say } from "./elements.js";
import { Flame } from "./flame.js";
import * as fragment from "./fragment.js";
import { Heat } from "./heat.js";
import { Keys } from "./keys.js";
import { LevelPane } from "./level_pane.js";
import { Listing } from "./listing.js";
import { Minimap } from "./minimap.js";
import { ALL, Profile } from "./profile.js";
import { Search } from "./search.js";
import { Side } from "./side.js";
import { SourcePane } from "./source_pane.js";

const SPIRV = /^spirv/;
const WIDE = 1600;
const NARROW = 820;

// "count" is what pprof calls a plain number.
function unitOf({ unit }) {
  return unit === "count" ? "" : unit;
}

class App {
  constructor() {
    this.isReport = isReport;
    this.modules = [];
    this.kernels = [];
    this.reasons = [];
    this.texts = new Map();
    this.chosen = null;
    this.hovered = null;
    this.lit = [];
    this.withCalled = false;
    this.metric = ALL;
    this.rank = -1;
    this.active = "code";
    this.source = new SourcePane(byId("source"), this);
    this.code = new CodePane(byId("code"), this);
    this.level = new LevelPane(byId("level"), this);
    this.minimap = new Minimap(byId("code"), this, this.code);
    this.details = new Details(byId("details"), this);
    this.side = new Side(byId("side"), this);
    this.flame = new Flame(byId("flame"), this);
    this.search = new Search(this);
    this.keys = new Keys(this, this.search);
    this.#buttons();
    addEventListener("popstate", () => this.follow());
    addEventListener("hashchange", () => this.follow());
  }

  #buttons() {
    byId("link").addEventListener("click", () => this.copyLink());
    byId("theme").addEventListener("click", () => this.toggleTheme());
    byId("help").addEventListener("click", () => this.keys.show());
    byId("next").addEventListener("click", () => this.nextHottest(1));
    byId("metric").addEventListener("change", () => this.chooseMetric(Number(byId("metric").value)));
    byId("menu").addEventListener("click", () => this.#menu(!document.body.classList.contains("menu")));
    for (const [name, text] of [["source", "Source"], ["level", "Between"], ["code", "Instructions"]]) {
      const tab = element("button", { "data-pane": name, "aria-pressed": "false" }, text);
      tab.addEventListener("click", () => this.focusOn(name));
      byId("tabs").append(tab);
    }
    for (const grip of document.querySelectorAll(".grip")) this.#grip(grip);
  }

  #grip(grip) {
    grip.addEventListener("pointerdown", (event) => {
      const pane = byId(grip.dataset.pane);
      const start = event.clientX - pane.offsetWidth;
      grip.setPointerCapture(event.pointerId);
      grip.onpointermove = (moved) => {
        pane.style.flex = `0 0 ${Math.max(120, moved.clientX - start)}px`;
      };
      grip.onpointerup = () => {
        grip.onpointermove = null;
      };
    });
  }

  #menu(open) {
    document.body.classList.toggle("menu", open);
    byId("menu").setAttribute("aria-expanded", String(open));
  }

  async begin() {
    const [{ modules }, { reasons, presence }] = await Promise.all([ask("api/modules"), ask("api/about")]);
    this.modules = modules;
    this.reasons = reasons;
    this.isOwn = Boolean(presence);
    if (presence && !isReport) stayPresent();
    if (!modules.length) return showState("This daemon has no modules yet. To add one, type:", "symd info --server ADDRESS FILE");
    return this.follow();
  }

  // How this page is started again, with what it lacks.
  command(options) {
    if (isReport) return `symd view FILE -o PAGE ${options}`;
    return this.isOwn ? `symd view FILE ${options}` : `symd serve --source-root FOLDER ${options}`;
  }

  // Open what the address names; where it names no place, the hottest one.
  async follow() {
    const place = fragment.read();
    const { sha256: digest } = this.modules.find((each) => place.module && each.sha256.startsWith(place.module))?? this.modules.find((each) => each.sha256 === this.digest) ?? this.modules.find((each) => !each.failure) ?? this.modules[0];
    if (digest !== this.digest) await this.#readModule(digest);
    if (place.metric !== null && this.samples && Number(place.metric) !== this.metric) {
      this.#setMetric(Number(place.metric));
      if (this.listing) this.#warm();
    }
    const named = this.kernels.find((each) => each.name === place.kernel && (place.object === null || each.object === place.object));
    if (!this.listing || (named && named !== this.kernel)) {
      if (place.at === null && place.line === null) return this.#openHottest(named);
      await this.#readKernel(named ?? this.kernels[0]);
    }
    if (place.at !== null) {
      const at = this.#atOffset(Number(place.at));
      if (at >= 0) return this.select({ at }, { silent: true });
    }
    if (place.line !== null && place.file !== null) {
      const file = this.listing.files().find((each) => each === place.file || lastPart(each) === place.file);
      if (file) return this.showLine(file, Number(place.line), { silent: true });
    }
    return undefined;
  }

  #atOffset(offset) {
    const { listing } = this;
    const section = listing.kernel?.section_index ?? listing.sections[0]?.section_index;
    return listing.find(section, offset + (listing.kernel?.offset ?? 0));
  }

  // The hottest place of a kernel, or of all; without samples the kernel's beginning, or the first kernel's.
  async #openHottest(kernel) {
    const rank = this.profile.places.findIndex((each) => !kernel || each.kernel === kernel);
    if (rank >= 0) return this.#openPlace(rank);
    return this.#readKernel(kernel ?? this.kernels[0]);
  }

  async #openPlace(rank) {
    const { kernel, section, offset } = this.profile.places[rank];
    if (kernel !== this.kernel) await this.#readKernel(kernel);
    this.rank = rank;
    this.#showRank();
    const at = this.listing.find(section, offset);
    if (at >= 0) await this.select({ at }, { silent: true });
  }

  #showRank() {
    const { places } = this.profile;
    const all = count(places.length, "place");
    byId("rank").textContent = this.rank < 0 ? all : `Place ${(this.rank + 1).toLocaleString("en")} of ${places.length.toLocaleString("en")}`;
    byId("next").disabled = !places.length;
  }

  // Go down the places of the profile, the hottest first, or up; after the last comes the first.
  async nextHottest(by) {
    const { places } = this.profile;
    if (!places.length) return say(`There are no samples here. To show some, type: ${this.command("--profile PROFILE")}`);
    return this.#guarded(async () => {
      await this.#openPlace(this.rank < 0 ? 0 : (this.rank + by + places.length) % places.length);
      this.#remember();
    });
  }

  async openModule(digest) {
    this.#menu(false);
    await this.#guarded(async () => {
      await this.#readModule(digest);
      await this.#openHottest();
      this.#remember();
    });
  }

  async openKernel(kernel) {
    this.#menu(false);
    await this.#guarded(async () => {
      await this.#openHottest(kernel);
      this.#remember();
    });
  }

  async #guarded(act) {
    document.body.classList.add("busy");
    try {
      await act();
    } catch (error) {
      say(error.message);
    } finally {
      document.body.classList.remove("busy");
    }
  }

  async #readModule(digest) {
    const module = await ask(`api/modules/${digest}`);
    this.samples = await ask(`api/modules/${digest}/samples`).catch(() => null);
    this.digest = digest;
    this.module = module;
    const machine = module.summary.objects.filter((each) => !SPIRV.test(each.target ?? ""));
    const objects = machine.length ? machine : module.summary.objects;
    this.kernels = objects.flatMap((each) => {
      const kernels = each.kernels.map((kernel) => ({ ...kernel, object: each.object, target: each.target, readable: module.readable?.[kernel.name] }));
      return kernels.length ? kernels : [{ name: null, object: each.object, target: each.target, size: each.size }];
    });
    this.inFile = this.kernels;
    this.listing = null;
    this.texts = new Map();
    this.#metrics();
  }

  #metrics() {
    const { samples } = this;
    const choice = byId("metric");
    byId("heat").hidden = !samples;
    const isSum = Boolean(samples?.is_summable) && samples.metrics.length > 1;
    if (samples) {
      const name = (each) => `${each.name}: ${each.total.toLocaleString("en")} ${unitOf(each)}`.trim();
      const all = { name: "All", unit: samples.metrics[0]?.unit, total: samples.metrics.reduce((sum, each) => sum + each.total, 0) };
      const options = samples.metrics.map((each, number) => element("option", { value: number }, name(each)));
      choice.replaceChildren(...(isSum ? [element("option", { value: ALL }, name(all))] : []), ...options);
      choice.title = samples.name;
    }
    this.#setMetric(isSum ? ALL : (samples?.default ?? 0));
  }

  metricName() {
    if (!this.samples) return "samples";
    const each = this.samples.metrics[this.metric === ALL ? 0 : this.metric];
    return this.metric === ALL ? unitOf(each).toLowerCase() || "samples" : `${each.name} ${unitOf(each)}`.trim();
  }

  chooseMetric(metric) {
    this.#setMetric(metric);
    this.#warm();
    this.#remember(true);
  }

  // Kernels stand in the order of their shares, or without samples as in the file.
  #setMetric(metric) {
    if (this.samples && metric !== ALL && !this.samples.metrics[metric]) return;
    this.metric = metric;
    byId("metric").value = String(metric);
    this.profile = new Profile(this.samples, this.inFile, metric);
    this.rank = -1;
    const { shares } = this.profile;
    this.kernels = [...this.inFile].sort((a, b) => shares.get(b) - shares.get(a));
    this.#showRank();
  }

  #warm() {
    this.heat = new Heat(this.listing, this.samples, this.metric, this.object);
    document.body.classList.toggle("heated", this.heat.isThere);
    this.side.draw();
    this.flame.draw();
    this.again();
  }

  async #readKernel(kernel) {
    if (!kernel) throw new Error("the module has no kernel of that name");
    const asked = { object: kernel.object, kernel: kernel.name };
    const answer = await ask(`api/modules/${this.digest}/listing`, asked);
    this.kernel = kernel;
    this.object = kernel.object;
    this.kernelName = kernel.name;
    this.chosen = null;
    this.hover(null);
    this.lit = [];
    this.listing = new Listing(answer, kernel.name === null ? null : kernel);
    this.heat = new Heat(this.listing, this.samples, this.metric, this.object);
    this.#crumbs();
    this.code.setListing(this.listing);
    this.source.setFiles(this.#filesByWeight());
    this.details.clear();
    await this.openFile(this.#filesByWeight()[0] ?? null);
    await this.#readLevel(kernel);
    this.#warm();
    this.#texts();
  }

  #filesByWeight() {
    const own = (file) => [...this.listing.lines.get(file).values()].reduce((sum, line) => sum + line.own.length + line.called.length * 0.01, 0);
    return this.listing.files().sort((a, b) => own(b) - own(a));
  }

  async #readLevel(kernel) {
    const level = await ask(`api/modules/${this.digest}/level`, { object: kernel.object, kernel: kernel.name }).catch(() => null);
    this.level.setLevel(level?.level ? level : null, this.listing);
    const there = Boolean(level?.level);
    this.levelName = there ? level.level : "";
    this.showsLevel ??= innerWidth >= WIDE || !this.listing.text.some(Boolean);
    this.#placeLevel();
    const tab = byId("tabs").querySelector('[data-pane="level"]');
    tab.hidden = !there;
    tab.textContent = level?.level ?? "";
  }

  #placeLevel() {
    const shown = Boolean(this.levelName) && (this.showsLevel || innerWidth <= NARROW);
    byId("level").hidden = !shown;
    document.querySelector('.grip[data-pane="level"]').hidden = !shown;
    this.code.between.hidden = !this.levelName;
    this.code.between.textContent = this.levelName;
    this.code.between.setAttribute("aria-pressed", String(shown));
  }

  toggleLevel() {
    if (!this.levelName) return say("The module contains neither PTX nor SPIR-V for this kernel.");
    this.showsLevel = !this.showsLevel;
    this.#placeLevel();
    this.again();
    if (this.chosen?.at !== undefined) this.level.show(this.chosen.at);
    return undefined;
  }

  // The texts of the kernel's further files, for search and for hot lines.
  async #texts() {
    const listing = this.listing;
    for (const file of listing.files().slice(0, 12)) {
      if (this.listing !== listing) return;
      await this.#text(file);
    }
    this.side.draw();
  }

  #crumbs() {
    const name = lastPart(this.module.label || this.digest.slice(0, 16));
    const shown = kernelName(this.kernel);
    const { target } = this.kernel;
    byId("crumbs").replaceChildren(element("span", { title: this.module.label }, name), target ? element("small", {}, target) : "", element("span", { "aria-hidden": "true" }, "›"), element("strong", { title: shown }, shown));
    document.title = `${shown} — symd`;
    byId("title").textContent = `${shown}, ${count(this.listing.count, "instruction")}`;
  }

  // What tells a kernel from others of its name: the target, and where that is the same, the code object.
  apart(kernel) {
    const same = (one, other) => one !== other && kernelName(one) === kernelName(other);
    const others = this.kernels.filter((each) => same(each, kernel));
    if (!others.length) return [];
    return [kernel.target, ...(others.some((each) => each.target === kernel.target) ? [kernel.object] : [])].filter(Boolean);
  }

  async #text(file) {
    if (!this.texts.has(file)) {
      const source = await ask(`api/modules/${this.digest}/source`, { file, object: this.object }).catch((error) => ({ text: null, problem: error.message }));
      this.texts.set(file, source);
    }
    return this.texts.get(file);
  }

  textOf(file, line) {
    const source = this.texts.get(file);
    if (!source || source.text === null) return null;
    source.lines ??= source.text.split("\n");
    return source.lines[line - 1] ?? null;
  }

  async openFile(file) {
    if (file === this.source.file && this.source.listing === this.listing) return;
    const source = file === null ? null : await this.#text(file);
    this.source.listing = this.listing;
    this.source.setSource(file, source);
  }

  // chosen: {at} with what else is lit, or {file, line}.
  async select(place, { silent = false, replace = false } = {}) {
    this.chosen = place;
    this.hover(null);
    if (place.at !== undefined) {
      const [inner] = this.listing.framesAt(place.at);
      this.lit = place.also ?? this.#ofLine(inner?.file, inner?.line);
      this.details.showInstruction(place.at);
      this.code.show(place.at);
      this.level.show(place.at);
      this.relight();
      if (inner?.file && inner.line) {
        await this.openFile(inner.file);
        this.source.show(inner.line);
      }
    } else {
      this.active = "source";
      this.lit = this.#ofLine(place.file, place.line, true);
      this.details.showLine(place.file, place.line);
      const hottest = this.heat.isThere ? this.lit.reduce((best, at) => (this.heat.values[at] > this.heat.values[best] ? at : best), this.lit[0]) : this.lit[0];
      if (hottest !== undefined) {
        this.code.show(hottest);
        this.level.show(hottest);
      }
    }
    if (place.at !== undefined) this.active = "code";
    this.relight();
    if (replace) this.#rememberSoon();
    else if (!silent) this.#remember();
  }

  async showLine(file, line, how) {
    await this.openFile(file);
    this.source.show(line);
    await this.select({ file, line }, how);
    this.focusOn("source", { onlyNarrow: true });
  }

  #ofLine(file, line, withCalled = false) {
    const known = this.listing.lines.get(file)?.get(line);
    if (!known) return [];
    return withCalled ? [...new Set([...known.own, ...known.called])].sort((a, b) => a - b) : known.own;
  }

  hover(place) {
    const key = place && (place.at ?? `${place.file}:${place.line}`);
    if (key === this.hoveredKey) return;
    this.hoveredKey = key;
    this.hovered = place;
    const inner = place?.at !== undefined ? this.listing.framesAt(place.at)[0] : place;
    this.hoveredLine = inner?.line ? inner : null;
    this.relight();
  }

  stateOf(at) {
    let state = this.chosen?.at === at ? " chosen" : "";
    if (this.isLit(at)) state += " lit";
    const line = this.hoveredLine;
    if (line && this.listing.framesAt(at).some((frame, depth) => frame.line === line.line && frame.file === line.file && (depth === 0 || this.hovered.at === undefined))) state += " near";
    return state;
  }

  isLit(at) {
    if (this.litFrom !== this.lit) {
      this.litFrom = this.lit;
      this.litSet = new Set(this.lit);
    }
    return this.litSet.has(at);
  }

  stateOfLine(file, line) {
    const { chosen } = this;
    let state = chosen?.file === file && chosen.line === line ? " chosen" : "";
    if (chosen?.at !== undefined) {
      const depth = this.listing.framesAt(chosen.at).findIndex((frame) => frame.file === file && frame.line === line);
      if (depth === 0) state += " lit";
      else if (depth > 0) state += " caller";
    }
    if (this.hoveredLine?.file === file && this.hoveredLine.line === line) state += " near";
    return state;
  }

  // In the next frame: rows say something else, or (relight) other rows are lit.
  again() {
    this.sayNew = true;
    this.relight();
  }

  relight() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      for (const pane of [this.source, this.code, this.level]) {
        if (this.sayNew) pane.rows.again();
        else pane.rows.relight();
      }
      this.sayNew = false;
      this.minimap.draw();
    });
  }

  // Steps by key come fast, and browsers write addresses slowly.
  #rememberSoon() {
    clearTimeout(this.remembering);
    this.remembering = setTimeout(() => this.#remember(true), 150);
  }

  #remember(replace = false) {
    clearTimeout(this.remembering);
    const { chosen } = this;
    const place = { module: this.modules.length > 1 ? this.digest.slice(0, 12) : null, kernel: this.kernelName };
    if (this.object && this.kernels.filter((each) => each.name === this.kernelName).length > 1) place.object = this.object;
    if (chosen?.at !== undefined) place.at = `0x${hex(this.listing.kernelOffset(chosen.at))}`;
    else if (chosen) Object.assign(place, { file: lastPart(chosen.file), line: chosen.line });
    if (this.samples && this.metric !== ALL) place.metric = this.metric;
    fragment.write(place, replace);
  }

  // Open what a query (KERNEL+OFFSET, ADDRESS ...) means.
  async goTo(query, object = this.object) {
    await this.#guarded(async () => {
      const local = this.#local(query);
      if (local >= 0) return this.select({ at: local });
      const place = await ask(`api/modules/${this.digest}/place`, { query, object });
      if (place.section_offset === null) {
        const hint = place.candidates?.length ? `: ${place.candidates.map((each) => each.function ?? each.kernel ?? each.object).slice(0, 5).join(", ")}?` : "";
        throw new Error(`${query}: ${place.reason}${hint}`);
      }
      const kernel = this.kernels.find((each) => each.object === place.object && each.name === place.kernel) ?? this.kernels.find((each) => each.object === place.object);
      if (kernel && (kernel.name !== this.kernelName || kernel.object !== this.object)) await this.#readKernel(kernel);
      const at = this.listing.find(place.section_index, place.section_offset);
      if (at < 0) throw new Error(`${query}: ${place.reason}, and no instruction of this kernel is there`);
      return this.select({ at });
    });
  }

  #local(query) {
    const named = /^(.*)\+(0x[0-9a-f]+|[0-9]+)$/i.exec(query);
    if (named && named[1] === this.kernelName) return this.#atOffset(Number(named[2]));
    const number = Number(query);
    if (!Number.isInteger(number) || !isReport) return -1;
    return this.listing.sections.reduce((found, section) => (found >= 0 ? found : this.listing.find(section.section_index, number - section.address)), -1);
  }

  step(by) {
    if (this.active === "source") {
      const line = this.source.step(by);
      if (line > 0) {
        this.source.show(line);
        this.select({ file: this.source.file, line }, { replace: true });
      }
      return;
    }
    const at = this.code.step(by);
    if (at >= 0) this.select({ at }, { replace: true });
  }

  crossOver() {
    const { chosen } = this;
    if (!chosen) return;
    if (chosen.at !== undefined) {
      const [inner] = this.listing.framesAt(chosen.at);
      if (inner?.file && inner.line) this.showLine(inner.file, inner.line);
      this.focusOn("source");
    } else if (this.lit.length) {
      this.select({ at: this.lit[0] });
      this.focusOn("code");
    }
  }

  sameLine(by) {
    const { chosen } = this;
    if (chosen?.at === undefined) return this.crossOver();
    const own = this.lit.indexOf(chosen.at);
    const next = this.lit[(own + by + this.lit.length) % this.lit.length];
    return next === undefined ? undefined : this.select({ at: next, also: chosen.also });
  }

  fold() {
    say(this.code.foldAll() ? "Inlined calls folded." : "Inlined calls unfolded.");
  }

  toggleCalled() {
    this.withCalled = !this.withCalled;
    say(this.withCalled ? "Lines include the code that was inlined into them." : "Lines count only their own code.");
    this.again();
  }

  neighbor(by) {
    const next = this.kernels[this.kernels.indexOf(this.kernel) + by];
    if (next) this.openKernel(next);
  }

  focusOn(name, { onlyNarrow = false } = {}) {
    byId("panes").dataset.shown = name;
    for (const tab of byId("tabs").children) tab.setAttribute("aria-pressed", String(tab.dataset.pane === name));
    if (name !== "level") this.active = name;
    if (!onlyNarrow) byId(name).querySelector(".rows").focus({ preventScroll: true });
  }

  clear() {
    if (document.body.classList.contains("menu")) return this.#menu(false);
    this.chosen = null;
    this.lit = [];
    this.details.clear();
    this.relight();
    return this.#remember();
  }

  async copyLink() {
    this.#remember(true);
    try {
      await navigator.clipboard.writeText(location.href);
      say("Copied a link to this place.");
    } catch {
      say("Could not copy: copy the address of this page instead.");
    }
  }

  toggleTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("symd-theme", root.dataset.theme);
    } catch {
      // a page that was opened as a file may not be allowed to store anything
    }
    this.minimap.draw();
  }
}

try {
  const theme = localStorage.getItem("symd-theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // as in toggleTheme
}

// In place of everything: what is missing, and what to type.
function showState(text, command) {
  byId("panes").hidden = true;
  byId("find").disabled = true;
  byId("state").replaceChildren(...missing(text, command));
  byId("state").hidden = false;
}

const app = new App();
app.focusOn("code", { onlyNarrow: true });
app
  .begin()
  .catch((error) => showState(error.message))
  .finally(() => document.body.classList.add("ready"));
