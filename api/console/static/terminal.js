// A terminal on a fork of a job's disk. What it shows comes as a stream of events, each with the number of its last byte; what
// is typed goes in small requests, each with the number of its first byte, one after the other. So after a lost connection,
// and a restart of the service, both go on where they were, and nothing is shown or typed twice.

// The stream is asked for first, and xterm.js is loaded meanwhile.

import "./terminal_styles.js";

const MOST_WAITING = 1 << 20;
const PART_BYTES = 12 * 1024;
const AGAIN_MS = 1000, FULL_MS = 100, RESIZE_MS = 100;

const frame = document.getElementById("terminal");
const status = document.getElementById("terminal-status");
const {here, formToken} = frame.dataset;

function colours() {
  const probe = document.createElement("span");
  frame.append(probe);
  const colour = name => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
  const theme = {background: colour("log"), foreground: colour("text"), cursor: colour("accent"), selectionBackground: colour("control")};
  names.forEach((name, number) => {
    theme[name] = colour(`c${number}`);
    theme[`bright${name[0].toUpperCase()}${name.slice(1)}`] = colour(`c${number + 8}`);
  });
  probe.remove();
  return theme;
}

let terminal = null;
let over = false;

function say(text) {
  status.textContent = text;
}

function end(text) {
  over = true;
  stream?.close();
  terminal.options.disableStdin = true;
  terminal.options.cursorBlink = false;
  say(text);
  document.getElementById("terminal-open").hidden = true;
  document.getElementById("terminal-over").hidden = false;
}

class Refused extends Error {
  constructor(answer) {
    super(`status ${answer.status}`);
    this.status = answer.status;
  }
}

async function post(what, fields) {
  const body = new URLSearchParams({form_token: formToken, ...fields});
  const answer = await fetch(`${here}/${what}`, {method: "POST", body, redirect: "manual"});
  if (!answer.ok) throw new Refused(answer);
  return answer.status === 204 ? null : answer.json();
}

const isFinal = error => error instanceof Refused && error.status < 500 && error.status !== 429;
const pause = ms => new Promise(done => setTimeout(done, ms));

// What was typed and not taken yet; `typed` is the number of its first byte, null until the service has told.
let waiting = new Uint8Array(0);
let typed = null;
let sending = false;

function takenUpTo(number) {
  typed ??= number;
  if (number <= typed) return;
  waiting = waiting.subarray(Math.min(waiting.length, number - typed));
  typed = number;
}

async function send() {
  if (sending) return;
  sending = true;
  while (!over && typed !== null && waiting.length) {
    const part = waiting.subarray(0, PART_BYTES), at = typed;
    try {
      takenUpTo((await post("input", {at, data: btoa(String.fromCharCode(...part))})).typed);
      if (typed < at + part.length) await pause(FULL_MS);
    } catch (error) {
      if (isFinal(error) && error.status !== 410) end("You are not signed in any more, or may not type here.");
      else if (!over) await pause(AGAIN_MS);
    }
  }
  sending = false;
}

function type(bytes) {
  if (over || waiting.length + bytes.length > MOST_WAITING) return;
  const all = new Uint8Array(waiting.length + bytes.length);
  all.set(waiting);
  all.set(bytes, waiting.length);
  waiting = all;
  send();
}

let told = "";
let telling = null;

async function tellSize() {
  const {cols: columns, rows} = terminal, size = `${columns} ${rows}`;
  if (over || size === told) return;
  told = size;
  try {
    await post("size", {columns, rows});
  } catch {
    told = "";
  }
}

// As in events.js, a tab that is not seen holds no stream: a browser has few connections for all of its tabs.
let stream = null;
let last = "";

const bytesOf = text => Uint8Array.from(atob(text), each => each.charCodeAt(0));

function look() {
  if (over || stream || document.hidden) return;
  const own = stream = new EventSource(`${here}/output?last_event_id=${last}`);
  const on = (name, act) => own.addEventListener(name, async event => {
    await ready;
    if (own !== stream) return;
    if (event.lastEventId) last = event.lastEventId;
    act(event.data);
  });
  on("begin", data => {
    say("Connected");
    takenUpTo(JSON.parse(data).typed);
    told = "";
    tellSize();
    send();
  });
  on("output", data => terminal.write(bytesOf(data)));
  on("lost", data => terminal.write(`\r\n\x1b[2m[${JSON.parse(data).left_out} bytes are left out]\x1b[m\r\n`));
  on("exit", data => end(`The shell has ended with exit code ${JSON.parse(data).exit_code}.`));
  on("end", data => end(`The terminal has ended: ${JSON.parse(data).why}.`));
  on("replaced", () => {
    drop();
    over = true;
    say("This terminal is shown in another tab. Reload this page to show it here.");
  });
  own.onerror = () => {
    if (own !== stream) return;
    drop(); // and not the browser's own next try, which would begin where this stream did
    say("The connection is lost; trying again.");
    setTimeout(look, AGAIN_MS);
  };
}

function drop() {
  stream?.close();
  stream = null;
}

// What a program prints may be an attack: it sets no title, reads and writes no clipboard, and opens no link.
async function show() {
  const [{Terminal}, {FitAddon}] = await Promise.all([import("./xterm.min.js"), import("./xterm_fit.min.js")]);
  terminal = new Terminal({
    cursorBlink: true,
    fontFamily: getComputedStyle(frame).fontFamily,
    fontSize: 13,
    linkHandler: {activate() {}},
    scrollback: 5000,
    theme: colours(),
  });
  const fit = new FitAddon(), encoder = new TextEncoder();
  terminal.loadAddon(fit);
  terminal.open(frame);
  fit.fit();
  terminal.onData(text => type(encoder.encode(text)));
  terminal.onBinary(text => type(Uint8Array.from(text, each => each.charCodeAt(0))));
  terminal.onResize(() => {
    clearTimeout(telling);
    telling = setTimeout(tellSize, RESIZE_MS);
  });
  new ResizeObserver(() => fit.fit()).observe(frame);
  const paint = () => { terminal.options.theme = colours(); };
  document.addEventListener("theme", paint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  terminal.focus();
}

let ready = null;
document.addEventListener("visibilitychange", () => document.hidden ? drop() : look());
look();
ready = show();
