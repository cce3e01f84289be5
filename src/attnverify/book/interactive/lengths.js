// The figure of lengths.py; `X`, `Q`, `W` are the network.
const times = (A, B) => A.map((a) => B[0].map((_, k) => a.reduce((s, v, j) => s + v * B[j][k], 0)));
const plus = (A, B) => A.map((a, i) => a.map((v, k) => v + B[i][k]));
const transposed = (A) => A[0].map((_, k) => A.map((a) => a[k]));
const size = (A) => Math.hypot(...A.flat());
function softmax(logits) {
  const top = Math.max(...logits), e = logits.map((v) => Math.exp(v - top));
  const total = e.reduce((a, b) => a + b);
  return e.map((v) => v / total);
}

function draw(p) {
  // sums[l]: over all paths of length l, as HeldLayer.advance of the package; numbers: how many.
  let sums = [X], numbers = [1];
  for (let layer = 0; layer < 4; layer++) {
    const on = [0, 1, 2].filter((h) => p[`s${layer}${h}`]);
    const now = sums.reduce(plus);
    const heads = on.map((h) => ({W: W[layer][h].map((r) => r.map((v) => v * p.value)),
      P: times(times(now, Q[layer][h]), transposed(now)).map((r) => softmax(r.map((v) => v / Math.sqrt(3))))}));
    const none = X.map((r) => r.map(() => 0));
    const longer = sums.map((S) => heads.map((h) => times(times(h.P, S), h.W)).reduce(plus, none));
    sums = [...sums, none].map((S, l) => l ? plus(S, longer[l - 1]) : S);
    numbers = [...numbers, 0].map((n, l) => n + on.length * (numbers[l - 1] || 0));
  }
  const sizes = sums.map(size), all = sizes.reduce((a, b) => a + b);
  const paths = numbers.reduce((a, b) => a + b), texts = {paths: String(paths)};
  sizes.forEach((v, k) => texts[`share${k}`] = (v / all).toFixed(3));
  return {lines: {bars: sizes.map((v, k) => [k, v / all]),
    line: numbers.map((n, k) => [k, n / paths])}, texts};
}
