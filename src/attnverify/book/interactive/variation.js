// The figure of variation.py; `variation`, `change` and `limit` are written down from the package.
function draw(p) {
  const row = (letter) => [1, 2, 3, 4].map((k) => p[letter + k]);
  const u = row("u"), w = row("w"), D = change(u, w), tv = variation(u, w), bound = limit(D);
  const dots = {pair: [D, tv]}, texts = {
    D: D.toFixed(2), tv: tv.toFixed(4), bound: bound.toFixed(4),
    share: bound ? (tv / bound).toFixed(4) : "0 of 0",
  };
  const before = u.map((v, k) => dots[`u${k + 1}`] = [k + 0.82, v]);
  const after = w.map((v, k) => dots[`w${k + 1}`] = [k + 1.18, v]);
  const curve = Array.from({length: 33}, (_, k) => [k / 2, limit(k / 2)]);
  return {lines: {before, after, curve}, dots, texts};
}
