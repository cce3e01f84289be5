// The figure of two_tokens.py; `step` is written down from the package's formula.
function draw({v, c, start}) {
  const orbit = [start];
  for (let k = 0; k < 12; k++) orbit.push(step(orbit[k], c, v));
  const cobweb = [[start, 0]];
  orbit.slice(1).forEach((then, k) => cobweb.push([orbit[k], then], [then, then]));
  const star = v > 1 ? Math.sqrt(Math.atanh(1 / v) / c) : Infinity;
  const texts = {
    star: v > 1 ? star.toFixed(4) : "none, as v ≤ 1",
    verdict: start < star ? "below the threshold: every input this small collapses"
      : "not below the threshold: these two tokens do not collapse",
  };
  for (const n of [1, 4, 12]) texts[`after${n}`] = significant(orbit[n]);
  return {
    lines: {
      threshold: v > 1 ? [[star, 0], [star, 3]] : [],
      map: Array.from({length: 61}, (_, k) => k * 3 / 60).map((s) => [s, step(s, c, v)]),
      orbit: cobweb,
    },
    dots: {"start-dot": [start, 0]}, texts,
  };
}
