/* The lab's page: a form that is a setting, runs of that setting, and charts of what they send. */

import { Chart, element, plain, swatch } from "./chart.js";
import { Panel, parts } from "./controls.js";
import { card } from "./pictures.js";

const FIRST = { stream: { name: "geoff" }, network: { hidden: 100 }, learners: { crossprop: {}, backprop: {}, frozen: {} }, seeds: 4 };
const QUIET = 1200; /* ms without a change after which the next one makes a new ghost */
const PATIENCE = 1000; /* ms for which a run may keep a newer setting waiting, to be seen at all */

const byId = (id) => document.getElementById(id);
const page = crypto.randomUUID();
const root = document.documentElement;
const form = byId("controls");
const charts = [];
let offered, panels, run = null, ghost = null, held = false, weights = "change", pointed = null;
let waiting = false, movedAt = 0, changedAt = 0, gesture = true;

/* --- the setting ------------------------------------------------------------------------------------------------ */

const entry = (list, name) => list.find((one) => one.name === name);

function fieldset(title, ...content) {
  return element("fieldset", {}, element("legend", {}, title), ...content);
}

/* Controls whose defaults are those that suit a stream. */
const suited = (specs, own) => specs.map((spec) => (own[spec.name] === undefined ? spec : { ...spec, default: own[spec.name] }));

function folded(title, content) {
  return content.length ? [element("details", {}, element("summary", {}, title), ...content)] : [];
}

/* Builds the form for a setting. */
function build(setting) {
  const stream = entry(offered.streams, setting.stream.name);
  if (!stream) throw new Error(`There is no stream ${JSON.stringify(setting.stream.name)} here.`);
  const streamSelect = element("select", { id: "stream" }, ...offered.streams.map((one) => new Option(one.name, one.name, false, one.name === stream.name)));
  for (const option of streamSelect.options) option.disabled = Boolean(entry(offered.streams, option.value).missing);
  streamSelect.addEventListener("change", () => {
    const { network: { hidden: _, ...network }, ...now } = read();
    for (const own of Object.values(now.learners)) delete own.step_size;
    rebuild({ ...now, network, stream: { name: streamSelect.value }, steps: null, record_every: null });
  });
  panels = {
    stream: new Panel(stream.controls, "stream", changed),
    network: new Panel(suited(offered.network, stream.network), "network", changed, ["hidden"]),
    run: new Panel(RUN, "run", changed, ["seeds"]),
    learners: new Map(),
  };
  panels.stream.set(setting.stream);
  panels.network.set(setting.network ?? {});
  panels.run.set({ seeds: setting.seeds, steps: setting.steps, record_every: setting.record_every });
  const cards = Object.entries(setting.learners).map(([name, own]) => learnerCard(name, own, stream.name));
  const add = element("select", { id: "add" }, new Option("Add a learner …", ""), ...offered.learners.map((one) => new Option(one.name, one.name)));
  add.setAttribute("aria-label", "Add a learner");
  for (const option of add.options) if (option.value) option.disabled = Boolean(entry(offered.learners, option.value).missing);
  add.addEventListener("change", () => {
    const now = read();
    const name = unused(add.value, now.learners);
    rebuild({ ...now, learners: { ...now.learners, [name]: name === add.value ? {} : { rule: add.value } } }, name);
  });
  const together = element("input", { type: "checkbox", id: "together", checked: panels.together ?? true });
  const often = (spec) => ["tasks", "examples"].includes(spec.name);
  form.replaceChildren(
    fieldset("Stream", element("div", { className: "control choice" }, element("label", { htmlFor: "stream", textContent: "name" }), streamSelect), element("p", { className: "muted about", textContent: stream.about }), ...panels.stream.elements(often), ...folded("All arguments", panels.stream.elements((spec) => !often(spec)))),
    fieldset("Network", ...panels.network.elements((spec) => ["hidden", "activation"].includes(spec.name)), ...folded("Bias and initial weights", panels.network.elements((spec) => !["hidden", "activation"].includes(spec.name)))),
    fieldset("Learners", element("label", { className: "check" }, together, "Move equal sliders together"), ...cards, add),
    fieldset("Runs", ...panels.run.elements(() => true)),
  );
}

const RUN = [
  { name: "seeds", kind: "whole", default: 4, low: 1, high: 32 },
  { name: "steps", kind: "whole", default: null, low: 1, optional: true, placeholder: "all" },
  { name: "record_every", kind: "whole", default: null, low: 1, optional: true, placeholder: "auto" },
];

function unused(rule, taken) {
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? rule : `${rule} ${number}`;
    if (!Object.hasOwn(taken, name)) return name;
  }
}

function learnerCard(name, own, stream) {
  const rule = own.rule ?? name, known = entry(offered.learners, rule);
  if (!known) throw new Error(`There is no learner ${JSON.stringify(rule)} here.`);
  const step = { step_size: entry(offered.streams, stream).step_sizes[known.optimizer] };
  const panel = new Panel(suited(known.controls, step), name, (...path) => { follow(name, path); changed(); }, ["step_size"]);
  panel.set(own);
  panels.learners.set(name, { rule, panel });
  const remove = element("button", { type: "button", className: "remove", textContent: "Remove" });
  remove.setAttribute("aria-label", `Remove ${name}`);
  remove.disabled = false;
  remove.addEventListener("click", () => {
    const now = read();
    delete now.learners[name];
    if (Object.keys(now.learners).length) rebuild(now);
  });
  const main = (spec) => (spec.kind === "slider" && !spec.optional) || spec.kind === "part";
  const title = element("h3", {}, element("span", { className: "swatch" }), element("span", { className: "name", textContent: name }), remove);
  const made = element("div", { className: "card" }, title, ...panel.elements(main), ...folded("More", panel.elements((spec) => !main(spec))));
  made.dataset.learner = name;
  if (known.about) title.querySelector(".name").title = known.about;
  return made;
}

/* What moves together: the same hyperparameter of the other learners, and of those that have the same optimizer or
   replacement if it is one of these. */
function follow(name, path) {
  const spec = path.at(-1);
  if (spec.kind !== "slider" || spec.optional || !byId("together").checked) return;
  const value = panels.learners.get(name).panel.find(path).get();
  for (const [other, { panel }] of panels.learners) if (other !== name) panel.find(path)?.set(value);
}

function read() {
  const learners = [...panels.learners].map(([name, { rule, panel }]) => [name, { ...(rule === name ? {} : { rule }), ...panel.values() }]);
  return {
    stream: { name: byId("stream").value, ...panels.stream.values() },
    network: panels.network.values(),
    learners: Object.fromEntries(learners),
    ...panels.run.values(),
  };
}

function rebuild(setting, focused) {
  gesture = true;
  build(setting);
  if (focused) [...form.querySelectorAll(".card")].find((one) => one.dataset.learner === focused)?.querySelector("input")?.focus();
  changed();
}

/* A link holds the setting behind its #. */
const written = (setting) => "#" + encodeURIComponent(JSON.stringify(setting));

function linked() {
  if (location.hash.length < 2) return null;
  const text = location.hash.slice(1);
  return JSON.parse(text.startsWith("{") ? text : decodeURIComponent(text));
}

/* --- runs ------------------------------------------------------------------------------------------------------- */

function changed() {
  const now = performance.now();
  if ((gesture || now - changedAt > QUIET) && run?.x.length > 1 && !held) ghost = run;
  gesture = false;
  changedAt = movedAt = now;
  history.replaceState(null, "", written(read()));
  const busy = run && !run.drawn && !run.over && now - run.began < PATIENCE;
  waiting = busy;
  if (busy) setTimeout(() => { if (waiting) start(); }, PATIENCE - (now - run.began));
  else start();
}

async function start() {
  waiting = false;
  run?.control.abort();
  const own = { control: new AbortController(), began: performance.now(), moved: movedAt, x: [], curves: Object.create(null), lines: [], drawn: false, over: false, paused: false };
  const before = run;
  run = own;
  own.stale = before?.lines.length ? before : before?.stale;
  problem("");
  button("Pause", true);
  try {
    const answer = await fetch("runs", { method: "POST", body: JSON.stringify({ page, setting: read() }), signal: own.control.signal });
    if (!answer.ok) {
      const text = await answer.text();
      throw new Refused(answer.headers.get("content-type")?.includes("json") ? JSON.parse(text).error : text);
    }
    for await (const frame of lines(answer.body)) {
      if (own !== run) return;
      hear(own, frame);
    }
    if (!own.over) throw new Refused("The lab ended these runs.");
  } catch (wrong) {
    if (own !== run || own.control.signal.aborted) return;
    own.over = true;
    say(wrong instanceof Refused ? "Not running" : "The lab does not answer");
    problem(wrong instanceof Refused ? wrong.message : "The lab does not answer. Is its terminal still open?");
    for (const chart of charts) chart.wait("");
    button("Pause", false);
    root.dataset.state = "problem";
    if (waiting) start();
  }
}

class Refused extends Error {}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

const HEAR = {
  begin(own, frame) {
    own.begin = frame;
    own.lines = frame.learners;
    root.dataset.state = "running";
    byId("python").textContent = frame.python;
    byId("command").textContent = frame.command;
    for (const copy of document.querySelectorAll("[data-copy]")) copy.disabled = false;
    for (const made of form.querySelectorAll(".card")) made.querySelector(".swatch").replaceWith(swatch(own.lines.find((line) => line.name === made.dataset.learner)));
    say("Starting");
  },
  compiling(own, frame) {
    root.dataset.state = "compiling";
    say(`Compiling ${frame.new.join(", ")}`);
    for (const chart of charts) chart.wait("Compiling. New sizes, rules, optimizers and streams need it; a learner's sliders never do.");
  },
  windows(own, frame) {
    if (frame.variables.length) own.variables = frame.variables;
    own.x.push(...frame.step);
    own.at = frame.at;
    own.compiled = frame.compiled;
    own.rate = frame.rate;
    for (const [variable, learners] of Object.entries(frame.curves)) {
      const known = (own.curves[variable] ??= Object.create(null)); /* a learner can have any name, also __proto__ */
      for (const [name, line] of Object.entries(learners)) {
        const whole = (known[name] ??= { mean: [], low: line.low && [], high: line.low && [] });
        for (const part of ["mean", "low", "high"]) if (line[part]) whole[part].push(...line[part]);
      }
    }
    byId("progress").style.width = `${(100 * frame.at) / own.begin.steps}%`;
    say(`${plain(frame.at, 6)} of ${plain(own.begin.steps, 6)} examples · ${plain(own.rate, 2)} steps per second`);
    if (own.x.length) seen(own);
  },
  features(own, frame) {
    own.features = frame.learners;
    drawFeatures();
  },
  paused(own) {
    if (!own.paused) return; /* it goes on already: this frame is from before */
    root.dataset.state = "paused";
    say(`Paused at ${plain(own.at ?? 0, 6)} examples`);
  },
  end(own, frame) {
    own.over = true;
    own.diverged = frame.diverged;
    const runs = own.lines.length * own.begin.seeds;
    say(`Done: ${runs} runs of ${plain(own.begin.steps, 6)} examples in ${plain(frame.seconds, 2)} s`);
    button("Pause", false);
    root.dataset.state = "done";
    draw();
  },
  error(own, frame) {
    own.over = true;
    throw new Refused(frame.error);
  },
};

function hear(own, frame) {
  if (frame.kind === "windows" && !own.paused) root.dataset.state = "running";
  HEAR[frame.kind](own, frame);
}

/* Windows have come: they are drawn at once if they are the first, else with the next frame of the screen. */
function seen(own) {
  if (!own.drawn) {
    own.drawn = true;
    own.stale = null;
    pointed = null;
    for (const chart of charts) chart.wait("");
    draw();
    requestAnimationFrame(() => {
      own.latency = performance.now() - own.moved;
      root.dataset.latency = own.latency.toFixed(0);
      root.dataset.drawn = String(Number(root.dataset.drawn ?? 0) + 1);
      facts();
    });
    if (waiting) start();
  } else if (!own.queued) {
    own.queued = true;
    requestAnimationFrame(() => { own.queued = false; if (own === run) draw(); });
  }
}

/* --- drawing ---------------------------------------------------------------------------------------------------- */

function shown() {
  return run?.drawn ? run : run?.stale;
}

function draw() {
  const now = shown();
  if (!now?.variables) return;
  const order = now.variables;
  while (charts.length < order.length) {
    const place = charts.length ? byId("charts").appendChild(element("div", { id: `chart-${charts.length}` })) : byId("chart-0");
    charts.push(new Chart(place, pointAt));
  }
  while (charts.length > order.length) charts.pop().place.remove();
  const other = byId("ghost").checked && ghost && ghost !== now ? ghost : null;
  order.forEach((variable, at) => {
    const curves = now.curves[variable.name], last = other?.curves[variable.name] ?? Object.create(null);
    charts[at].show({
      title: variable.title,
      log: variable.log || variable.name.includes("drift"),
      x: now.x,
      lines: now.lines.filter((line) => curves[line.name]).map((line) => ({ ...line, ...curves[line.name] })),
      ghosts: (other?.lines ?? []).filter((line) => last[line.name]).map((line) => ({ ...line, ...last[line.name], x: other.x })),
      steps: now.begin.steps,
      tasks: now.begin.tasks,
    });
    charts[at].point(pointed);
  });
  legend(now);
  table(now, order, other);
  facts();
}

function legend(now) {
  byId("legend").replaceChildren(...now.lines.map((line) => element("span", {}, swatch(line), line.name)));
}

function table(now, order, other) {
  const at = pointed ?? now.x.length - 1, range = byId("at");
  range.disabled = false;
  range.max = String(now.x.length - 1);
  range.value = String(at);
  range.setAttribute("aria-valuetext", `${plain(now.x[at], 6)} examples`);
  byId("at-step").textContent = `${plain(now.x[at], 6)} examples`;
  const head = element("tr", {}, element("th", { scope: "col", textContent: "learner" }), ...order.map((one) => element("th", { scope: "col", textContent: one.title })));
  const rows = now.lines.map((line) => {
    const cells = order.map((variable) => {
      const curve = now.curves[variable.name][line.name];
      if (!curve) return element("td", { textContent: "–" });
      const cell = element("td", {}, plain(curve.mean[at]));
      if (curve.low && curve.low[at] !== null) cell.append(element("span", { className: "muted", textContent: ` [${plain(curve.low[at])}, ${plain(curve.high[at])}]` }));
      const before = other?.curves[variable.name]?.[line.name]?.mean[at];
      if (before !== undefined) cell.append(element("span", { className: "was", textContent: `was ${plain(before)}` }));
      return cell;
    });
    const gone = now.diverged && Object.hasOwn(now.diverged, line.name) && now.diverged[line.name];
    const name = element("th", { scope: "row" }, swatch(line), line.name);
    if (gone) name.append(element("span", { className: "tag", textContent: `${gone} of ${now.begin.seeds} diverged` }));
    return element("tr", {}, name, ...cells);
  });
  byId("values").replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
}

function facts() {
  if (!run?.begin) return;
  const { begin } = run, engines = [...new Set(begin.learners.map((one) => one.engine))].join(" and ");
  const parts = [begin.band ? `mean and ${begin.band}` : "one seed", `${plain(begin.record_every, 6)} examples per point`, `engine ${engines} on ${begin.device}`];
  if (run.latency) parts.push(`first points ${run.latency.toFixed(0)} ms after the change`);
  if (run.compiled !== undefined) parts.push(run.compiled ? `${run.compiled} programs compiled` : "nothing compiled");
  byId("facts").textContent = parts.join(" · ");
}

function drawFeatures() {
  const now = shown();
  if (!now?.features) return;
  byId("features-note").textContent = "Kept: the correlation of all activations, on the stream's first 64 examples, with those before learning. Blue is negative, red positive; units in one order for all rows.";
  byId("features").replaceChildren(...now.lines.map((line) => card(line, now.features[line.name], weights)));
}

function pointAt(index) {
  pointed = index;
  if (shown()) draw();
}

/* --- the bar ---------------------------------------------------------------------------------------------------- */

function say(text) {
  if (byId("status").textContent !== text) byId("status").textContent = text;
}

function problem(text) {
  byId("problem").hidden = !text;
  byId("problem").textContent = text;
}

function button(text, enabled) {
  byId("pause").textContent = text;
  byId("pause").disabled = !enabled;
}

async function pause() {
  if (!run || run.over) return;
  run.paused = !run.paused;
  button(run.paused ? "Go on" : "Pause", true);
  if (!run.paused) root.dataset.state = "running";
  await fetch("pause", { method: "POST", body: JSON.stringify({ page, paused: run.paused }) });
}

async function copy(what, pressed) {
  const text = what === "link" ? location.href : byId(what).textContent;
  const label = pressed.textContent;
  try {
    await navigator.clipboard.writeText(text);
    pressed.textContent = "Copied";
  } catch {
    pressed.textContent = "Not allowed";
  }
  setTimeout(() => { pressed.textContent = label; }, 1500);
}

function listen() {
  byId("pause").addEventListener("click", pause);
  byId("again").addEventListener("click", () => { movedAt = performance.now(); start(); });
  for (const pressed of document.querySelectorAll("[data-copy]")) pressed.addEventListener("click", () => copy(pressed.dataset.copy, pressed));
  byId("ghost").addEventListener("change", draw);
  byId("hold").addEventListener("click", () => {
    held = !held;
    byId("hold").setAttribute("aria-pressed", String(held));
    if (held && !ghost) ghost = run;
    draw();
  });
  byId("hold").disabled = false;
  byId("at").addEventListener("input", () => pointAt(Number(byId("at").value)));
  for (const pressed of document.querySelectorAll("[data-weights]")) {
    pressed.addEventListener("click", () => {
      weights = pressed.dataset.weights;
      for (const one of document.querySelectorAll("[data-weights]")) one.setAttribute("aria-pressed", String(one === pressed));
      drawFeatures();
    });
  }
  form.addEventListener("pointerdown", () => { gesture = true; });
  form.addEventListener("submit", (event) => event.preventDefault());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { draw(); drawFeatures(); if (run?.begin) HEAR.begin(run, run.begin); });
  window.addEventListener("hashchange", () => open(linked));
  window.addEventListener("pagehide", () => run?.control.abort());
  window.addEventListener("pageshow", (event) => { if (event.persisted) start(); });
}

/* Opens the setting of the link, or the first one, which also stands in for a link that cannot be read. */
function open(link) {
  try {
    rebuild(link() ?? FIRST);
  } catch (wrong) {
    rebuild(FIRST);
    problem(`The link's setting cannot be opened: ${wrong.message}`);
  }
}

async function main() {
  offered = await (await fetch("catalogue")).json();
  Object.assign(parts, offered.parts);
  charts.push(new Chart(byId("chart-0"), pointAt));
  charts[0].wait("Starting …");
  listen();
  byId("again").disabled = false;
  open(linked);
}
main();
