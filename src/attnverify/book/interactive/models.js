// The figure of models.py; `models` is the committed table, of texts 6 to 10.
function draw({model, text}) {
  const {name, paths, texts} = models[model - 1], {shares, biases} = texts[text - 6];
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const half = Math.floor((paths.length - 1) / 2), all = sum(paths);
  return {
    lines: {bars: shares.map((v, k) => [k, v]), biases: [[13.6, biases]],
      paths: paths.map((n, k) => [k, n / all])},
    texts: {name, number: String(text), half: String(half),
      long: (sum(paths.slice(half + 1)) / all).toFixed(3),
      net: sum(shares.slice(half + 1)).toFixed(3),
      short: sum(shares.slice(0, half + 1)).toFixed(3), bias: biases.toFixed(3)},
  };
}
