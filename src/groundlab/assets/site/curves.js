// The page of a run: its curve among those of the other seeds, and its episodes by layout. `groundlabRuns` is the data.

const SVG = "http://www.w3.org/2000/svg", SIZE = {height: 300, left: 52, right: 12, top: 10, bottom: 40};

function make(name, attributes, parent, text) {
  const element = name === "svg" || parent?.namespaceURI === SVG ? document.createElementNS(SVG, name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent?.append(element);
  return element;
}

/** Round numbers between two ends, some five of them. */
function ticks(low, high) {
  const rough = (high - low || 1) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(each => each * power >= rough);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({length: Math.floor(high / step + 1e-9) - first + 1}, (_, place) => +((first + place) * step).toPrecision(12));
}

/** The point of some curves that lies nearest to a place: {run, index}; x and y give the place of a value. */
function nearest(runs, metric, place, x, y) {
  let best = null, least = Infinity;
  for (const run of runs) {
    const [counts, values] = run.curves[metric] ?? [[], []];
    values.forEach((value, index) => {
      if (value === null) return;
      const away = Math.hypot(x(counts[index]) - place.x, y(value) - place.y);
      if (away < least) [least, best] = [away, {run, index}];
    });
  }
  return best;
}

const written = value => value.toLocaleString("en", {maximumSignificantDigits: 4});

/** What is said of a point: `seed 3 after 4,096 frames: success 45.2 %`. */
function sentence(data, metric, {run, index}) {
  const [counts, values] = run.curves[metric], unit = metric === "success" ? " %" : "";
  return `seed ${run.seed} after ${counts[index].toLocaleString("en")} ${data.counter}: ${metric} ${written(values[index])}${unit}`;
}

function drawCurves(home, data, own, metric, say) {
  const drawn = data.runs.filter(run => run.curves[metric]), width = Math.max(home.clientWidth, 260);
  const counts = drawn.flatMap(run => run.curves[metric][0]), values = drawn.flatMap(run => run.curves[metric][1]).filter(each => each !== null);
  const percent = metric === "success", low = percent ? 0 : Math.min(...values), high = percent ? 100 : Math.max(...values);
  const last = Math.max(...counts), span = high - low || 1;
  const x = count => SIZE.left + (width - SIZE.left - SIZE.right) * count / last;
  const y = value => SIZE.height - SIZE.bottom - (SIZE.height - SIZE.bottom - SIZE.top) * (value - low) / span;
  home.querySelector("svg")?.remove();
  const svg = make("svg", {width, height: SIZE.height, role: "img", "aria-label": `${metric} of ${drawn.length} seeds by ${data.counter}`});
  home.prepend(svg);
  for (const value of ticks(low, high)) {
    make("line", {class: "grid", x1: SIZE.left, x2: width - SIZE.right, y1: y(value), y2: y(value)}, svg);
    make("text", {x: SIZE.left - 6, y: y(value) + 4, "text-anchor": "end"}, svg, written(value));
  }
  for (const count of ticks(0, last))
    make("text", {x: x(count), y: SIZE.height - 20, "text-anchor": "middle"}, svg, count >= 1e4 ? `${count / 1e3}k` : count);
  make("text", {x: (SIZE.left + width) / 2, y: SIZE.height - 4, "text-anchor": "middle"}, svg, data.counter);
  const lines = new Map();
  for (const run of [...drawn].sort((one, other) => (one === own) - (other === own))) {
    const points = run.curves[metric][0].map((count, place) => [count, run.curves[metric][1][place]]);
    const path = points.filter(point => point[1] !== null).map(([count, value]) => `${x(count).toFixed(1)} ${y(value).toFixed(1)}`);
    lines.set(run, make("polyline", {class: run === own ? "own" : "other", points: path.join(" ")}, svg));
  }
  const dot = make("circle", {class: "dot", r: 4, cx: -9, cy: -9}, svg);
  const mark = point => {
    for (const [run, line] of lines) line.classList.toggle("lit", run === point.run);
    const [counts, values] = point.run.curves[metric];
    dot.setAttribute("cx", x(counts[point.index]));
    dot.setAttribute("cy", y(values[point.index]));
    say.textContent = sentence(data, metric, point);
  };
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), place = {x: event.clientX - box.left, y: event.clientY - box.top};
    const point = nearest(drawn, metric, place, x, y);
    if (point) mark(point);
  });
  return mark;
}

function startCurves(home, data) {
  const own = data.runs.find(run => run.name === home.dataset.run), metrics = Object.keys(own.curves);
  const controls = make("p", {class: "controls"}, home);
  const label = make("label", {}, controls, "shown "), choice = make("select", {}, label);
  for (const metric of metrics) make("option", {}, choice, metric);
  const slider = make("input", {type: "range", min: 0, value: 0}, make("label", {}, controls, "along this seed "));
  const say = make("output", {}, home, "Move over a line, or use the slider, to read its values.");
  let mark = null;
  const draw = () => {
    mark = drawCurves(home, data, own, choice.value, say);
    slider.max = own.curves[choice.value][0].length - 1;
  };
  slider.addEventListener("input", () => {
    const index = +slider.value;
    if (own.curves[choice.value][1][index] !== null) mark({run: own, index});
  });
  choice.addEventListener("change", draw);
  addEventListener("resize", draw);
  draw();
}

/** A square an episode, filled where it succeeded. */
function drawLayouts(home, data) {
  const own = data.runs.find(run => run.name === home.dataset.run), say = make("output", {});
  for (const [policy, {what, layouts, success, steps}] of Object.entries(own.policies)) {
    const size = 14, across = Math.max(10, Math.min(50, Math.floor(home.clientWidth / size)));
    const solved = [...success].filter(each => each === "1").length;
    make("p", {}, home, `${policy}: ${solved} of ${success.length} succeed`);
    const rows = Math.ceil(success.length / across);
    const svg = make("svg", {width: across * size, height: rows * size, role: "img", class: "layouts",
      "aria-label": `${policy}: ${solved} of ${success.length} succeed, a square each`}, null);
    home.append(svg);
    [...success].forEach((each, place) => {
      const text = `${policy}, ${what} ${layouts ? layouts[place] : place}: ${each === "1" ? "success" : "failure"} after ${steps[place]} steps`;
      const square = make("rect", {class: each === "1" ? "success" : "failure", x: (place % across) * size + 1,
        y: Math.floor(place / across) * size + 1, width: size - 2, height: size - 2}, svg);
      make("title", {}, square, text);
      square.addEventListener("pointerenter", () => { say.textContent = text; });
    });
  }
  home.append(say);
}

if (typeof document === "undefined") module.exports = {ticks, nearest, sentence};
else {
  for (const run of groundlabRuns.runs)
    for (const each of Object.values(run.curves)) each[0] ??= run.counts;
  const curve = document.getElementById("curve"), layouts = document.getElementById("layouts");
  if (curve) startCurves(curve, groundlabRuns);
  if (layouts) drawLayouts(layouts, groundlabRuns);
}
