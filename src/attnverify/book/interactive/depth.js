// The figure of depth.py; `factor` is written down from the package, `X`, `Q`, `W` (the network),
// `rates` and `norms` are its numbers.
//
// The tokens are kept as a center c and deviations R, so that tiny deviations keep their digits:
// see the package's attnverify.mathematics.deviations, whose formulas for the attention these are.
const dot = (a, b) => a.reduce((sum, v, k) => sum + v * b[k], 0);
const rowTimes = (a, M) => M[0].map((_, k) => a.reduce((sum, v, j) => sum + v * M[j][k], 0));
const sum = (rows) => rows[0].map((_, k) => rows.reduce((total, row) => total + row[k], 0));
function softmax(logits) {
  const top = Math.max(...logits), e = logits.map((v) => Math.exp(v - top));
  const total = e.reduce((a, b) => a + b);
  return e.map((v) => v / total);
}

function layer({c, R}, Q, W, value) {
  const parts = Q.map((q, h) => {
    const to = (r) => R.map((s) => dot(rowTimes(r, q), s) / 2);
    const common = to(c), p = softmax(common);
    const rows = R.map((r) => {
      const d = to(r);
      // Far apart: as a difference. Close: by expm1, nothing close is subtracted.
      if (Math.max(...d.map(Math.abs)) > 1)
        return softmax(d.map((v, k) => v + common[k])).map((v, k) => v - p[k]);
      const e = d.map(Math.expm1), mean = dot(p, e);
      return p.map((v, k) => v * (e[k] - mean) / (1 + mean));
    });
    const through = (weights) => rowTimes(rowTimes(weights, R), W[h]).map((v) => v * value);
    return {c: sum([rowTimes(c, W[h]).map((v) => v * value), through(p)]), R: rows.map(through)};
  });
  return recentered(sum(parts.map((part) => part.c)),
    R.map((_, k) => sum(parts.map((part) => part.R[k]))));
}

function recentered(c, R) {
  const mean = sum(R).map((v) => v / R.length);
  return {c: sum([c, mean]), R: R.map((r) => r.map((v, k) => v - mean[k]))};
}

const diameter = (R) => Math.max(...R.flatMap((r) => R.map((s) => Math.hypot(...r.map((v, k) => v - s[k])))));

function draw({size, value}) {
  const scale = 10 ** size, log = (v) => Math.max(Math.log10(v), -300);
  let tokens = recentered([0, 0, 0], X.map((row) => row.map((v) => v * scale)));
  const start = diameter(tokens.R), sizes = [start], bounds = [start];
  Q.forEach((q, k) => {
    tokens = layer(tokens, q, W[k], value);
    sizes.push(diameter(tokens.R));
    const v = norms[k].map((x) => value * x);
    bounds.push(bounds[k] * factor([bounds[k]], rates[k], v));
  });
  const beta = value * Math.max(...rates.map((c, k) => dot(c, norms[k])));
  const cubic = sizes.map((_, k) => (3 ** k - 1) / 2 * Math.log10(beta) + 3 ** k * Math.log10(start));
  const lines = {measured: sizes.map(log), recursion: bounds.map(log), cubic};
  const texts = {start: start.toFixed(2)};
  for (const name in lines) texts[`${name}-2`] = lines[name][2].toFixed(2);
  for (const name in lines) lines[name] = lines[name].map((v, k) => [k, Math.max(v, -300)]);
  return {lines, texts};
}
