// Pan and zoom of the graph, by pointer, wheel, keys and buttons. Without this script the graph scrolls.

const STEP = 60;
const FACTOR = 1.25;
const LEAST = 0.05, LEAST_WHOLE = 0.33, READABLE = 0.8, MOST = 4;

function button(text, act) {
  const made = Object.assign(document.createElement("button"), {type: "button", className: "tool", textContent: text});
  made.addEventListener("click", act);
  return made;
}

function start(frame) {
  const svg = frame.querySelector("svg");
  const whole = svg.viewBox.baseVal;
  const size = {width: whole.width, height: whole.height};
  let scale = 1, x = 0, y = 0;
  const fitting = () => Math.min(1, frame.clientWidth / size.width, frame.clientHeight / size.height);

  function show() {
    const {clientWidth: width, clientHeight: height} = frame;
    const shown = {width: width / scale, height: height / scale};
    x = Math.min(Math.max(x, Math.min(0, size.width - shown.width)), Math.max(0, size.width - shown.width));
    y = Math.min(Math.max(y, Math.min(0, size.height - shown.height)), Math.max(0, size.height - shown.height));
    svg.setAttribute("viewBox", `${x} ${y} ${shown.width} ${shown.height}`);
  }

  function zoom(factor, at) {
    const next = Math.min(MOST, Math.max(Math.min(LEAST, fitting()), scale * factor));
    x += at.x / scale - at.x / next;
    y += at.y / scale - at.y / next;
    scale = next;
    show();
  }

  const middle = () => ({x: frame.clientWidth / 2, y: frame.clientHeight / 2});
  const within = event => {
    const box = frame.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  };

  frame.classList.add("moves");
  svg.setAttribute("width", "100%");
  svg.setAttribute("height", "100%");
  const wide = Math.min(1, frame.clientWidth / size.width);
  scale = wide < LEAST_WHOLE ? READABLE : wide;  // the whole width, unless nobody could tell one node from the next
  frame.style.height = `${Math.min(Math.max(size.height * scale + 4, 140), innerHeight * 0.7)}px`;
  const node = ["failed", "active"].map(tone => svg.querySelector(`[data-tone="${tone}"] rect`)).find(Boolean);
  const first = (node ?? svg.querySelector("[data-jobs] rect"))?.getBBox();
  x = Math.min(0, (size.width - frame.clientWidth / scale) / 2);
  if (first) y = first.y + first.height / 2 - frame.clientHeight / scale / 2;
  if (node && x === 0) x = first.x + first.width / 2 - frame.clientWidth / scale / 2;
  show();

  const tools = Object.assign(document.createElement("div"), {className: "graph-tools"});
  tools.append(
    button("Zoom in", () => zoom(FACTOR, middle())),
    button("Zoom out", () => zoom(1 / FACTOR, middle())),
    button("Whole graph", () => zoom(fitting() / scale, middle())),
  );
  frame.before(tools);

  frame.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? FACTOR : 1 / FACTOR, within(event));
  }, {passive: false});

  let from = null, moved = false;
  frame.addEventListener("pointerdown", event => {
    from = within(event);
    moved = false;
  });
  addEventListener("pointermove", event => {
    if (!from) return;
    const to = within(event);
    if (!moved && Math.hypot(to.x - from.x, to.y - from.y) < 4) return;
    moved = true;
    x -= (to.x - from.x) / scale;
    y -= (to.y - from.y) / scale;
    from = to;
    show();
  });
  addEventListener("pointerup", () => { from = null; });
  frame.addEventListener("click", event => { if (moved) event.preventDefault(); }, true);
  frame.addEventListener("dragstart", event => event.preventDefault());

  frame.addEventListener("keydown", event => {
    const moves = {ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP]}[event.key];
    if (moves) {
      x += moves[0] / scale;
      y += moves[1] / scale;
      show();
    } else if (event.key === "+" || event.key === "=") zoom(FACTOR, middle());
    else if (event.key === "-") zoom(1 / FACTOR, middle());
    else if (event.key === "0") {
      scale = 1;
      show();
    } else return;
    event.preventDefault();
  });

  // A node that has the focus is in view.
  frame.addEventListener("focusin", event => {
    const box = event.target.querySelector?.("rect")?.getBBox();
    if (!box) return;
    const shown = {width: frame.clientWidth / scale, height: frame.clientHeight / scale};
    if (box.x < x || box.x + box.width > x + shown.width) x = box.x + box.width / 2 - shown.width / 2;
    if (box.y < y || box.y + box.height > y + shown.height) y = box.y + box.height / 2 - shown.height / 2;
    frame.scrollTo(0, 0);
    show();
  });
  addEventListener("resize", show);
}

function startAll() {
  for (const frame of document.querySelectorAll(".graph:not(.moves)")) start(frame);
}

startAll();
document.addEventListener("htmx:afterSettle", startAll); // the graph of a build whose jobs have come just now
