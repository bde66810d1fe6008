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

// j and k go through the list of jobs: from the page of one to that of the next, elsewhere from link to link.
function move(by) {
  const links = [...document.querySelectorAll("#siblings .jobs a, #list .jobs a, #builds a, .pipelines a")]
    .filter(link => link.checkVisibility());
  const at = links.findIndex(link => link.hasAttribute("aria-current"));
  const next = links[(at >= 0 ? at : links.indexOf(document.activeElement)) + by];
  if (!next) return;
  if (at >= 0) location.assign(next.href);
  else next.focus();
}

const KEYS = {j: () => move(1), k: () => move(-1)};

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

const current = document.querySelector("#siblings [aria-current]");
if (current) {
  const pane = current.closest("#siblings");
  pane.scrollTop = current.offsetTop - pane.offsetTop - pane.clientHeight / 2;
}
