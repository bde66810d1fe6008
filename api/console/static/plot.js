// Plots of a pipeline's last builds.

const LABELS = {duration: "Duration", wait: "Wait for a VM", cost: "Cost"};
const UNITS = {duration: "s", wait: "s", cost: "$"};

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function draw(place) {
  const data = JSON.parse(place.dataset.plot);
  place.replaceChildren();
  for (const [name, label] of Object.entries(LABELS)) {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    caption.textContent = `${label}, ${UNITS[name]}`;
    figure.append(caption);
    place.append(figure);
    const axis = {stroke: color("--muted"), grid: {stroke: color("--line"), width: 1}, ticks: {stroke: color("--line"), width: 1}};
    const plot = new uPlot({
      width: figure.clientWidth,
      height: 130,
      legend: {show: false},
      scales: {x: {time: false}, y: {range: (_, least, most) => [0, most > 0 ? most * 1.1 : 1]}},
      axes: [{...axis, values: (_, numbers) => numbers.map(each => Number.isInteger(each) ? `#${each}` : "")}, {...axis, size: 48}],
      series: [{}, {stroke: color("--accent"), width: 2, points: {size: 5}}],
    }, [data.number, data[name]], figure);
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", `${label} of the last ${data.number.length} builds, the last ${data[name].at(-1)} ${UNITS[name]}`);
    new ResizeObserver(() => plot.setSize({width: figure.clientWidth, height: 130})).observe(figure);
  }
}

const places = document.querySelectorAll("[data-plot]");
places.forEach(draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places.forEach(draw));
