// A log by line, read in blocks of bytes as they are needed. Its memory does not grow with the log, but for one number a
// block.

const BLOCKS = 64;
const LONGEST = 32768;
const FOLLOWED = 2 ** 20;
const WAIT_SECONDS = 25;

export class Gone extends Error {}

async function seen() {
  while (document.hidden) await new Promise(done => document.addEventListener("visibilitychange", done, {once: true}));
}

async function answered(response) {
  if (response.ok) return response;
  let message = `the service answered ${response.status}`;
  try {
    message = (await response.json()).error.message;
  } catch { /* not an envelope of ours */ }
  throw new Gone(message);
}

export class LogSource {
  // Of a log that has ended the first block, of so many bytes, is fetched beside the outline: it is seen first.
  constructor(url, firstBytes) {
    this.url = url;
    this.size = 0;
    this.complete = false;
    this.groups = [];
    this.before = [0];
    this.blocks = new Map();
    if (firstBytes > 0) this.keep(0, 0, firstBytes);
  }

  async load() {
    const outline = await (await answered(await fetch(`${this.url}/outline`))).json();
    this.block = outline.block;
    this.size = outline.size;
    this.complete = outline.complete;
    this.groups = outline.groups;
    this.before = [0];
    for (const count of outline.newlines) this.before.push(this.before.at(-1) + count);
    this.endsInBreak = outline.ends_in_break;
    this.more = outline.more;
  }

  async reloadGroups() {
    this.groups = (await (await answered(await fetch(`${this.url}/outline`))).json()).groups;
  }

  // Loads the rest of a long log's outline, and tells of each part.
  async loadRest(grew) {
    while (this.more) {
      await this.load();
      grew();
    }
  }

  get lines() {
    return this.size === 0 ? 0 : this.before.at(-1) + (this.endsInBreak ? 0 : 1);
  }

  // A block's bytes, and where its line breaks are. The last block grows, so it is kept with its length.
  async read(number) {
    const start = number * this.block, end = Math.min(start + this.block, this.size);
    const known = this.blocks.get(number);
    if (known && known.end === end) {
      this.blocks.delete(number);
      this.blocks.set(number, known);
      return known.content;
    }
    return this.keep(number, start, end);
  }

  keep(number, start, end) {
    const content = this.fetchBlock(start, end);
    this.blocks.set(number, {end, content});
    content.catch(() => this.blocks.delete(number));
    while (this.blocks.size > BLOCKS) this.blocks.delete(this.blocks.keys().next().value);
    return content;
  }

  async fetchBlock(start, end) {
    const response = await answered(await fetch(this.url, {headers: {Range: `bytes=${start}-${end - 1}`}}));
    const bytes = new Uint8Array(await response.arrayBuffer());
    const breaks = [];
    for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) breaks.push(at);
    return {bytes, breaks};
  }

  async bytes(start, end) {
    const parts = [];
    for (let at = start; at < end;) {
      const number = Math.floor(at / this.block);
      const {bytes} = await this.read(number);
      const part = bytes.subarray(at - number * this.block, end - number * this.block);
      if (part.length === 0) break;
      parts.push(part);
      at += part.length;
    }
    if (parts.length === 1) return parts[0];
    const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  // The offset at which a line begins.
  async start(line) {
    if (line === 0) return 0;
    if (line > this.before.at(-1)) return this.size;
    let low = 0, high = this.before.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.before[middle + 1] >= line) high = middle;
      else low = middle + 1;
    }
    const {breaks} = await this.read(low);
    return low * this.block + breaks[line - this.before[low] - 1] + 1;
  }

  async line(number) {
    const start = await this.start(number);
    const next = await this.start(number + 1);
    const end = number < this.before.at(-1) ? next - 1 : this.size;
    if (end - start <= LONGEST) return {number, start, end, bytes: await this.bytes(start, end), cut: 0};
    const last = await this.bytes(end - LONGEST, end);
    const bytes = last.includes(13) ? last : await this.bytes(start, start + LONGEST);
    return {number, start, end, bytes, cut: end - start - LONGEST};
  }

  async search(text) {
    return (await answered(await fetch(`${this.url}/search?q=${encodeURIComponent(text)}`))).json();
  }

  async times(first, end) {
    return (await (await answered(await fetch(`${this.url}/times?first=${first}&end=${end}`))).json()).times;
  }

  // Waits for more, and tells of it, until the log is complete; while its tab is not seen, it holds none of the few
  // connections that a browser opens for all of its tabs.
  async follow(grew, lost) {
    while (!this.complete) {
      await seen();
      const waiting = new AbortController(), end = () => waiting.abort();
      document.addEventListener("visibilitychange", end);
      try {
        const headers = {Range: `bytes=${this.size}-${this.size + FOLLOWED - 1}`};
        const response = await fetch(`${this.url}?wait=${WAIT_SECONDS}`, {headers, signal: waiting.signal});
        const complete = response.headers.get("X-Log-Complete") === "true";
        if (response.status === 416) {
          this.complete = complete;
        } else {
          this.append(new Uint8Array(await (await answered(response)).arrayBuffer()));
        }
        lost(false);
        await grew();
      } catch (error) {
        if (error instanceof Gone) throw error;
        if (error.name === "AbortError") continue;
        lost(true);
        await new Promise(done => setTimeout(done, 2000));
      } finally {
        document.removeEventListener("visibilitychange", end);
      }
    }
  }

  append(bytes) {
    let breaks = 0;
    for (let at = 0; at < bytes.length; at++) {
      const number = Math.floor((this.size + at) / this.block);
      while (this.before.length < number + 2) this.before.push(this.before.at(-1));
      if (bytes[at] === 10) {
        this.before[number + 1]++;
        breaks++;
      }
    }
    this.size += bytes.length;
    this.endsInBreak = bytes.at(-1) === 10;
    this.grewGroups ||= breaks > 0 && new TextDecoder().decode(bytes).includes("group::");
  }
}
