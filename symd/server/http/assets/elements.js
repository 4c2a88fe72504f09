// Elements made of names, attributes and children. Text is only ever text: nothing here reads HTML.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const byId = (id) => document.getElementById(id);

export function hex(number, digits = 0) {
  return number.toString(16).padStart(digits, "0");
}

export function percent(share) {
  const value = share * 100;
  if (value >= 99.95) return "100";
  return value >= 0.05 ? value.toFixed(1) : value > 0 ? "<0.1" : "0";
}

export function count(number, singular, plural = `${singular}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? singular : plural}`;
}

// What a frame is called: where nothing names its function, its place.
export function frameName(frame) {
  const place = frame.file && frame.line ? `${frame.file}:${frame.line}` : "(unnamed)";
  return frame.function || place;
}

// What a kernel is called: as its source has it, where that is known.
export function kernelName(kernel) {
  return kernel.readable ?? kernel.name ?? "all code";
}

// How many characters the longest of some texts takes, with tabs of eight.
export function longest(texts) {
  return texts.reduce((most, text) => Math.max(most, text.length + 7 * (text.split("\t").length - 1)), 0);
}

// A word of a shell's command line, whatever is in it.
export function quoted(text) {
  return /^[\w./:=+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// What an empty pane says: what is missing, and what to type.
export function missing(text, command = "") {
  return [element("p", {}, text), command ? element("pre", { tabindex: "0" }, command) : null].filter(Boolean);
}

export function lastPart(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

let silence;

export function say(text) {
  const line = byId("say");
  line.textContent = text;
  line.hidden = !text;
  clearTimeout(silence);
  if (text) silence = setTimeout(() => say(""), 4000);
}
