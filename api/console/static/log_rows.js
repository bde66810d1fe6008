// The elements of the log view: its tools, and a row for each line in view.

import {element} from "./log_text.js";

const MARK = /^::(?:end)?group::/;

export function made(name, properties = {}, ...content) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...content);
  return made;
}

export function toggle(text, pressed, act) {
  const button = made("button", {type: "button", className: "tool", textContent: text});
  const set = on => button.setAttribute("aria-pressed", on);
  set(pressed);
  button.addEventListener("click", () => act(button.getAttribute("aria-pressed") !== "true"));
  return Object.assign(button, {set});
}

function inWords(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const [unit, name, part, partName] = whole < 3600 ? [60, "min", 1, "s"] : [3600, "h", 60, "min"];
  const rest = Math.floor(whole % unit / part);
  return `${Math.floor(whole / unit)} ${name}${rest ? ` ${rest} ${partName}` : ""}`;
}

function heading(number, group, folded) {
  const button = made("button", {type: "button", className: "fold", textContent: group.title || "Group"});
  button.dataset.line = number;
  button.setAttribute("aria-expanded", !folded);
  if (group.seconds !== null) button.append(made("span", {className: "seconds", textContent: inWords(group.seconds)}));
  return button;
}

// Returns the row of a line; classes mark it, and a group's first line folds it.
export function row({number, cut}, pieces, classes, group, folded) {
  const link = made("a", {className: "number", href: `#L${number + 1}`, textContent: number + 1});
  link.dataset.line = number;
  link.setAttribute("aria-label", `Line ${number + 1}`);
  const text = made("span", {className: "text"});
  if (group) text.append(heading(number, group, folded));
  else if (!(pieces.length && MARK.test(pieces[0].text))) text.append(...pieces.map(element));
  if (cut) text.append(made("em", {textContent: ` … ${cut.toLocaleString("en")} bytes of this line are not shown`}));
  const line = made("div", {className: ["line", ...classes].join(" "), id: `L${number + 1}`});
  line.append(link, made("time", {className: "at"}), text);
  return line;
}

export function setTime(line, milliseconds) {
  const when = new Date(milliseconds).toISOString();
  const time = line.querySelector("time");
  time.textContent = when.slice(11, 23);
  time.dateTime = when;
}
