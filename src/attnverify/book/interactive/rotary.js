// The figure of rotary.py; `factor` is written down from the package's formula.
function draw({angle, middle, start}) {
  const distances = (turn) => {
    const found = [start];
    for (let k = 0; k < 12; k++) found.push(found[k] * factor(found[k], middle, turn));
    return found;
  };
  const points = (found) => found.map((x, k) => [k, x > 1e-300 ? Math.log10(x) : -300]);
  const turned = distances(angle), plain = distances(0);
  return {
    lines: {turned: points(turned), plain: points(plain)},
    texts: {
      after6: significant(turned[6]),
      plain6: plain[6] > 1e-300 ? significant(plain[6]) : "below 10⁻³⁰⁰",
      rate: angle ? significant(factor(0, middle, angle)) : "less and less: the fall is cubic",
    },
  };
}
