// The figure of tokens.py; `X` are the six tokens at the start.
const dot = (a, b) => a[0] * b[0] + a[1] * b[1];

function layer(tokens, q, v, skip) {
  return tokens.map((x) => {
    const scores = tokens.map((y) => q * dot(x, y)), top = Math.max(...scores);
    const e = scores.map((s) => Math.exp(s - top)), total = e.reduce((a, b) => a + b);
    return [0, 1].map((k) => (skip ? x[k] : 0)
      + v * tokens.reduce((sum, y, j) => sum + e[j] * y[k], 0) / total);
  });
}

function draw({layer: layers, q, v, skip}) {
  const states = [X];
  while (states.length <= layers) states.push(layer(states[states.length - 1], q, v, skip));
  const farthest = Math.max(...states.flat().map((x) => Math.hypot(...x)));
  const scale = Math.max(1, farthest / 1.4), last = states[states.length - 1];
  const diameter = (rows) => Math.max(...rows.flatMap((x) =>
    rows.map((y) => Math.hypot(x[0] - y[0], x[1] - y[1]))));
  const distance = diameter(last), small = distance < 1e-9;
  const length = last.reduce((sum, x) => sum + Math.hypot(...x), 0) / last.length;
  const lines = {}, dots = {};
  X.forEach((_, k) => {
    lines[`track-${k}`] = states.map((tokens) => tokens[k].map((value) => value / scale));
    dots[`token-${k}`] = last[k].map((value) => value / scale);
  });
  const texts = {layers: String(layers), start: significant(diameter(X)),
    scale: scale > 1 ? `The drawing is scaled down by ${significant(scale)}.` : "",
    distance: small ? "below 10⁻⁹" : significant(distance),
    relative: small ? "almost 0" : significant(distance / length)};
  return {lines, dots, texts};
}
