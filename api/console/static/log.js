// The log view: of a log of any size only the lines in view are in the page.

import {LogSource} from "./log_source.js";
import {LogSearch} from "./log_search.js";
import {Folds} from "./log_folds.js";
import {made, row, setTime, toggle} from "./log_rows.js";
import {parse} from "./log_text.js";

const HEIGHT = 24; // the least that a link needs, and each line has one
const TALLEST = 8_000_000;
const SPARE = 12;
const LEAST = 240;
const BELOW = 14;
const REST = 24; // the least that stays in view beside a word that was found

// Returns ranges of a text in an element, whose parts may be in several elements.
function wordsOf(element, wanted) {
  const nodes = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), starts = [];
  let text = "";
  while (nodes.nextNode()) {
    starts.push([text.length, nodes.currentNode]);
    text += nodes.currentNode.data;
  }
  const lower = text.toLowerCase(), ranges = [];
  if (lower.length !== text.length) return ranges; // a letter whose other case is longer would move all after it
  const put = (range, edge, at, last) => {
    const [start, node] = starts.findLast(([start]) => last ? start < at : start <= at);
    range[edge](node, at - start);
  };
  for (let at = lower.indexOf(wanted); at >= 0 && ranges.length < 100; at = lower.indexOf(wanted, at + wanted.length)) {
    const range = document.createRange();
    put(range, "setStart", at, false);
    put(range, "setEnd", at + wanted.length, true);
    ranges.push(range);
  }
  return ranges;
}

class LogView {
  constructor(place, tools) {
    this.source = new LogSource(place.dataset.log, Number(place.dataset.firstBytes));
    this.folds = new Folds();
    this.top = 0;
    this.following = false;
    this.wrapped = false;
    this.timed = false;
    this.chosen = null;
    this.hits = new Set();
    this.turn = 0;
    this.place = place;
    this.frame = made("div", {className: "log-frame", tabIndex: 0});
    this.frame.setAttribute("role", "region");
    this.frame.setAttribute("aria-label", "Lines of the log");
    this.sizer = made("div", {className: "log-sizer"});
    this.content = made("div", {className: "log-lines"});
    this.title = made("button", {type: "button", className: "fold", tabIndex: -1});
    this.title.addEventListener("click", () => this.goTo(this.folds.place(this.group.first)));
    this.sticky = made("div", {className: "log-sticky", hidden: true}, this.title);
    this.sticky.setAttribute("aria-hidden", "true"); // the group's own line says it
    this.frame.append(this.sticky, this.sizer, this.content);
    this.status = made("p", {className: "small log-status"});
    this.status.setAttribute("role", "status");
    this.addTools(tools);
    this.listen();
  }

  addTools(tools) {
    this.followButton = toggle("Follow", false, on => this.follow(on));
    this.wrapButton = toggle("Wrap lines", false, on => {
      this.wrapped = on;
      this.wrapButton.set(on);
      this.frame.classList.toggle("wrapped", on);
      this.render();
    });
    this.timesButton = toggle("Times", false, on => {
      this.timed = on;
      this.timesButton.set(on);
      this.frame.classList.toggle("timed", on);
      this.render();
    });
    this.copyButton = made("button", {type: "button", className: "tool", textContent: "Copy"});
    this.copyButton.hidden = !navigator.clipboard;
    this.copyButton.addEventListener("click", () => this.copy());
    this.wholeButton = toggle("Full screen", false, on => {
      this.wholeButton.set(on);
      this.place.closest("section").classList.toggle("whole", on);
      this.fit();
    });
    this.search = new LogSearch(this.source, (lines, line) => {
      this.hits = new Set(lines);
      if (line === null) this.render();
      else this.show(line);
    });
    tools.prepend(this.search.form, this.followButton, this.wrapButton, this.timesButton, this.wholeButton, this.copyButton);
  }

  listen() {
    this.frame.addEventListener("scroll", () => this.scrolled());
    this.frame.addEventListener("wheel", event => {
      if (!this.scaled || event.ctrlKey) return;
      event.preventDefault();
      this.goTo(this.top + event.deltaY / HEIGHT);
    }, {passive: false});
    this.frame.addEventListener("keydown", event => {
      const page = this.room - 1;
      const to = {
        ArrowUp: this.top - 1, ArrowDown: this.top + 1, PageUp: this.top - page, PageDown: this.top + page,
        Home: 0, End: this.folds.count,
      }[event.key];
      if (to === undefined || event.target !== this.frame) return;
      event.preventDefault();
      this.goTo(to);
    });
    this.content.addEventListener("click", event => {
      const number = event.target.closest("a.number");
      const fold = event.target.closest("button.fold");
      if (fold) {
        this.folds.toggle(Number(fold.dataset.line));
        this.resize();
        this.render();
      } else if (number) {
        event.preventDefault();
        const line = Number(number.dataset.line);
        const from = event.shiftKey && this.chosen ? this.chosen[0] : line;
        this.choose(Math.min(from, line), Math.max(from, line));
      }
    });
    addEventListener("hashchange", () => this.goToHash());
    addEventListener("resize", () => this.fit());
    document.addEventListener("keydown", event => this.press(event));
    new ResizeObserver(() => {
      this.resize();
      this.render();
    }).observe(this.frame);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const act = {
      f: () => this.source.complete ? this.moveTo(this.last) : this.follow(!this.following),
      t: () => this.timesButton.click(),
      w: () => this.wrapButton.click(),
      "/": () => this.search.field.focus(),
      Escape: () => this.place.closest(".whole") && this.wholeButton.click(),
    }[event.key];
    if (!act) return;
    if (event.key !== "Escape") event.preventDefault();
    act();
  }

  // Makes the frame end where the window does, so that one of them scrolls, not both.
  fit() {
    const top = this.frame.getBoundingClientRect().top + (this.place.closest(".whole") ? 0 : scrollY);
    this.frame.style.height = `${Math.max(LEAST, innerHeight - top - this.status.offsetHeight - BELOW)}px`;
  }

  get room() {
    return Math.max(1, this.frame.clientHeight / HEIGHT);
  }

  get last() {
    return Math.max(0, this.folds.count - this.room);
  }

  get scaled() {
    return this.folds.count * HEIGHT > TALLEST;
  }

  async begin() {
    await this.source.load();
    this.place.replaceChildren(this.frame, this.status);
    this.fit();
    this.followButton.hidden = this.source.complete;
    this.folds.update(this.source.lines, this.source.groups);
    this.resize();
    const fails = this.place.dataset.failed === "yes";
    if (this.source.complete && !location.hash && !(fails && !this.source.more)) this.render();
    await this.source.loadRest(() => {
      this.folds.update(this.source.lines, this.source.groups);
      this.resize();
      this.say();
    });
    if (!this.goToHash()) {
      if (!this.source.complete) this.follow(true);
      else if (fails && this.top === 0) this.moveTo(this.last);
      else this.render();
    }
    this.say();
    await this.source.follow(() => this.grew(), lost => this.lost(lost));
    this.followButton.hidden = true;
    document.body.dispatchEvent(new Event("log:complete"));
    this.say();
  }

  async grew() {
    if (this.source.grewGroups) {
      this.source.grewGroups = false;
      await this.source.reloadGroups();
    }
    this.folds.update(this.source.lines, this.source.groups);
    this.resize();
    this.say();
    if (this.following) this.moveTo(this.last);
    else if (this.top + this.room + SPARE >= this.folds.count - SPARE) this.render();
  }

  lost(yes) {
    if (yes) this.status.textContent = "The connection to the service was lost. The log goes on when it is back.";
    else this.say();
  }

  say() {
    const lines = this.source.lines.toLocaleString("en");
    const text = this.source.size === 0
      ? this.source.complete ? "The log is empty." : "Nothing was written yet."
      : `${lines} lines${this.source.complete && !this.source.more ? "" : " so far"}.`;
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  follow(on) {
    this.following = on;
    this.followButton.set(on);
    if (on) this.moveTo(this.last);
  }

  resize() {
    const height = Math.min(this.folds.count * HEIGHT, TALLEST);
    this.sizer.style.height = `${Math.max(height, this.frame.clientHeight)}px`;
    this.top = Math.min(this.top, this.last);
  }

  // Goes where a person wants to be: a log that grows is followed at its end alone.
  goTo(top) {
    if (!this.source.complete) this.follow(top >= this.last);
    this.moveTo(top);
  }

  moveTo(top) {
    this.top = Math.min(Math.max(0, top), this.last);
    const most = this.sizer.offsetHeight - this.frame.clientHeight;
    const wanted = this.scaled ? this.top / Math.max(1, this.last) * most : this.top * HEIGHT;
    this.expected = Math.round(Math.min(wanted, most));
    this.frame.scrollTop = this.expected;
    this.render();
  }

  scrolled() {
    const {scrollTop} = this.frame;
    if (this.expected !== undefined && Math.abs(scrollTop - this.expected) < 2) {
      this.place_lines();
      return;
    }
    this.expected = undefined;
    const most = Math.max(1, this.sizer.offsetHeight - this.frame.clientHeight);
    this.top = this.scaled ? scrollTop / most * this.last : Math.min(scrollTop / HEIGHT, this.last);
    const atEnd = scrollTop >= most - 2;
    if (this.following && !atEnd) this.follow(false);
    else if (atEnd && !this.source.complete && !this.following) this.follow(true);
    this.render();
  }

  // Puts the first line in view where the frame is scrolled to; at the end the last line is at the bottom.
  place_lines() {
    const {scrollTop, clientHeight} = this.frame;
    const fraction = this.top - Math.floor(this.top);
    const first = this.content.firstElementChild;
    let y = scrollTop - fraction * (first ? first.offsetHeight : HEIGHT);
    if (this.top >= this.last - 0.01 && this.content.offsetHeight > clientHeight) {
      y = scrollTop + clientHeight - this.content.offsetHeight;
    }
    this.content.style.transform = `translateY(${Math.max(0, y)}px)`;
  }

  async render() {
    const turn = ++this.turn;
    const first = Math.floor(this.top);
    const end = Math.min(this.folds.count, first + Math.ceil(this.room) + 1);
    let rows;
    try {
      rows = await Promise.all(Array.from({length: Math.max(0, end - first)}, (_, at) =>
        this.source.line(this.folds.line(first + at))));
    } catch (error) {
      this.status.textContent = `The log cannot be read: ${error.message}.`;
      return;
    }
    if (turn !== this.turn) return;
    let style;
    const lines = rows.map(row => {
      const parsed = parse(row.bytes, style);
      style = parsed.style;
      return this.row(row, parsed.pieces);
    });
    this.content.replaceChildren(...lines);
    this.place_lines();
    this.nameGroup(first);
    this.mark(lines);
    if (this.timed) await this.addTimes(rows, lines);
  }

  // Keeps the title of the group in view whose first line is above.
  nameGroup(place) {
    this.group = this.folds.around(this.folds.line(place));
    this.sticky.hidden = !this.group;
    if (this.group) this.title.textContent = this.group.title || "Group";
  }

  // Marks the words that were found, and brings that of the current line into view if it is to the right.
  mark(lines) {
    if (!window.CSS?.highlights) return;
    CSS.highlights.delete("found");
    const wanted = this.search.text.toLowerCase();
    if (!wanted) return;
    const ranges = [];
    for (const line of lines) {
      if (!this.hits.has(Number(line.id.slice(1)) - 1)) continue;
      const found = wordsOf(line.querySelector(".text"), wanted);
      if (line.classList.contains("current") && found.length) this.bring(found[0].getBoundingClientRect());
      ranges.push(...found);
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }

  bring(word) {
    const frame = this.frame.getBoundingClientRect();
    if (word.right > frame.right - REST) this.frame.scrollLeft += word.right - frame.right + frame.width / 3;
    else if (word.left < frame.left + REST) this.frame.scrollLeft -= frame.left - word.left + frame.width / 3;
  }

  row(line, pieces) {
    const {number} = line;
    const chosen = this.chosen && number >= this.chosen[0] && number <= this.chosen[1];
    const classes = Object.entries({chosen, hit: this.hits.has(number), current: this.search.current === number});
    const marks = classes.filter(([, applies]) => applies).map(([name]) => name);
    return row(line, pieces, marks, this.folds.group(number), this.folds.isFolded(number));
  }

  async addTimes(rows, lines) {
    if (rows.length === 0) return;
    const turn = this.turn;
    const times = await this.source.times(rows[0].start, rows.at(-1).end + 1);
    if (turn !== this.turn) return;
    rows.forEach((row, at) => {
      const written = times.find(([end]) => end > row.start);
      if (written) setTime(lines[at], written[1]);
    });
  }

  choose(first, last) {
    this.chosen = [first, last];
    history.replaceState(null, "", first === last ? `#L${first + 1}` : `#L${first + 1}-L${last + 1}`);
    this.render();
  }

  show(line) {
    this.folds.reveal(line);
    this.resize();
    this.follow(false);
    this.moveTo(this.folds.place(line) - Math.floor(this.room / 3));
  }

  goToHash() {
    const found = /^#L(\d{1,12})(?:-L(\d{1,12}))?$/.exec(location.hash);
    if (!found) return false;
    const [first, last] = [Number(found[1]) - 1, Number(found[2] ?? found[1]) - 1];
    this.chosen = [first, last];
    this.show(Math.max(0, Math.min(first, this.source.lines - 1)));
    return true;
  }

  async copy() {
    const [first, last] = this.chosen ?? [Math.floor(this.top), Math.floor(this.top + this.room) - 1].map(
      each => this.folds.line(Math.min(each, this.folds.count - 1)));
    const end = Math.min(last, first + 9999, this.source.lines - 1);
    const texts = [];
    for (let line = first; line <= end; line++) {
      texts.push(parse((await this.source.line(line)).bytes).pieces.map(piece => piece.text).join(""));
    }
    await navigator.clipboard.writeText(`${texts.join("\n")}\n`);
    this.status.textContent = `Copied lines ${first + 1} to ${end + 1}.`;
  }
}

const place = document.getElementById("log");
new LogView(place, document.getElementById("log-tools")).begin().catch(error => {
  place.prepend(Object.assign(document.createElement("p"), {className: "fault", textContent: `${error.message}.`}));
});
