// The samples of a profile on a module by one metric: each kernel's share, the places with samples, and what lies elsewhere.

import { sums } from "./heat.js";

export const ALL = -1;

export class Profile {
  // kernels: {object, name, section_index, offset, size}; one without a name is all code of its object.
  constructor(samples, kernels, metric) {
    this.metric = metric;
    this.total = this.#of(samples?.metrics.map((each) => each.total) ?? []);
    this.shares = new Map(kernels.map((each) => [each, 0]));
    this.places = [];
    this.elsewhere = [];
    if (!this.total) return;
    for (const each of samples.objects) this.#place(each, kernels.filter((kernel) => kernel.object === each.object));
    this.places.sort((a, b) => b.value - a.value);
    const left = Object.entries(samples.left).map(([reason, row]) => ({ reason, share: this.#of(row) / this.total }));
    const known = [...this.shares.values(), ...left.map((each) => each.share)].reduce((sum, share) => sum + share, 0);
    this.elsewhere = [...left, { reason: "OTHER_CODE", share: 1 - known }].filter(({ share }) => share > 1e-9);
  }

  #of(row) {
    return this.metric === ALL ? row.reduce((sum, each) => sum + each, 0) : (row[this.metric] ?? 0);
  }

  #place({ section_index: section, offset, values }, kernels) {
    const column = this.metric === ALL ? sums(values) : values[this.metric];
    const order = [...offset.keys()].sort((a, b) => section[a] - section[b] || offset[a] - offset[b]);
    // The first of the ordered samples that lies at a place or behind it.
    const begin = (index, at) => {
      let low = 0;
      let high = order.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if ((section[order[middle]] - index || offset[order[middle]] - at) < 0) low = middle + 1;
        else high = middle;
      }
      return low;
    };
    const seen = new Set();
    for (const kernel of kernels) {
      const whole = kernel.name === null;
      const first = whole ? 0 : begin(kernel.section_index, kernel.offset);
      const end = whole ? order.length : begin(kernel.section_index, kernel.offset + kernel.size);
      let sum = 0;
      for (const at of order.slice(first, end)) {
        sum += column[at];
        if (column[at] > 0 && !seen.has(at)) this.places.push({ kernel, section: section[at], offset: offset[at], value: column[at] });
        seen.add(at);
      }
      this.shares.set(kernel, sum / this.total);
    }
  }
}
