// The code of every source line, put together from the stream of GetLineTable.
import type { GetLineTableResponse } from "./gen/symd/v1/symbol_service.js";

const END_SEQUENCE = 4; // LineRows.flags

/** A run of code that belongs to one source line: bytes of a section, from `offset` up to, but not including, `end`. */
export interface CodePlace {
  readonly function: string;
  readonly object: string;
  readonly section: string;
  readonly sectionIndex: number;
  readonly offset: bigint;
  end: bigint;
}

/** The code of every line that has some: file as the compiler wrote it -> line -> places, in the order of the code. */
export type Lines = Map<string, Map<number, CodePlace[]>>;

/** A packed array as numbers: `count` unsigned little-endian integers of 1, 2, 4 or 8 bytes each; an empty one is zeros (LocationTable in location.proto). */
export function unpacked(column: Uint8Array, count: number): bigint[] {
  const bytes = Buffer.from(column.buffer, column.byteOffset, column.length);
  const width = count > 0 ? column.length / count : 0;
  const numbers = new Array<bigint>(count).fill(0n);
  if (width === 0) return numbers;
  return numbers.map((_, index) => (width === 8 ? bytes.readBigUInt64LE(index * 8) : BigInt(bytes.readUIntLE(index * width, width))));
}

/** Puts a line table together from the chunks of a stream: each table's strings and sections come before the rows that number them. */
export class LineTable {
  readonly lines: Lines = new Map();
  /** The kernels and other functions that have a line. */
  readonly functions = new Set<string>();
  private object = "";
  private strings: string[] = [];
  private sections: { name: string; index: number }[] = [];
  private last: { what: string; place: CodePlace } | undefined;

  take(chunk: GetLineTableResponse): void {
    if (chunk.header) {
      this.object = chunk.header.codeObject;
      this.strings = [];
      this.sections = [];
      this.last = undefined;
    }
    this.strings.push(...chunk.strings);
    this.sections.push(...chunk.textSections.map((each) => ({ name: each.section ?? "", index: each.sectionIndex })));
    const rows = chunk.rows;
    if (!rows) return;
    const [sections, offsets, kernels, functions, files, lines, flags] =
      [rows.textSection, rows.offset, rows.kernel, rows.function, rows.file, rows.line, rows.flags].map((column) => unpacked(column, rows.count));
    const text = (number: bigint): string => this.strings[Number(number)];
    for (let index = 0; index < rows.count; index++) {
      const [offset, file, name] = [offsets[index], text(files[index]), text(functions[index])];
      const section = this.sections[Number(sections[index])];
      const hasLine = (Number(flags[index]) & END_SEQUENCE) === 0 && lines[index] !== 0n;
      const what = hasLine ? `${section.index}\n${name}\n${file}\n${lines[index]}` : "";
      if (what !== "" && what === this.last?.what) continue; // rows of one line side by side are one place
      if (this.last) this.last.place.end = offset;
      this.last = undefined;
      if (!hasLine) continue;
      const place = { function: name, object: this.object, section: section.name, sectionIndex: section.index, offset, end: offset };
      this.at(file, Number(lines[index])).push(place);
      this.last = { what, place };
      for (const each of [name, text(kernels[index])]) if (each) this.functions.add(each);
    }
  }

  private at(file: string, line: number): CodePlace[] {
    let ofFile = this.lines.get(file);
    if (!ofFile) this.lines.set(file, (ofFile = new Map()));
    let places = ofFile.get(line);
    if (!places) ofFile.set(line, (places = []));
    return places;
  }
}
