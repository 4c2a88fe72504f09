// The place in the address: everything after "#", so that a link leads back to it and nothing of it is sent to a server.

const NAMES = ["module", "object", "kernel", "at", "file", "line", "metric"];

export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(NAMES.map((name) => [name, given.get(name)]));
}

export function write(place, replace) {
  const given = new URLSearchParams();
  for (const name of NAMES) {
    const value = place[name];
    if (value !== null && value !== undefined && value !== "") given.set(name, value);
  }
  const text = `#${given}`;
  if (text === location.hash) return;
  if (replace) history.replaceState(null, "", text);
  else history.pushState(null, "", text);
}
