// What changes on an open page by itself: clocks, the states in the graph, what a screen reader says, and the note that
// the connection was lost. The HTML of changes comes from the service.

function inWords(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [unit, name, part, partName] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
    if (whole >= unit) return `${Math.floor(whole / unit)} ${name} ${Math.floor(whole % unit / part)} ${partName}`;
  }
  return `${whole} s`;
}

function tick() {
  for (const clock of document.querySelectorAll(".clock")) {
    const text = inWords((Date.now() - Date.parse(clock.dataset.since)) / 1000);
    if (clock.textContent !== text) clock.textContent = text;
  }
}

// How many of some states have each sign, the worst first, as the service writes it.
function inSigns(states, looks) {
  const counts = new Map();
  for (const [state, sign] of looks) {
    const number = states.filter(each => each === state).length;
    if (number) counts.set(sign, (counts.get(sign) ?? 0) + number);
  }
  return [...counts].map(([sign, number]) => `${sign} ${number}`).join("  ");
}

function setStates(changed) {
  const nodes = document.querySelectorAll("[data-jobs]");
  const looks = nodes.length ? JSON.parse(nodes[0].closest("[data-looks]").dataset.looks) : [];  // the worst first
  for (const node of nodes) {
    const jobs = node.dataset.jobs.split(" ");
    if (!jobs.some(job => job in changed)) continue;
    const states = (node.dataset.states ?? node.dataset.state).trim().split(" ");
    jobs.forEach((job, place) => { states[place] = changed[job] ?? states[place]; });
    if (node.dataset.states) node.dataset.states = states.join(" ");
    [node.dataset.state, node.querySelector(".sign").textContent, node.dataset.tone] =
      looks.find(([state]) => states.includes(state));
    const counts = node.querySelector(".counts");
    if (counts) counts.textContent = inSigns(states, looks);
    const name = node.getAttribute("aria-label").replace(/: [^:]*$/, "");
    node.setAttribute("aria-label", `${name}: ${node.dataset.state.replace("_", " ")}`);
  }
}

// A page that shows the jobs that failed asks for them again.
function tellOfFailures(changed) {
  if (Object.values(changed).some(state => ["failed", "timed_out"].includes(state))) document.body.dispatchEvent(new Event("failed"));
}

// The title and the icon of a tab have the state of its build.
function entitle() {
  const state = document.querySelector("#build-state .state");
  if (!state || document.title.startsWith(`${state.dataset.sign} `)) return;
  document.title = document.title.replace(/^\S+ /, `${state.dataset.sign} `);
  const icon = document.querySelector("link[rel=icon]");
  icon.href = `${icon.href.split("#")[0]}#${state.dataset.tone}`;
}

function announce() {
  const summary = document.getElementById("summary");
  const announcement = document.getElementById("announcement");
  if (!summary || !announcement || announcement.dataset.state === summary.dataset.state) return;
  if (announcement.dataset.state) announcement.textContent = summary.dataset.said;
  announcement.dataset.state = summary.dataset.state;
}

// Each element replaces the one with its id. htmx could do so, but it tells of every element once for each that follows,
// which takes minutes in a build of a thousand jobs.
function replaceChanged(html) {
  const made = document.createElement("template");
  made.innerHTML = html;
  for (const each of [...made.content.children]) {
    const old = document.getElementById(each.id);
    const focused = old?.contains(document.activeElement);
    old?.replaceWith(each);
    if (focused) (each.querySelector("a") ?? each).focus();
  }
  tick();
  entitle();
  announce();
}

function connected(yes) {
  const note = document.getElementById("connection");
  if (note) note.hidden = yes;
}

document.addEventListener("sse:states", event => {
  const changed = JSON.parse(event.detail.data);
  setStates(changed);
  tellOfFailures(changed);
});
document.addEventListener("sse:changes", event => replaceChanged(event.detail.data));
document.addEventListener("htmx:afterSettle", () => { tick(); connected(true); });
document.addEventListener("htmx:sseOpen", () => connected(true));
document.addEventListener("htmx:sseError", () => connected(false));
document.addEventListener("htmx:sendError", () => connected(false));
announce();
tick();
setInterval(tick, 1000);
