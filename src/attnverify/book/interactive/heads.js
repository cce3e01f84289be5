// The figure of heads.py; `factor`, `mean` and `apart` are written down from the package.
function draw({v1, v2, y1, y2}) {
  const y = [y1, y2], v = [v1, v2];
  const edge = (f) => Array.from({length: 25}, (_, k) => {
    const angle = k / 24 * Math.PI / 2, d = [Math.cos(angle), Math.sin(angle)], r = 1 / f(y, d);
    return [r * d[0], r * d[1]];
  });
  const below = edge(factor), own = factor(y, v), bySums = mean(y, v);
  const where = v1 + v2 <= 1 ? "free" : bySums < 1 ? "sums" : own < 1 ? "below" : "above";
  const texts = {own: own.toFixed(4), mean: bySums.toFixed(4), place: words[where]};
  for (let k = 1, size = 1; k <= 20; k++) {
    size = apart(size, y, v);
    if ([1, 5, 20].includes(k)) texts[`after${k}`] = significant(size);
  }
  return {
    lines: {below: [...below, [0, 0]], free: [...edge((_, d) => d[0] + d[1]), [0, 0]],
      edge: below, sums: edge(mean)},
    dots: {point: [v1, v2]}, texts,
  };
}
