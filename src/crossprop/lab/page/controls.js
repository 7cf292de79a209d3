/* Form controls made from the catalogue: a slider with a number for what a compiled program takes as it is, other inputs
   for the rest. Each has `element`, `get()` and `set(value)`; a value that equals the default need not be in a setting. */

import { element, plain } from "./chart.js";

const PLACES = 240;
let serial = 0;

/* The arguments of all that can be chosen as a part of a learner, such as an optimizer: parts[part][name]. */
export const parts = {};

const words = (name) => name.replaceAll("_", " ");
const short = (value) => (value === 0 ? 0 : Number(value.toPrecision(3)));

/* From a slider's place, 0 to PLACES, to its number and back. */
function ruler(spec) {
  const { low, high, scale, zero } = spec;
  if (scale === "linear") {
    return { value: (place) => short(low + ((high - low) * place) / PLACES), place: (value) => ((value - low) / (high - low)) * PLACES };
  }
  if (scale === "symlog") {
    const unit = high / 1000, reach = Math.log1p(high / unit), half = PLACES / 2;
    return {
      value: (place) => short(Math.sign(place - half) * unit * Math.expm1((Math.abs(place - half) / half) * reach)),
      place: (value) => half + (Math.sign(value) * Math.log1p(Math.abs(value) / unit) * half) / reach,
    };
  }
  if (scale === "decay") {
    const reach = Math.log((1 - high) / (1 - low)), exact = (value) => Number(value.toFixed(9));
    return {
      value: (place) => exact(1 - short((1 - low) * Math.exp((reach * place) / PLACES))),
      place: (value) => (value >= 1 ? PLACES : (Math.log((1 - value) / (1 - low)) / reach) * PLACES),
    };
  }
  const span = Math.log(high / low);
  return {
    value: (place) => (zero && place <= 0 ? 0 : short(low * Math.exp((span * place) / PLACES))),
    place: (value) => (value <= 0 ? 0 : (Math.log(value / low) / span) * PLACES),
  };
}

function slider(spec, owner, change) {
  const id = `control-${(serial += 1)}`, scale = ruler(spec), name = words(spec.name);
  const range = element("input", { type: "range", id, min: 0, max: PLACES, step: 1 });
  const number = element("input", { type: "number", step: "any", className: "exact" });
  number.setAttribute("aria-label", `${owner} ${name}, exact`);
  const title = element("label", { htmlFor: id }, element("span", { className: "hidden-text", textContent: `${owner} ` }), name);
  const row = element("div", { className: "control slider" }, title, number, range);
  let value = null;
  const show = () => {
    range.value = String(Math.max(0, Math.min(PLACES, Math.round(scale.place(value)))));
    range.setAttribute("aria-valuetext", plain(value, 7));
    if (document.activeElement !== number) number.value = String(value);
  };
  const put = (given) => { value = given; show(); };
  range.addEventListener("input", () => { put(scale.value(Number(range.value))); change(); });
  number.addEventListener("change", () => {
    if (number.value !== "" && Number.isFinite(number.valueAsNumber)) value = number.valueAsNumber;
    number.value = String(value);
    show();
    change();
  });
  put(spec.default ?? (spec.scale === "linear" ? 0.5 : 5e-4));
  return { element: row, get: () => value, set: put };
}

/* An argument that may stay unset: a box to set it, and then its slider. */
function optional(spec, owner, change) {
  const inner = slider(spec, owner, change), name = words(spec.name);
  const box = element("input", { type: "checkbox" });
  const head = element("label", { className: "check" }, box, element("span", { className: "hidden-text", textContent: `${owner}: ` }), `own ${name}`);
  const sync = () => { inner.element.hidden = !box.checked; };
  box.addEventListener("change", () => { sync(); change(); });
  sync();
  return {
    element: element("div", { className: "optional" }, head, inner.element),
    get: () => (box.checked ? inner.get() : null),
    set: (value) => {
      box.checked = value !== null && value !== undefined;
      if (box.checked) inner.set(value);
      sync();
    },
  };
}

function field(spec, owner, input, change, read, write) {
  input.id = `control-${(serial += 1)}`;
  const title = element("label", { htmlFor: input.id }, element("span", { className: "hidden-text", textContent: `${owner} ` }), words(spec.name));
  input.addEventListener("change", () => change());
  write(spec.default);
  return { element: element("div", { className: `control ${spec.kind}` }, title, input), get: read, set: (value) => write(value === undefined ? spec.default : value) };
}

function choice(spec, owner, change) {
  const input = element("select", {}, ...spec.choices.map((name) => new Option(name)));
  return field(spec, owner, input, change, () => input.value, (value) => { input.value = value; });
}

function flag(spec, owner, change) {
  const input = element("input", { type: "checkbox" });
  return field(spec, owner, input, change, () => input.checked, (value) => { input.checked = value; });
}

function text(spec, owner, change) {
  const input = element("input", { type: "text", spellcheck: false });
  const read = () => (Number.isFinite(parseFloat(input.value)) && !Number.isNaN(Number(input.value)) ? Number(input.value) : input.value);
  return field(spec, owner, input, change, read, (value) => { input.value = Array.isArray(value) ? value.join(", ") : value; });
}

function whole(spec, owner, change) {
  const input = element("input", { type: "number", step: 1, min: spec.low ?? 0 });
  if (spec.high !== null && spec.high !== undefined) input.max = spec.high;
  if (spec.optional) input.placeholder = spec.placeholder ?? "unset";
  return field(spec, owner, input, change, () => (input.value === "" ? spec.default : input.valueAsNumber), (value) => { input.value = value ?? ""; });
}

/* One number of hidden units, or several layers: "100" or "64, 64". */
function sizes(spec, owner, change) {
  const input = element("input", { type: "text", inputMode: "numeric", spellcheck: false });
  const read = () => {
    const parts = input.value.split(/[\s,;x×]+/).filter(Boolean);
    const numbers = parts.map((part) => (Number.isNaN(Number(part)) ? part : Number(part))); /* for an error to show */
    return numbers.length === 1 ? numbers[0] : numbers;
  };
  return field(spec, owner, input, change, read, (value) => { input.value = Array.isArray(value) ? value.join(", ") : value; });
}

/* A choice among things with arguments of their own, whose controls are below it. Its value is the name alone, or a table
   of the name and the arguments that differ from their defaults. */
function part(spec, owner, change) {
  const place = element("div", { className: "inside" }), own = `${owner} ${words(spec.name)}`;
  let panel;
  const show = (values) => {
    panel = new Panel(parts[spec.part][head.get()] ?? [], own, change);
    panel.set(values);
    place.replaceChildren(...panel.elements(() => true));
    place.hidden = !panel.specs.length;
  };
  const head = choice(spec, owner, () => { show({}); change(); });
  show({});
  return {
    element: element("div", { className: "chosen" }, head.element, place),
    get: () => {
      const values = panel.values();
      return Object.keys(values).length ? { name: head.get(), ...values } : head.get();
    },
    set: (value) => {
      const { name, ...values } = value?.name ? value : { name: value };
      head.set(name);
      show(values);
    },
    find: (path) => (panel.specs.includes(path[0]) ? panel.find(path) : undefined),
  };
}

const KINDS = { choice, part, flag, text, whole, sizes };

export function control(spec, owner, change) {
  if (spec.kind !== "slider") return KINDS[spec.kind](spec, owner, change);
  return (spec.optional ? optional : slider)(spec, owner, change);
}

/* Controls for all arguments of one thing. `values()` has those that differ from their defaults. `change` is told the
   argument that changed, and if it has parts, the argument of the part too. */
export class Panel {
  constructor(specs, owner, change, keep = []) {
    this.specs = specs;
    this.keep = keep;
    this.controls = new Map(specs.map((spec) => [spec.name, control(spec, owner, (...inner) => change(spec, ...inner))]));
  }

  /* The control at the end of a path of arguments, such as optimizer, sigma. */
  find([spec, ...inner]) {
    const one = this.controls.get(spec.name);
    return inner.length ? one?.find?.(inner) : one;
  }

  values() {
    const differs = (spec, value) => JSON.stringify(value) !== JSON.stringify(spec.default);
    const all = this.specs.map((spec) => [spec, this.controls.get(spec.name).get()]);
    return Object.fromEntries(all.filter(([spec, value]) => this.keep.includes(spec.name) || differs(spec, value)).map(([spec, value]) => [spec.name, value]));
  }

  set(values) {
    for (const [name, one] of this.controls) if (Object.hasOwn(values, name)) one.set(values[name]);
  }

  elements(isMain) {
    return this.specs.filter(isMain).map((spec) => this.controls.get(spec.name).element);
  }
}
