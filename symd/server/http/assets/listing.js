// A listing as the server gives it, made ready for questions: frames of an instruction, instructions of a line.

export class Listing {
  constructor(answer, kernel) {
    this.answer = answer;
    this.kernel = kernel;
    this.text = answer.text;
    this.size = answer.size;
    this.location = answer.location;
    this.count = answer.text.length;
    this.strings = answer.strings;
    this.table = answer.locations;
    this.section = new Int32Array(this.count);
    this.offset = new Array(this.count);
    let at = 0;
    answer.runs.forEach((length, run) => {
      let offset = 0;
      for (const end = at + length; at < end; at += 1) {
        offset += answer.offset[at];
        this.offset[at] = offset;
        this.section[at] = run;
      }
    });
    this.sections = answer.sections;
    this.known = new Map();
    this.lines = new Map();
    this.#gatherLines();
    this.#gatherPlaces();
  }

  // Frames of a location, innermost first: {function, file, line, column, inlined}.
  frames(location) {
    let found = this.known.get(location);
    if (!found) {
      found = [];
      const table = this.table;
      for (let row = location; row; row = table.parent[row]) {
        found.push({
          function: this.strings[table.function[row]] || this.strings[table.linkage_name[row]] || "",
          file: this.strings[table.file[row]],
          line: table.line[row],
          column: table.column[row],
          inlined: Boolean(table.inlined[row]),
          row,
        });
      }
      this.known.set(location, found);
    }
    return found;
  }

  framesAt(number) {
    return this.frames(this.location[number]);
  }

  // The function whose code it is: the outermost one.
  functionAt(number) {
    const frames = this.framesAt(number);
    return frames.length ? frames[frames.length - 1].function : "";
  }

  // The stack of inlined calls without the innermost line: instructions of one call stand together.
  stackKey(location) {
    const frames = this.frames(location);
    return frames.map((frame, at) => (at ? `${frame.function}\n${frame.file}:${frame.line}:${frame.column}` : frame.function)).join("\n\n");
  }

  #gatherLines() {
    const rows = new Map();
    for (let number = 0; number < this.count; number += 1) {
      const location = this.location[number];
      if (!rows.has(location)) rows.set(location, []);
      rows.get(location).push(number);
    }
    for (const [location, numbers] of rows) {
      this.frames(location).forEach((frame, depth) => {
        if (!frame.file || !frame.line) return;
        if (!this.lines.has(frame.file)) this.lines.set(frame.file, new Map());
        const file = this.lines.get(frame.file);
        if (!file.has(frame.line)) file.set(frame.line, { own: [], called: [] });
        const line = file.get(frame.line);
        for (const number of numbers) (depth ? line.called : line.own).push(number);
      });
    }
    for (const file of this.lines.values()) {
      for (const line of file.values()) {
        line.own.sort((a, b) => a - b);
        line.called = [...new Set(line.called)].sort((a, b) => a - b);
      }
    }
  }

  #gatherPlaces() {
    this.starts = this.sections.map(() => []);
    for (let number = 0; number < this.count; number += 1) this.starts[this.section[number]].push(number);
  }

  // The instruction that holds an offset of a section, -1 where none does.
  find(sectionIndex, offset) {
    for (let run = 0; run < this.sections.length; run += 1) {
      if (this.sections[run].section_index !== sectionIndex) continue;
      const numbers = this.starts[run];
      let low = 0;
      let high = numbers.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.offset[numbers[middle]] <= offset) low = middle + 1;
        else high = middle;
      }
      const number = low ? numbers[low - 1] : -1;
      if (number >= 0 && offset < this.offset[number] + Math.max(1, this.size[number])) return number;
    }
    return -1;
  }

  // Bytes from the kernel's first byte, or from the section's where the kernel is in another.
  kernelOffset(number) {
    const section = this.sections[this.section[number]];
    const own = this.kernel && this.kernel.section_index === section.section_index;
    return own ? this.offset[number] - this.kernel.offset : this.offset[number];
  }

  // How people write the place: KERNEL+0xOFFSET, or (SECTION)+0xOFFSET.
  placeName(number) {
    const section = this.sections[this.section[number]];
    const offset = this.kernelOffset(number);
    if (this.kernel && this.kernel.section_index === section.section_index && offset >= 0) return `${this.kernel.name}+0x${offset.toString(16)}`;
    return `(#${section.section_index})+0x${this.offset[number].toString(16)}`;
  }

  address(number) {
    return this.sections[this.section[number]].address + this.offset[number];
  }

  files() {
    return [...this.lines.keys()];
  }
}
