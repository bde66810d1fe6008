// The bytes of a line as pieces of text with styles: SGR colours (16, 256 and true), carriage returns and backspaces as a
// terminal shows them. Other escape sequences are dropped. Everything stays text.

const decoder = new TextDecoder();
const SEQUENCE = /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]|[\x00-\x08\x0b-\x1f\x7f]/g;
const CUBE = [0, 95, 135, 175, 215, 255];

export const PLAIN = Object.freeze({});

// The background of inverse text without a colour of its own: the colour of plain text.
const TEXT = "text";

function indexed(number) {
  if (number < 16) return number;
  if (number > 231) return `rgb(${Array(3).fill(8 + 10 * (number - 232)).join(" ")})`;
  const cube = number - 16;
  return `rgb(${[Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map(each => CUBE[each]).join(" ")})`;
}

// Returns a colour, a number below 16 or a CSS colour, and how many codes it took; null for what is none.
function extended(codes) {
  const [kind, ...rest] = codes;
  if (kind === 5 && rest[0] >= 0 && rest[0] < 256) return [indexed(rest[0]), 2];
  if (kind === 2 && rest.length >= 3 && rest.slice(0, 3).every(each => each >= 0 && each < 256)) {
    return [`rgb(${rest.slice(0, 3).join(" ")})`, 4];
  }
  return null;
}

function changed(style, parameters) {
  const codes = parameters.split(/[;:]/).map(code => Number(code || 0));
  let next = {...style};
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at];
    if (code === 0) next = {};
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 7) next.inverse = true;
    else if (code === 9) next.strike = true;
    else if (code === 22) next.bold = next.dim = false;
    else if (code === 23) next.italic = false;
    else if (code === 24) next.underline = false;
    else if (code === 27) next.inverse = false;
    else if (code === 29) next.strike = false;
    else if (code >= 30 && code <= 37) next.color = code - 30;
    else if (code === 39) delete next.color;
    else if (code >= 40 && code <= 47) next.back = code - 40;
    else if (code === 49) delete next.back;
    else if (code >= 90 && code <= 97) next.color = code - 82;
    else if (code >= 100 && code <= 107) next.back = code - 92;
    else if (code === 38 || code === 48) {
      const found = extended(codes.slice(at + 1));
      if (!found) break;
      next[code === 38 ? "color" : "back"] = found[0];
      at += found[1];
    }
  }
  return next;
}

class Row {
  constructor() {
    this.cells = [];
    this.at = 0;
  }

  write(text, style) {
    for (const character of text) this.cells[this.at++] = [character, style];
  }

  erase(mode) {
    if (mode === "" || mode === "0") this.cells.length = Math.min(this.cells.length, this.at);
    else if (mode === "2") this.cells = [];
  }

  pieces() {
    const pieces = [];
    for (let at = 0; at < this.cells.length; at++) {
      const [character, style] = this.cells[at] ?? [" ", PLAIN];
      const last = pieces.at(-1);
      if (last && last.style === style) last.text += character;
      else pieces.push({text: character, style});
    }
    return pieces;
  }
}

// Returns the pieces of a line, and the style in which the next line begins.
export function parse(bytes, style = PLAIN) {
  const text = decoder.decode(bytes);
  if (!/[\x00-\x08\x0b-\x1f\x7f]/.test(text)) return {pieces: text ? [{text, style}] : [], style};
  const moves = /[\r\b]/.test(text.replace(/\r$/, ""));
  const row = new Row();
  const pieces = [];
  const put = part => {
    if (part === "") return;
    if (moves) row.write(part, style);
    else pieces.push({text: part, style});
  };
  let from = 0;
  for (const found of text.matchAll(SEQUENCE)) {
    put(text.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[2] === "m") style = changed(style, found[1]);
    else if (found[2] === "K" && moves) row.erase(found[1]);
    else if (found[0] === "\r") row.at = 0;
    else if (found[0] === "\b") row.at = Math.max(0, row.at - 1);
  }
  put(text.slice(from));
  return {pieces: moves ? row.pieces() : pieces, style};
}

// The relative luminance of a CSS colour of whole numbers, from 0 to 1.
function luminance(color) {
  const [red, green, blue] = color.match(/\d+/g).map(each => (each / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// White is read on colours of less luminance, black on the others.
const MIDDLE = 0.18;
const DARK = new Set([0, 1, 2, 3, 4, 5, 6, 8]);

function ground(back) {
  if (back === TEXT) return "on-text";
  return (typeof back === "number" ? DARK.has(back) : luminance(back) < MIDDLE) ? "on-dark" : "on-light";
}

function paint(span, color, back) {
  if (back !== undefined) span.classList.add(ground(back));
  if (typeof back === "number") span.classList.add(`bg-${back}`);
  else if (back && back !== TEXT) span.style.backgroundColor = back;
  if (typeof color === "number") {
    span.classList.add(`fg-${color}`);
  } else if (color) {
    span.style.color = color;
    span.style.setProperty("--own", color);
    if (back === undefined) span.classList.add("own");
  }
}

const ADDRESS = /https?:\/\/[^\s<>"'`|\\]{1,1000}/g;
const AFTER = /[.,;:!?)\]}]+$/; // ends a sentence, or brackets, rather than an address

function link(address) {
  return Object.assign(document.createElement("a"), {href: address, textContent: address, target: "_blank", rel: "noopener noreferrer nofollow"});
}

// Puts text into an element, with its addresses as links.
function fill(span, text) {
  let from = 0;
  for (const found of text.matchAll(ADDRESS)) {
    const address = found[0].replace(AFTER, "");
    if (!URL.canParse(address)) continue;
    span.append(text.slice(from, found.index), link(address));
    from = found.index + address.length;
  }
  span.append(text.slice(from));
}

export function element({text, style}) {
  const span = document.createElement("span");
  fill(span, text);
  for (const name of ["bold", "dim", "italic", "underline", "strike"]) if (style[name]) span.classList.add(name);
  if (style.inverse) paint(span, style.back, style.color ?? TEXT);
  else paint(span, style.color, style.back);
  return span;
}
