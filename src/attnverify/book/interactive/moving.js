// What all figures that a reader moves share; see figure.py. Before this text stand `root` (the
// figure's element), `plots` (for each plot the ranges of x and y, and its corners in the SVG) and
// `draw`, the figure's own function from the values of its controls to lines, dots and texts.

const part = (name) => root.querySelector(`[data-part="${name}"]`);
const inputs = {};
for (const input of root.querySelectorAll("input")) inputs[input.name] = input;
const valueOf = (i) => i.type === "checkbox" ? Number(i.checked) : i.valueAsNumber;

// From the coordinates of a plot to those of the SVG, as Plot.place in drawing.py.
const FARTHEST = 9999;
const cut = (v) => Math.min(Math.max(v, -FARTHEST), FARTHEST);
function place(element, [x, y]) {
  const [[x0, x1], [y0, y1], [left, right], [bottom, top]] = plots[element.dataset.plot];
  return [left + (x - x0) / (x1 - x0) * (right - left),
    bottom + (y - y0) / (y1 - y0) * (top - bottom)].map((v) => cut(v).toFixed(2));
}

// Three significant digits, as `significant` in drawing.py.
function significant(v) {
  if (v < 1e-300 || v === Infinity) return v < 1 ? "< 10⁻³⁰⁰" : "∞";
  return Math.abs(v) >= 1e-3 && Math.abs(v) < 1e4 ? String(+v.toPrecision(3))
    : v.toExponential(2).replace(/e\+?(.*)/, (_, k) => "·10" + k.replace(/./g, (c) =>
      "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻"));
}

function drawLine(element, points) {
  const places = points.map((p) => place(element, p));
  if (element.tagName === "path") {
    const zero = place(element, [0, Math.max(plots[element.dataset.plot][1][0], 0)])[1];
    element.setAttribute("d", places.map(([x, y]) => `M${x},${zero}V${y}`).join(""));
  } else element.setAttribute("points", places.map((p) => p.join(",")).join(" "));
}

function drawDot(element, point) {
  const [x, y] = place(element, point);
  element.setAttribute("cx", x);
  element.setAttribute("cy", y);
}

function redraw() {
  const values = {};
  for (const name in inputs) values[name] = valueOf(inputs[name]);
  const {lines = {}, dots = {}, texts = {}} = draw(values);
  for (const name in lines) drawLine(part(name), lines[name]);
  for (const name in dots) drawDot(part(name), dots[name]);
  for (const name in texts) part(name).textContent = texts[name];
  for (const o of root.querySelectorAll("output"))
    o.textContent = values[o.dataset.of].toFixed(o.dataset.decimals);
  handles.forEach(announce);
}

// Dots that move controls: by pointer and by arrow keys. The control keeps range and step.
const handles = [...root.querySelectorAll("[data-x], [data-y]")];
const moved = (h) => [h.dataset.x, h.dataset.y].filter(Boolean).map((name) => inputs[name]);

function announce(h) {
  const [first] = moved(h);
  for (const [name, value] of [["now", first.value], ["min", first.min], ["max", first.max],
    ["text", moved(h).map((i) => i.value).join(", ")]]) h.setAttribute(`aria-value${name}`, value);
}

function drag(h, event) {
  const svg = h.ownerSVGElement, at = new DOMPoint(event.clientX, event.clientY)
    .matrixTransform(svg.getScreenCTM().inverse());
  const [x, y, [left, right], [bottom, top]] = plots[h.dataset.plot];
  const back = (v, from, to, range) => range[0] + (v - from) / (to - from) * (range[1] - range[0]);
  if (h.dataset.x) inputs[h.dataset.x].value = back(at.x, left, right, x);
  if (h.dataset.y) inputs[h.dataset.y].value = back(at.y, bottom, top, y);
  redraw();
}

function press(h, event) {
  const {x, y} = h.dataset, up = event.key === "ArrowUp", right = event.key === "ArrowRight";
  if (!up && !right && event.key !== "ArrowDown" && event.key !== "ArrowLeft") return;
  const vertical = up || event.key === "ArrowDown";
  const input = inputs[vertical ? y || x : x || y];
  for (let k = event.shiftKey ? 10 : 1; k > 0; k--) up || right ? input.stepUp() : input.stepDown();
  event.preventDefault();
  redraw();
}

for (const h of handles) {
  h.setAttribute("role", "slider");
  h.setAttribute("tabindex", "0");
  h.addEventListener("pointerdown", (e) => h.setPointerCapture(e.pointerId));
  h.addEventListener("pointermove", (e) => h.hasPointerCapture(e.pointerId) && drag(h, e));
  h.addEventListener("keydown", (e) => press(h, e));
}
for (const name in inputs) inputs[name].addEventListener("input", redraw);
for (const button of root.querySelectorAll("[data-set]")) button.addEventListener("click", () => {
  for (const [name, value] of Object.entries(JSON.parse(button.dataset.set)))
    inputs[name].type === "checkbox" ? inputs[name].checked = value : inputs[name].value = value;
  redraw();
});
part("controls").hidden = false;
part("fallback").hidden = true;
root.draw = draw;  // for the console, and for the tests
redraw();
