// What the editor shows, as text.
import type { Answer } from "./gen/symd/v1/answer.js";
import type { BreakpointLocation } from "./gen/symd/v1/breakpoint_service.js";
import { type Frame, reasonToJSON } from "./gen/symd/v1/location.js";
import type { Instruction } from "./daemon.js";
import type { CodePlace } from "./line_table.js";
import type { Heat } from "./profile.js";

const hex = (number: bigint): string => `0x${number.toString(16)}`;

/** "(.text)+0x8", which every command of symd takes; "0x8" in a format without sections. */
function placeText(section: string | undefined, offset: bigint): string {
  return section ? `(${section})+${hex(offset)}` : hex(offset);
}

/** "code at (.text)+0x8 and 2 more places, in march": where the code of a line is, and in which functions. */
export function lineText(places: readonly CodePlace[]): string {
  const [first, ...others] = places;
  const more = others.length === 0 ? "" : ` and ${others.length} more ${others.length === 1 ? "place" : "places"}`;
  const functions = [...new Set(places.map((each) => each.function || "no function"))];
  return `code at ${placeText(first.section, first.offset)}${more}, in ${functions.join(", ")}`;
}

/** "14.29%, 4 samples": the part of a profile that falls on a line. */
export function heatText(heat: Heat): string {
  return `${(100 * heat.share).toFixed(2)}%, ${heat.value} ${heat.value === 1 ? heat.unit.replace(/s$/, "") : heat.unit}`;
}

/** What the pointer over a line shows, in Markdown: where its code is, then the instructions of each place, or why there are none. */
export function hoverText(places: readonly CodePlace[], listings: readonly (readonly Instruction[] | Error)[], heat?: Heat): string {
  const where = places.map((each) => `- \`${placeText(each.section, each.offset)}\` in ${each.function || "no function"}`);
  const columns = heat && heat.values.size > 1 ? `: ${[...heat.values].map(([name, value]) => `${name} ${value}`).join(", ")}` : "";
  const code = listings.map((each) =>
    each instanceof Error ? `_${each.message}_` : ["```", ...each.map(({ offset, text }) => `${hex(offset)}  ${text}`), "```"].join("\n"));
  return [...(heat ? [`**${heatText(heat)}** of the profile${columns}`] : []), where.join("\n"), ...code].join("\n\n");
}

/** "blend at /src/shade.cl:13:25". */
export function frameText(frame: Frame): string {
  const name = frame.function ?? frame.linkageName ?? "no name";
  return frame.file ? `${name} at ${frame.file}${frame.line ? `:${frame.line}` : ""}${frame.column ? `:${frame.column}` : ""}` : `in ${name}`;
}

/** Frames from the innermost outwards, or the reason for which there are none. */
export function answerText(answer: Answer): string {
  const reason = reasonToJSON(answer.reason).replace("REASON_", "");
  return answer.frames.length === 0 ? reason : answer.frames.map(frameText).join(", inlined into ");
}

/** "0x190c (.text)+0x10c in blend, and 1 more": where a breakpoint lands, or why nowhere. */
export function breakpointText(found: readonly BreakpointLocation[] | string): string {
  if (typeof found === "string") return found;
  if (found.length === 0) return "nowhere in this module";
  const [first] = found;
  const slid = first.slid ? `, at line ${first.line}` : "";
  const more = found.length > 1 ? `, and ${found.length - 1} more` : "";
  return `${hex(first.address)} ${placeText(first.section, first.sectionOffset)} in ${first.function ?? "no function"}${slid}${more}`;
}
