// What the server answers, each thing asked for once. In a report the answers lie in the page itself, under the same paths.

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
    throw new Refused("symd does not answer any more: start it again");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  const { message = `status ${response.status}`, hint = "" } = answer.error ?? {};
  throw new Refused(hint ? `${message} (${hint})` : message);
}

export function ask(path, parameters = {}) {
  if (answers !== null) {
    const key = keyOf(path, parameters);
    return Object.hasOwn(answers, key) ? Promise.resolve(answers[key]) : Promise.reject(new Refused("a report does not hold that: symd view shows it"));
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
