/* Line charts with bands, drawn as SVG: quick enough to be drawn anew with every frame of a run. */

const SVG = "http://www.w3.org/2000/svg";
const DASHES = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };
const MARGIN = { left: 52, right: 12, top: 24, bottom: 26 };
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

const dark = matchMedia("(prefers-color-scheme: dark)");
export const colour = (line) => (dark.matches ? line.dark : line.light);

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/* A short piece of a learner's line, for legends. */
export function swatch(line) {
  const made = shape("svg", { class: "swatch", viewBox: "0 0 22 10", "aria-hidden": "true" });
  made.append(shape("line", { x1: 1, x2: 21, y1: 5, y2: 5, stroke: colour(line), "stroke-width": line.control ? 6 : 3, "stroke-dasharray": line.control ? "" : DASHES[line.dash] ?? "" }));
  return made;
}

/* A number as a person would write it: 1,500 or 0.002 or 3.1×10⁻⁷. */
export function plain(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) {
    const [factor, power] = value.toExponential(digits - 1).split("e");
    return `${String(Number(factor)).replace("-", "−")}×${ten(Number(power))}`;
  }
  return value.toLocaleString("en", { maximumSignificantDigits: Math.max(digits, size >= 1 ? Math.ceil(Math.log10(size + 1)) : 0) }).replace("-", "−");
}

const ten = (power) => "10" + String(power).replace("-", "⁻").replace(/\d/g, (digit) => SUPERSCRIPTS[Number(digit)]);

function linearTicks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) ticks.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return ticks;
}

function logTicks(low, high, count) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil((last - first) / count));
  for (const factors of [[1], [1, 3], [1, 2, 5], [1, 2, 3, 4, 5, 6, 8]]) {
    const ticks = [];
    for (let power = first; power <= last; power += every) ticks.push(...factors.map((factor) => factor * 10 ** power));
    const within = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    if (within.length >= 3) return within;
  }
  return linearTicks(low, high, count);
}

export class Chart {
  /* `place` gets the chart; `onpoint(index)` is called with the window that is pointed at, or null. */
  constructor(place, onpoint) {
    this.place = place;
    this.log = false;
    this.title = element("h3");
    this.linear = element("button", { type: "button", textContent: "linear" });
    this.logarithmic = element("button", { type: "button", textContent: "log" });
    this.linear.addEventListener("click", () => this.scale(false));
    this.logarithmic.addEventListener("click", () => this.scale(true));
    this.axis = element("span", { className: "switch", role: "group" }, this.linear, this.logarithmic);
    this.svg = shape("svg", { role: "img" });
    this.veil = element("p", { className: "veil", hidden: true });
    this.figure = element("figure", {}, element("figcaption", {}, this.title, this.axis), element("div", { className: "plot" }, this.svg, this.veil));
    place.replaceChildren(this.figure);
    new ResizeObserver(() => this.draw()).observe(this.figure);
    this.svg.addEventListener("pointermove", (event) => onpoint(this.nearest(event)));
    this.svg.addEventListener("pointerleave", () => onpoint(null));
  }

  scale(log) {
    this.log = log;
    this.chosen = true;
    this.draw();
  }

  /* data: {title, log, x, lines, ghosts, steps, tasks}; a line: {name, light, dark, dash, control, mean, low, high} */
  show(data) {
    if (!this.chosen) this.log = data.log;
    this.data = data;
    this.draw();
  }

  wait(text) {
    this.veil.hidden = !text;
    this.veil.textContent = text;
  }

  point(index) {
    this.at = index;
    this.cross();
  }

  nearest(event) {
    if (!this.data?.x.length) return null;
    const x = this.data.x, box = this.svg.getBoundingClientRect();
    const step = ((event.clientX - box.left - MARGIN.left) / this.across) * this.data.steps;
    let best = 0;
    for (let at = 1; at < x.length; at += 1) if (Math.abs(x[at] - step) < Math.abs(x[best] - step)) best = at;
    return best;
  }

  bounds() {
    let low = Infinity, high = -Infinity;
    const see = (values) => {
      for (const value of values) {
        if (value === null || (this.log && value <= 0)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    };
    for (const line of [...this.data.lines, ...this.data.ghosts]) see(line.mean);
    for (const line of this.data.lines) if (line.low) { see(line.low); see(line.high); }
    if (low > high) return [this.log ? 0.1 : 0, 1];
    if (this.log) return low === high ? [low / 2, high * 2] : [low * 0.95, high * 1.05];
    return [Math.min(0, low), high > 0 ? high * 1.04 : 1];
  }

  draw() {
    if (!this.data) return;
    const { title, steps, tasks, lines, ghosts, x } = this.data;
    const width = this.svg.clientWidth || this.figure.clientWidth, height = this.svg.clientHeight;
    if (!width || !height) return;
    this.title.textContent = title;
    this.axis.setAttribute("aria-label", `axis of ${title}`);
    this.linear.setAttribute("aria-pressed", String(!this.log));
    this.logarithmic.setAttribute("aria-pressed", String(this.log));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("aria-label", `${title} of ${lines.map((line) => line.name).join(", ") || "no learner yet"}; the values are in the table`);
    this.across = width - MARGIN.left - MARGIN.right;
    const down = height - MARGIN.top - MARGIN.bottom, [low, high] = this.bounds();
    const place = this.log ? Math.log : (value) => value;
    const toX = (step) => MARGIN.left + (this.across * step) / steps;
    const toY = (value) => MARGIN.top + down * (1 - (place(value) - place(low)) / (place(high) - place(low)));
    this.toX = toX;
    const parts = [];
    for (const tick of this.log ? logTicks(low, high, down / 40) : linearTicks(low, high, Math.max(2, down / 45))) {
      const y = toY(tick).toFixed(1);
      parts.push(shape("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }));
      parts.push(shape("text", { class: "tick", x: MARGIN.left - 7, y, "text-anchor": "end", "dominant-baseline": "middle" }, plain(tick, 2)));
    }
    for (const tick of linearTicks(0, steps, Math.max(2, this.across / 110))) {
      const end = tick > steps * 0.97;
      parts.push(shape("text", { class: "tick", x: toX(tick).toFixed(1), y: height - 8, "text-anchor": end ? "end" : "middle" }, tick === 0 ? "0 examples" : plain(tick)));
    }
    for (const task of tasks) {
      if (task.start) parts.push(shape("line", { class: "switchline", x1: toX(task.start), x2: toX(task.start), y1: MARGIN.top - 6, y2: MARGIN.top + down }));
      if (tasks.length > 1) parts.push(shape("text", { class: "task", x: toX((task.start + task.end) / 2), y: MARGIN.top - 9, "text-anchor": "middle" }, (task === tasks[0] ? "task " : "") + task.label));
    }
    const path = (values, xs = x) => {
      let text = "", pen = "M";
      for (let at = 0; at < values.length && at < xs.length; at += 1) {
        const value = values[at];
        if (value === null || (this.log && value <= 0)) { pen = "M"; continue; }
        text += `${pen}${toX(xs[at]).toFixed(1)} ${toY(value).toFixed(1)}`;
        pen = "L";
      }
      return text;
    };
    const band = (line) => {
      const known = x.map((_, at) => at).filter((at) => line.low[at] != null && line.high[at] != null && (!this.log || line.high[at] > 0));
      if (!known.length) return "";
      const bottom = (at) => (this.log && line.low[at] <= 0 ? low : line.low[at]);
      const there = known.map((at) => `${toX(x[at]).toFixed(1)} ${toY(line.high[at]).toFixed(1)}`);
      const back = known.reverse().map((at) => `${toX(x[at]).toFixed(1)} ${toY(bottom(at)).toFixed(1)}`);
      return `M${[...there, ...back].join("L")}Z`;
    };
    const clip = `clip-${this.place.id}`;
    const inside = shape("g", { "clip-path": `url(#${clip})` });
    const behind = (line) => (line.control ? 0 : 1);
    for (const line of ghosts) inside.append(shape("path", { class: "ghost", d: path(line.mean, line.x), stroke: colour(line) }));
    for (const line of [...lines].sort((a, b) => behind(a) - behind(b))) {
      if (line.low) inside.append(shape("path", { class: "band", d: band(line), fill: colour(line) }));
      inside.append(shape("path", { class: line.control ? "curve control" : "curve", d: path(line.mean), stroke: colour(line), "stroke-dasharray": line.control ? "" : DASHES[line.dash] ?? "" }));
    }
    this.crosshair = shape("line", { class: "cross", y1: MARGIN.top, y2: MARGIN.top + down, visibility: "hidden" });
    const frame = shape("clipPath", { id: clip }, shape("rect", { x: MARGIN.left, y: MARGIN.top - 1, width: Math.max(0, this.across), height: down + 2 }));
    this.svg.replaceChildren(shape("defs", {}, frame), ...parts, inside, this.crosshair);
    this.cross();
  }

  cross() {
    const step = this.data?.x[this.at];
    if (!this.crosshair) return;
    this.crosshair.setAttribute("visibility", step === undefined || this.at === null ? "hidden" : "visible");
    if (step !== undefined) for (const end of ["x1", "x2"]) this.crosshair.setAttribute(end, this.toX(step));
  }
}
