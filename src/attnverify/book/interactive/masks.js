// The figure of masks.py; `X` are the eight tokens at the start.
function draw({m, w, q}) {
  const start = X.map((x, i) => i < m ? X[0] : x);
  const layer = (tokens, sees) => tokens.map((x, i) => {
    const seen = tokens.filter((_, j) => sees(i, j));
    const e = seen.map((y) => Math.exp(q * (x[0] * y[0] + x[1] * y[1])));
    const total = e.reduce((a, b) => a + b);
    return [0, 1].map((k) => seen.reduce((sum, y, j) => sum + e[j] * y[k], 0) / total);
  });
  const diameter = (tokens) => Math.max(...tokens.flatMap((x) =>
    tokens.map((y) => Math.hypot(x[0] - y[0], x[1] - y[1]))));
  const distances = (sees) => {
    const states = [start];
    while (states.length <= 20) states.push(layer(states[states.length - 1], sees));
    return states.map(diameter);
  };
  const causal = distances((i, j) => j <= i), window = distances((i, j) => j <= i && j > i - w);
  const log = (sizes) => sizes.map((x, k) => [k, Math.log10(x)]);
  const none = log(distances(() => true)).map(([k, y]) => [k, y > -8 ? y : -16]);
  const rate = causal.map((_, k) => [k, Math.log10(causal[0]) - k * Math.log10(m + 1)]);
  return {
    lines: {none, rate, causal: log(causal), window: log(window)},
    texts: {
      "causal-last": (causal[20] / causal[19]).toFixed(3),
      "window-last": (window[20] / window[19]).toFixed(3), limit: (1 / (m + 1)).toFixed(3),
      end: w >= m + 2 ? "the same" : `1/w = ${(1 / w).toFixed(3)}`,
    },
  };
}
