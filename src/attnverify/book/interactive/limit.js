// The figure of limit.py; `argument` is written down from the package's formula.

// Phi(x) = 1/2 + phi(x) (x + x^3/3 + x^5/(3*5) + ...), Marsaglia (2004). All terms have one sign,
// so nothing cancels; the error bound is derived in limit.py.
function normal(x) {
  if (Math.abs(x) > 8) return x < 0 ? 0 : 1;
  let term = x, sum = 0;
  for (let odd = 3; sum + term !== sum; odd += 2) {
    sum += term;
    term *= x * x / odd;
  }
  return Math.max(0, 0.5 + sum * Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI));
}
root.normal = normal;

function draw(p) {
  const rho = (t) => normal(argument(t, p.xi, p.eta, p.gamma));
  const points = Array.from({length: 51}, (_, k) => [k / 50, rho(k / 50)]);
  const texts = {first: rho(0), half: rho(0.5), last: rho(1), contrast: rho(1) - rho(0)};
  for (const name in texts) texts[name] = texts[name].toFixed(4);
  return {lines: {curve: p.gamma === 1 ? points : [], general: p.gamma === 1 ? [] : points},
    dots: {middle: [0.5, rho(0.5)]}, texts};
}
