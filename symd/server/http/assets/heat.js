// Samples on instructions and lines, and the one colour that shows them.

export class Heat {
  constructor(listing, samples, metric, object) {
    this.values = new Float64Array(listing.count);
    this.total = 0;
    this.highest = 0;
    const own = samples?.objects?.find((each) => each.object === object);
    if (own) {
      const column = metric < 0 ? sums(own.values) : own.values[metric];
      own.offset.forEach((offset, at) => {
        const number = listing.find(own.section_index[at], offset);
        if (number >= 0) this.values[number] += column[at];
      });
    }
    for (const value of this.values) {
      this.total += value;
      if (value > this.highest) this.highest = value;
    }
    this.listing = listing;
    this.files = new Map();
  }

  get isThere() {
    return this.total > 0;
  }

  share(number) {
    return this.total ? this.values[number] / this.total : 0;
  }

  // From 0 to 1: the root lets small ones be seen.
  level(number) {
    return this.highest ? Math.sqrt(this.values[number] / this.highest) : 0;
  }

  // For each line of a file its sum, by innermost frame, or with what was inlined into it.
  lines(file, withCalled) {
    const key = `${withCalled ? 1 : 0}${file}`;
    if (!this.files.has(key)) {
      const sums = new Map();
      let highest = 0;
      for (const [line, { own, called }] of this.listing.lines.get(file) ?? []) {
        const numbers = withCalled ? new Set([...own, ...called]) : own;
        let sum = 0;
        for (const number of numbers) sum += this.values[number];
        sums.set(line, sum);
        if (sum > highest) highest = sum;
      }
      this.files.set(key, { sums, highest });
    }
    return this.files.get(key);
  }
}

export function sums(columns) {
  if (!columns.length) return [];
  return columns[0].map((_, at) => columns.reduce((sum, column) => sum + column[at], 0));
}
