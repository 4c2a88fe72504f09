// What the server answers; everything is asked for once. In a page that is a file of its own, the answers are in the page, under the same paths.

const embedded = document.getElementById("answers");
const answers = embedded ? JSON.parse(embedded.textContent) : null;
const asked = new Map();

export const isReport = answers !== null;

export class Refused extends Error {}

function given(parameters) {
  return Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
}

function pathOf(path, parameters) {
  const pairs = given(parameters);
  return pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path;
}

// As symd/server/http/report.py names answers.
function keyOf(path, parameters) {
  return [path, ...given(parameters).map(([name, value]) => `${name}=${value}`)].join("\n");
}

async function fetched(path) {
  let response;
  try {
    response = await fetch(path);
  } catch {
    throw new Refused("symd no longer answers: start it again, and reload the page");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  const { message = `status ${response.status}`, hint = "" } = answer.error ?? {};
  throw new Refused(hint ? `${message} (${hint})` : message);
}

export function ask(path, parameters = {}) {
  if (answers !== null) {
    const key = keyOf(path, parameters);
    return Object.hasOwn(answers, key) ? Promise.resolve(answers[key]) : Promise.reject(new Refused("this file does not contain that; symd view FILE shows it"));
  }
  const whole = pathOf(path, parameters);
  if (!asked.has(whole)) {
    const answer = fetched(whole);
    asked.set(whole, answer);
    answer.catch(() => asked.delete(whole));
  }
  return asked.get(whole);
}

// symd view ends when no page holds this answer open any more.
export function stayPresent() {
  return new EventSource("api/presence");
}
