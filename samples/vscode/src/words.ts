// What the editor shows, as text.
import type { BreakpointLocation } from "./gen/symd/v1/breakpoint_service.js";
import type { CodePlace } from "./daemon.js";

const hex = (number: bigint): string => `0x${number.toString(16)}`;

/** "code at .text+0x8 and 2 more places, in march": where the code of a line is, and in which functions. */
export function lineText(places: readonly CodePlace[]): string {
  const [first, ...others] = places;
  const more = others.length === 0 ? "" : ` and ${others.length} more ${others.length === 1 ? "place" : "places"}`;
  const functions = [...new Set(places.map((each) => each.function || "no function"))];
  return `code at ${first.section}+${hex(first.offset)}${more}, in ${functions.join(", ")}`;
}

/** One line of Markdown for each place. */
export function hoverText(places: readonly CodePlace[]): string {
  return places.map((each) => `- \`${each.section}+${hex(each.offset)}\` in ${each.function || "no function"}`).join("\n");
}

/** "0x190c (.text+0x10c in blend), and 1 more": where a breakpoint lands, or why nowhere. */
export function breakpointText(found: readonly BreakpointLocation[] | string): string {
  if (typeof found === "string") return found;
  if (found.length === 0) return "nowhere in this module";
  const [first] = found;
  const slid = first.slid ? `, at line ${first.line}` : "";
  const more = found.length > 1 ? `, and ${found.length - 1} more` : "";
  return `${hex(first.address)} (${first.section ?? "the module"}+${hex(first.sectionOffset)} in ${first.function ?? "no function"}${slid})${more}`;
}
