// Plots of a pipeline's last builds, and of an organization's cost.

// A canvas knows no names of colours: an element does, in the theme of the page.
const probe = document.body.appendChild(document.createElement("span"));
probe.hidden = true;

function color(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

const days = (_, times) => times.map(each => new Date(each * 1000).toISOString().slice(5, 10));
const numbered = (_, numbers) => numbers.map(each => Number.isInteger(each) ? `#${each}` : "");

function draw(place) {
  const data = JSON.parse(place.dataset.plot);
  place.replaceChildren();
  for (const {label, unit, values} of data.series) {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    caption.textContent = unit ? `${label}, ${unit}` : label;
    figure.append(caption);
    place.append(figure);
    const axis = {stroke: color("--muted"), grid: {stroke: color("--line"), width: 1}, ticks: {stroke: color("--line"), width: 1}};
    const plot = new uPlot({
      width: figure.clientWidth,
      height: 130,
      legend: {show: false},
      scales: {x: {time: data.time}, y: {range: (_, least, most) => [0, most > 0 ? most * 1.1 : 1]}},
      tzDate: time => uPlot.tzDate(new Date(time * 1000), "Etc/UTC"),
      axes: [{...axis, size: 32, values: data.time ? days : numbered}, {...axis, size: 48}],
      series: [{}, {stroke: color("--accent"), width: 2, points: {size: 5}}],
    }, [data.x, values], figure);
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", `${label}: ${values.length} values, the last ${values.at(-1)} ${unit}`);
    new ResizeObserver(() => plot.setSize({width: figure.clientWidth, height: 130})).observe(figure);
  }
}

const places = document.querySelectorAll("[data-plot]");
places.forEach(draw);
const again = () => places.forEach(draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
document.addEventListener("theme", again);
