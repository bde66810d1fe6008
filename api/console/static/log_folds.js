// Groups of lines that are folded: between the numbers of lines, and their places in what is shown.

export class Folds {
  constructor() {
    this.lines = 0;
    this.groups = new Map();
    this.chosen = new Map();
    this.hidden = [];
    this.count = 0;
  }

  // A group that has ended is folded at first, but for the last one.
  update(lines, groups) {
    this.lines = lines;
    this.groups = new Map(groups.map(group => [group.first, group]));
    this.lastGroup = groups.at(-1)?.first;
    this.measure();
  }

  group(line) {
    return this.groups.get(line);
  }

  isFolded(line) {
    const group = this.groups.get(line);
    if (!group || group.last === null) return false;
    return this.chosen.get(line) ?? line !== this.lastGroup;
  }

  // The innermost group that began before a line and has not ended there.
  around(line) {
    let found = null;
    for (const group of this.groups.values()) {
      if (group.first < line && (group.last === null || line <= group.last) && (!found || group.first > found.first)) found = group;
    }
    return found;
  }

  toggle(line) {
    this.chosen.set(line, !this.isFolded(line));
    this.measure();
  }

  reveal(line) {
    for (const group of this.groups.values()) {
      if (group.first < line && group.last !== null && line <= group.last) this.chosen.set(group.first, false);
    }
    this.measure();
  }

  // Hidden ranges in order, none within another, each with how many lines are hidden up to its end.
  measure() {
    this.hidden = [];
    let end = -1, sum = 0;
    for (const group of [...this.groups.values()].sort((a, b) => a.first - b.first)) {
      if (!this.isFolded(group.first) || group.last <= end) continue;
      end = Math.min(group.last, this.lines - 1);
      sum += end - group.first;
      this.hidden.push({first: group.first + 1, last: end, sum});
    }
    this.count = this.lines - sum;
  }

  // The number of the line at a place.
  line(place) {
    let low = 0, high = this.hidden.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const {first, last, sum} = this.hidden[middle];
      if (first - (sum - (last - first + 1)) <= place) low = middle + 1;
      else high = middle;
    }
    return place + (low ? this.hidden[low - 1].sum : 0);
  }

  // The place of a line that is not hidden.
  place(line) {
    let sum = 0;
    for (const range of this.hidden) {
      if (range.first > line) break;
      sum = range.sum;
    }
    return line - sum;
  }
}
