// The figure of interactive.py. Before this text stand `frame` (the plot's corners, the number of
// segments), `root` (the figure's element) and `argument` (generated from the package's formula).

// Phi(x) = 1/2 + phi(x) (x + x^3/3 + x^5/(3*5) + ...), Marsaglia (2004). All terms have one sign,
// so nothing cancels; the error bound is derived in interactive.py.
function normal(x) {
  if (Math.abs(x) > 8) return x < 0 ? 0 : 1;
  let term = x, sum = 0;
  for (let odd = 3; sum + term !== sum; odd += 2) {
    sum += term;
    term *= x * x / odd;
  }
  return Math.max(0, 0.5 + sum * Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI));
}

const rho = (t, p) => normal(argument(t, p.xi, p.eta, p.gamma));
const part = (name) => root.querySelector(`[data-part="${name}"]`);
const across = (t) => frame.left + t * (frame.right - frame.left);
const up = (value) => frame.bottom - value * (frame.bottom - frame.top);
const sliders = [...root.querySelectorAll("input[type=range]")];

function draw() {
  const p = Object.fromEntries(sliders.map((s) => [s.name, s.valueAsNumber]));
  const points = Array.from({length: frame.segments + 1}, (_, k) => k / frame.segments)
    .map((t) => `${across(t).toFixed(2)},${up(rho(t, p)).toFixed(2)}`);
  part("curve").setAttribute("points", points.join(" "));
  part("middle").setAttribute("cy", up(rho(0.5, p)).toFixed(2));
  for (const s of sliders) part(s.name).textContent = s.valueAsNumber.toFixed(2);
  for (const t of ["0", "0.5", "1"]) part(`rho ${t}`).textContent = rho(Number(t), p).toFixed(4);
  part("contrast").textContent = (rho(1, p) - rho(0, p)).toFixed(4);
  root.classList.toggle("attnverify-general", p.gamma !== 1);
}

for (const s of sliders) s.addEventListener("input", draw);
part("controls").hidden = false;
part("fallback").hidden = true;
Object.assign(root, {normal, rho});  // for the console, and for the tests
draw();
