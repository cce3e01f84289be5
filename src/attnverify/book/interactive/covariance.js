// The figure of covariance.py; `covariance`, `entropy`, `product` (P (1 - P)) and `two` (the entropy
// of two weights) are written down from the package.
function draw({gap, third, place, distance}) {
  const logits = [gap, 0, third], places = [0, distance, place * distance];
  const norm = covariance(logits, places), H = entropy(logits), share = norm / distance ** 2;
  const e = logits.map(Math.exp), total = e.reduce((a, b) => a + b);
  const ends = places.map((x, j) => [x, e[j] / total]);
  // The lesser of two weights with the entropy H, or 1/2.
  let low = 0, high = 0.5;
  for (let k = 0; k < 60; k++) {
    const middle = (low + high) / 2;
    if (two(middle) > H) high = middle; else low = middle;
  }
  const curve = Array.from({length: 30}, (_, k) => ((k + 1) / 30) ** 2 / 2)
    .map((q) => [two(q), q * (1 - q)]);
  return {
    lines: {two: ends.slice(0, 2), third: ends.slice(2), curve: [[0, 0], ...curve, [Math.log(3), 0.25]]},
    dots: {pair: [H, share]},
    texts: {H: H.toFixed(3), diam: distance.toFixed(1), norm: significant(norm),
      share: share.toFixed(4), product: product(logits).toFixed(4), v: (low * (1 - low)).toFixed(4)},
  };
}
