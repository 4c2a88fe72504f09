// Colours of text: runs that the server made of source text, and a light reading of instructions of any vendor.

import { element } from "./elements.js";

const KINDS = ["", "kw", "ty", "num", "str", "com", "pre", "fn"];
const LONGEST = 2000;

export function sourceLine(text, runs) {
  const parts = [];
  let at = 0;
  for (let each = 0; each < runs.length; each += 2) {
    const piece = text.slice(at, at + runs[each + 1]);
    parts.push(runs[each] ? element("i", { class: KINDS[runs[each]] }, piece) : piece);
    at += runs[each + 1];
  }
  parts.push(text.slice(at));
  return parts;
}

const GUARD = /^(?:\s*(?:\([^)]*\)|@!?[\w.]+))+/;
const WORD = /\{[^}]*\}\s*$|\/\/.*$|\s;.*$|%?\b(?:r|v|s|a|p|ur|up|ttmp|acc|f|rd|rs|fd|acc)\d+(?:\.\d+)?\b|\b[vs]\[[\d:]+\]|\b(?:UR|R|P|UP)(?:\d+|Z|T)\b|\b0x[0-9a-fA-F]+\b|\b\d+(?:\.\d+)?\b/g;

// [guard, opcode, operands as pieces of (class, text), what the scheduler is told]
export function instruction(text) {
  const shown = text.slice(0, LONGEST);
  const guard = GUARD.exec(shown)?.[0] ?? "";
  const rest = shown.slice(guard.length).trimStart();
  const opcode = /^\S*/.exec(rest)[0];
  const operands = rest.slice(opcode.length).replace(/\s{2,}/g, "  ");
  const pieces = [];
  let at = 0;
  for (const hit of operands.matchAll(WORD)) {
    if (hit.index > at) pieces.push(operands.slice(at, hit.index));
    const word = hit[0];
    const kind = /^[{/;\s]/.test(word) ? "note" : /^(0x|\d)/.test(word) ? "num" : "reg";
    pieces.push(element("i", { class: kind }, word));
    at = hit.index + word.length;
  }
  pieces.push(operands.slice(at));
  return { guard: guard.trim(), opcode, pieces };
}

const PTX = /\/\/.*$|\bOp[A-Z]\w*|%[\w$]+|\b0[xfFdD][0-9a-fA-F]+\b|\b\d+\b|^\s*[.\w]+|"[^"]*"/g;

export function levelLine(text) {
  const shown = text.slice(0, LONGEST);
  const parts = [];
  let at = 0;
  for (const hit of shown.matchAll(PTX)) {
    if (hit.index > at) parts.push(shown.slice(at, hit.index));
    const word = hit[0];
    const kind = word.startsWith("//") ? "com" : word.startsWith("%") ? "reg" : word.startsWith('"') ? "str" : /^\d/.test(word) ? "num" : "op";
    parts.push(element("i", { class: kind }, word));
    at = hit.index + word.length;
  }
  parts.push(shown.slice(at));
  return parts;
}
