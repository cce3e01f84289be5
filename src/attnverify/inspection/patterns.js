// One attention pattern at a time: layer, head and query token are chosen. The weights are bytes.
(async () => {
  const root = document.getElementById("patterns");
  const data = JSON.parse(root.querySelector("script").textContent), n = data.tokens.length;
  const boxes = [...root.querySelectorAll("select")], canvas = root.querySelector("canvas");
  const [cellTold, queryTold, given] = [".cell", ".query", ".given"].map(s => root.querySelector(s));
  const name = i => `${data.tokens[i][0]} ${data.tokens[i][1]}`.trim();
  const told = q => { const s = q / 255, e = 1 / 510;
    const off = e * (2 * s + e), digits = Math.ceil(-Math.log10(off)), one = 10 ** digits;
    // The last digit of the weight is rounded, too.
    return `${(s * s).toFixed(digits)} \u00b1 ${(Math.ceil(off * one + .5) / one).toFixed(digits)}`; };
  const make = (tag, kind, text = "") => { const made = document.createElement(tag);
    made.className = kind; made.textContent = text; return made; };
  const fill = (box, labels) => box.append(...labels.map((text, i) => new Option(text, i)));
  fill(boxes[0], data.layers); fill(boxes[2], data.tokens.map((_, i) => name(i)));
  fill(boxes[1], [...Array(data.heads)].map((_, i) => i + 1));
  const packed = Uint8Array.from(atob(data.weights), c => c.charCodeAt(0));
  let weights;
  try {
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    weights = new Uint8Array(await new Response(stream).arrayBuffer());
  } catch { queryTold.textContent = "This browser cannot read the compressed weights."; return; }
  const chosen = () => boxes.map(box => box.selectedIndex);
  const at = (i, j) => { const [layer, head] = chosen();
    return weights[((layer * data.heads + head) * n + i) * n + j]; };
  let left = 0, cell = 1;

  function draw() {
    const style = getComputedStyle(root), color = name => style.getPropertyValue(name).trim();
    const ratio = devicePixelRatio || 1, room = canvas.parentElement.clientWidth;
    const c = canvas.getContext("2d"), font = weight => `${weight} 12px system-ui, sans-serif`;
    c.font = font(600);
    const texts = data.tokens.map(token => token[1] || `${token[0]}`);
    left = 8 + Math.min(84, room / 5, Math.max(...texts.map(text => c.measureText(text).width)));
    cell = Math.min(26, (room - left - 2) / n);
    const size = left + n * cell + 2, every = Math.ceil(13 / cell), query = chosen()[2];
    canvas.style.width = canvas.style.height = `${size}px`;
    canvas.width = canvas.height = Math.round(size * ratio);
    c.scale(ratio, ratio);
    c.fillStyle = color("--weight");
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) { const q = at(i, j);
      if (q) { c.globalAlpha = q / 255;
        c.fillRect(left + j * cell, left + i * cell, cell - (cell > 6), cell - (cell > 6)); } }
    c.globalAlpha = 1; c.textBaseline = "middle"; c.textAlign = "right";
    c.fillStyle = c.strokeStyle = color("--text");
    const label = i => { c.font = font(i === query ? 600 : 400);
      let text = texts[i];
      while (text.length > 1 && c.measureText(text).width > left - 6) text = text.slice(0, -1);
      c.fillText(text, -4, 0); };
    for (let i = 0; i < n; i++) {
      const near = every > 1 && i !== query && Math.abs(i - query) < every;
      for (const down of [true, false]) {
        if (down ? (i % every && i !== query) || near : i % every) continue;
        c.save();
        c.translate(...(down ? [left, left + (i + .5) * cell] : [left + (i + .5) * cell, left]));
        if (!down) c.rotate(Math.PI / 2);
        label(i); c.restore();
      }
    }
    c.strokeRect(left, left, n * cell, n * cell);
    c.lineWidth = 2; c.strokeStyle = color("--minus");
    c.strokeRect(left, left + query * cell, n * cell, cell);
  }

  function bars(title, rows, rest) {
    const largest = Math.max(...rows.map(row => Math.abs(row[1])), 1e-300), list = make("ol", "bars");
    for (const [text, value, shown] of rows) {
      const line = make("li", ""), bar = make("span", value < 0 ? "bar minus" : "bar");
      bar.style.width = `${30 * Math.abs(value) / largest}%`;
      line.append(make("span", "word", text), bar, make("span", "", shown));
      list.append(line);
    }
    return [make("h3", "", title), list, ...(rest ? [make("p", "", rest)] : [])];
  }

  const MOST = 12;
  function show() {
    const [layer, head, query] = chosen(), where = `layer ${data.layers[layer]}, head ${head + 1}`;
    canvas.setAttribute("aria-label", `Attention of ${where}; token ${name(query)} is chosen. ` +
      "Arrows up and down choose the token, left and right the head, page up and down the layer.");
    draw();
    const row = [...Array(n).keys()].map(j => [name(j), at(query, j) ** 2, told(at(query, j))]);
    const seen = row.filter(each => each[1]).sort((a, b) => b[1] - a[1]);
    const more = seen.length - MOST, hidden = n - seen.length;
    queryTold.replaceChildren(...bars(`Token ${name(query)} looks at, in ${where}:`,
      seen.slice(0, MOST), [more > 0 ? `${more} more get less.` : "",
        hidden ? `${hidden} get less than 0.000004 each, or are masked.` : ""].join(" ").trim()));
    if (!data.keys) return;
    const keys = data.keys[layer][head].map((value, j) =>
      [name(j), value, `${value > 0 ? "+" : ""}${value}`]);
    keys.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
    given.replaceChildren(...bars(`What ${where} gives to ${data.number[0]}, by the token it reads:`,
      keys.slice(0, MOST), `All ${n} tokens together give ${data.direct[layer][head]}, the head's ` +
      `direct part: what it writes at token ${data.number[1]}, through no later head.` +
      (n > MOST ? ` The other ${n - MOST} give less each.` : "")));
  }

  const move = (box, by) => { const last = box.options.length - 1;
    const next = Math.min(Math.max(box.selectedIndex + by, 0), last);
    if (next !== box.selectedIndex) { box.selectedIndex = next; show(); } };
  const keys = { ArrowUp: [2, -1], ArrowDown: [2, 1], ArrowLeft: [1, -1], ArrowRight: [1, 1],
    PageUp: [0, -1], PageDown: [0, 1], Home: [2, -n], End: [2, n] };
  canvas.addEventListener("keydown", event => { const by = keys[event.key];
    if (by && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault(); move(boxes[by[0]], by[1]); } });
  const point = event => { const box = canvas.getBoundingClientRect();
    const [j, i] = [event.clientX - box.left, event.clientY - box.top].map(x =>
      Math.floor((x - left) / cell));
    if (i < 0 || i >= n || j >= n) return;
    if (boxes[2].selectedIndex !== i) { boxes[2].selectedIndex = i; show(); }
    cellTold.textContent = j < 0 ? "\u00a0" : `${name(i)} looks at ${name(j)}: ${told(at(i, j))}`; };
  for (const kind of ["pointermove", "click"]) canvas.addEventListener(kind, point);
  for (const box of boxes) box.addEventListener("change", show);
  for (const title of document.querySelectorAll(".figures rect title, .figures circle title")) {
    const place = /^layer (\d+), head (\d+):/.exec(title.textContent);
    const layer = place ? data.layers.indexOf(+place[1]) : -1;
    if (layer < 0) continue;
    title.parentElement.style.cursor = "pointer";
    title.parentElement.addEventListener("click", () => {
      boxes[0].selectedIndex = layer; boxes[1].selectedIndex = place[2] - 1;
      show(); root.scrollIntoView(); canvas.focus({ preventScroll: true }); });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", draw);
  boxes[2].selectedIndex = data.number ? Math.max(0, data.tokens.findIndex(t => t[0] === data.number[1]))
    : n - 1;
  show();
})();
