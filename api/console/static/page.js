// What every page does besides reading: menus that close, and the theme without a new page.

const menus = () => document.querySelectorAll("details.menu[open]");

document.addEventListener("click", event => {
  for (const menu of menus()) if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("keydown", event => {
  if (event.key !== "Escape") return;
  for (const menu of menus()) {
    const within = menu.contains(document.activeElement);
    menu.open = false;
    if (within) menu.querySelector("summary").focus();
  }
});

// The form works without this; with it the page stays, and what was typed into it.
document.querySelector("form.theme").addEventListener("submit", event => {
  event.preventDefault();
  const {currentTarget: form, submitter: chosen} = event;
  const system = chosen.value === "system";
  if (system) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen.value;
  document.querySelector("meta[name=color-scheme]").content = system ? "light dark" : chosen.value;
  for (const each of form.elements) if (each.name === "theme") each.setAttribute("aria-pressed", each === chosen);
  document.dispatchEvent(new Event("theme"));
  fetch(`${form.getAttribute("action")}?theme=${chosen.value}`, {redirect: "manual"});
});

const RECENT_SECONDS = 7 * 86400;

// A time as people say it: "5 min ago", "in 3 h", after a week the day.
function said(time) {
  const seconds = Math.round((Date.now() - time) / 1000), far = Math.abs(seconds);
  if (far >= RECENT_SECONDS) return time.toLocaleDateString(undefined, {day: "numeric", month: "short", year: "numeric"});
  if (far < 45) return seconds >= 0 ? "just now" : "in a moment";
  const [unit, name] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([unit]) => far >= unit) ?? [60, "min"];
  const count = `${Math.round(far / unit)} ${name}`;
  return seconds > 0 ? `${count} ago` : `in ${count}`;
}

function sayTimes() {
  for (const element of document.querySelectorAll("main time[datetime]:not(.at)")) {
    const time = new Date(element.dateTime);
    if (!element.title) {
      const zone = {dateStyle: "full", timeStyle: "long"};
      element.title = `${time.toLocaleString(undefined, zone)}, ${element.textContent}`;
    }
    const text = said(time);
    if (element.textContent !== text) element.textContent = text;
  }
}

sayTimes();
setInterval(sayTimes, 20_000);
document.addEventListener("htmx:afterSettle", sayTimes);

// j and k go through the list of jobs: from the page of one to that of the next, elsewhere from link to link.
function move(by) {
  const links = [...document.querySelectorAll("#siblings .jobs a, #list .jobs a, #builds li > a, .pipelines a")]
    .filter(link => link.checkVisibility());
  const at = links.findIndex(link => link.hasAttribute("aria-current"));
  const next = links[(at >= 0 ? at : links.indexOf(document.activeElement)) + by];
  if (!next) return;
  if (at >= 0) location.assign(next.href);
  else next.focus();
}

const WORDS = {
  "?": "this list", j: "the next job, build or pipeline", k: "the one before", g: "then h: home", "/": "search everything; in a log, the log", "⌘K, Ctrl K": "search everything",
};
const LOG_WORDS = {f: "follow the log, or go to its end", t: "times of lines", w: "wrap lines", Esc: "leave the full screen"};

function listKeys() {
  const list = document.createElement("dl");
  for (const [key, words] of Object.entries({...WORDS, ...document.getElementById("log") ? LOG_WORDS : {}})) {
    const [term, meaning] = [document.createElement("dt"), document.createElement("dd")];
    term.append(Object.assign(document.createElement("kbd"), {textContent: key}));
    meaning.textContent = words;
    list.append(term, meaning);
  }
  const dialog = document.createElement("dialog");
  dialog.className = "keys";
  dialog.setAttribute("aria-labelledby", "keys-heading");
  const close = Object.assign(document.createElement("button"), {textContent: "Close"});
  close.addEventListener("click", () => dialog.close());
  dialog.append(Object.assign(document.createElement("h2"), {id: "keys-heading", textContent: "Keys"}), list, close);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

let wentAt = -Infinity;

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  "?": listKeys,
  g: () => { wentAt = performance.now(); },
  h: () => { if (performance.now() - wentAt < 1500) location.assign(document.querySelector("a.brand").href); },
  "/": () => document.getElementById("log") ? document.querySelector("main input[type=search]")?.focus() : find(),
};

// One search box, in the header. A log's own box takes "/" before this.
function find() {
  const box = document.querySelector(".find input");
  box?.focus();
  box?.select();
}

document.addEventListener("keydown", event => {
  if (event.key !== "k" || event.altKey || event.shiftKey || event.ctrlKey === event.metaKey) return;
  if (!document.querySelector(".find input") || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  find();
});

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const act = KEYS[event.key];
  if (!act || event.defaultPrevented || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  act();
});

const current = document.querySelector("#siblings [aria-current]");
if (current) {
  const pane = current.closest("#siblings");
  pane.scrollTop = current.offsetTop - pane.offsetTop - pane.clientHeight / 2;
}
