/* Pictures of features: bytes from the lab become pixels between blue (negative), the page's colour (0) and red. */

import { element, swatch } from "./chart.js";

const COLUMNS = 8, ZERO = 128;
const NEGATIVE = [33, 102, 172], POSITIVE = [200, 55, 30];
const NEGATIVE_DARK = [90, 165, 240], POSITIVE_DARK = [255, 130, 80];
const dark = matchMedia("(prefers-color-scheme: dark)");

function palette() {
  const zero = dark.matches ? [20, 23, 27] : [255, 255, 255];
  const [negative, positive] = dark.matches ? [NEGATIVE_DARK, POSITIVE_DARK] : [NEGATIVE, POSITIVE];
  const colours = new Uint8ClampedArray(256 * 4);
  for (let at = 0; at < 256; at += 1) {
    const value = (at - ZERO) / 127, end = value < 0 ? negative : positive, share = Math.abs(value) ** 0.8;
    for (let channel = 0; channel < 3; channel += 1) colours[4 * at + channel] = zero[channel] + (end[channel] - zero[channel]) * share;
    colours[4 * at + 3] = 255;
  }
  return colours;
}

const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/* Draws `count` pictures of one size side by side, `columns` to a row, with a gap between them. */
function paint(canvas, { pixels, count, width, height }, columns = COLUMNS) {
  const values = bytes(pixels), colours = palette();
  const across = Math.min(count, columns), down = Math.ceil(count / columns), gap = count > 1 ? Math.ceil(width / 14) : 0;
  canvas.width = across * (width + gap) - gap;
  canvas.height = down * (height + gap) - gap;
  const image = canvas.getContext("2d").createImageData(canvas.width, canvas.height);
  for (let one = 0; one < count; one += 1) {
    const left = (one % columns) * (width + gap), top = Math.floor(one / columns) * (height + gap);
    for (let row = 0; row < height; row += 1) {
      for (let column = 0; column < width; column += 1) {
        const from = 4 * values[(one * height + row) * width + column];
        image.data.set(colours.subarray(from, from + 4), 4 * ((top + row) * canvas.width + left + column));
      }
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function picture(label) {
  const canvas = element("canvas", { role: "img" });
  canvas.setAttribute("aria-label", label);
  return canvas;
}

/* The features of one learner: a card with its incoming weights, and what its hidden units do, task after task. */
export function card(line, found, which) {
  const head = element("h3", {}, swatch(line), line.name);
  const say = (textContent) => element("p", { className: "muted", textContent });
  if (!found) return element("article", {}, head, say("The weights or features are no longer finite."));
  const parts = found.activity ? activity(line, found.activity) : [say("No features to show: this learner has no method features(state, x).")];
  const weights = found[which];
  if (!weights) return element("article", {}, head, say("No incoming weights to draw: weights(state) has no “incoming” of shape (inputs, units)."), ...parts);
  const canvas = picture(`incoming weights of ${line.name}`);
  canvas.className = weights.count > 1 ? "pixels grid" : "pixels";
  paint(canvas, weights);
  const moved = bytes(weights.pixels).some((value) => value !== ZERO);
  const text = weights.count > 1
    ? `${which === "weights" ? "Incoming weights" : "Change of the incoming weights"} of the first ${weights.count} hidden units`
    : `${which === "weights" ? "Incoming weights" : "Change of the incoming weights"}: a column per hidden unit, a row per input`;
  return element("article", {}, head, say(moved ? text : `${text}: none`), canvas, ...parts);
}

function activity(line, { rows, kept, units, pixels }) {
  const values = bytes(pixels);
  const list = element("div", { className: "activity" });
  list.append(element("span", { className: "muted", textContent: "task" }), element("span", { className: "muted", textContent: "mean activations" }), element("span", { className: "muted", textContent: "kept" }));
  rows.forEach((name, at) => {
    const canvas = picture(`mean activations of ${line.name}, ${name}`);
    const own = btoa(String.fromCharCode(...values.subarray(at * units, (at + 1) * units)));
    paint(canvas, { pixels: own, count: 1, width: units, height: 1 });
    list.append(element("span", { textContent: name }), canvas, element("span", { className: "number", textContent: kept[at] === null ? "–" : kept[at].toFixed(2) }));
  });
  return [list];
}
