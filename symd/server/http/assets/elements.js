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
  if (value >= 9.95) return value.toFixed(value >= 99.95 ? 0 : 1);
  return value >= 0.05 ? value.toFixed(1) : value > 0 ? "·" : "";
}

export function count(number, singular, plural = `${singular}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? singular : plural}`;
}

// What a frame is called: where nothing names its function, its place.
export function frameName(frame) {
  const place = frame.file && frame.line ? `${frame.file}:${frame.line}` : "(unnamed)";
  return frame.function || place;
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
