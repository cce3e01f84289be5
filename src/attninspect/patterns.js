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
  const shown = v => `${v}`.replace(/e\+?(.*)/, (_, k) =>
    "\u00b710" + k.replace(/./g, c => "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[c] ?? "\u207b"));
  const make = (tag, kind, text = "") => { const made = document.createElement(tag);
    made.className = kind; made.textContent = text; return made; };
  const fill = (box, labels) => box.append(...labels.map((text, i) => new Option(text, i)));
  const layers = [...new Set(data.heads.map(each => each[0]))];
  fill(boxes[0], layers); fill(boxes[2], data.tokens.map((_, i) => name(i)));
  const unpacked = text => { const packed = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer().then(found => new Uint8Array(found)); };
  let weights, left = 0, cell = 1, place = 0;
  try { weights = await Promise.all(data.weights.map(unpacked)); }
  catch { queryTold.textContent = "This browser cannot read the compressed weights."; return; }
  const at = (i, j) => weights[place][i * n + j];
  // A layer shows heads of its own; the head stays where the next layer has it, too.
  function choose(layer, head) {
    const own = data.heads.filter(each => each[0] === layer).map(each => each[1]);
    if (!own.includes(head)) head = own[0];
    boxes[0].selectedIndex = layers.indexOf(layer);
    boxes[1].replaceChildren(); fill(boxes[1], own);
    boxes[1].selectedIndex = own.indexOf(head);
    place = data.heads.findIndex(each => each[0] === layer && each[1] === head);
    show();
  }
  const changed = () => choose(...[0, 1].map(i => +boxes[i].selectedOptions[0].text));

  // Of the head that is chosen, a pixel a weight; made once, since a long text has many.
  let drawn = [];
  function image(color) {
    if (drawn[0] === place && drawn[1] === color) return drawn[2];
    const made = document.createElement("canvas"); made.width = made.height = n;
    const c = made.getContext("2d"), pixels = c.createImageData(n, n);
    weights[place].forEach((q, i) => { pixels.data[4 * i + 3] = q; });
    c.putImageData(pixels, 0, 0); c.globalCompositeOperation = "source-in";
    c.fillStyle = color; c.fillRect(0, 0, n, n);
    drawn = [place, color, made];
    return made;
  }

  function draw() {
    const style = getComputedStyle(root), color = name => style.getPropertyValue(name).trim();
    const ratio = devicePixelRatio || 1, room = canvas.parentElement.clientWidth;
    const c = canvas.getContext("2d"), font = weight => `${weight} 12px system-ui, sans-serif`;
    c.font = font(600);
    const texts = data.tokens.map(token => token[1] || `${token[0]}`);
    left = 8 + Math.min(84, room / 5, Math.max(...texts.map(text => c.measureText(text).width)));
    cell = Math.min(26, (room - left - 2) / n);
    const size = left + n * cell + 2, every = Math.ceil(13 / cell), query = boxes[2].selectedIndex;
    canvas.style.width = canvas.style.height = `${size}px`;
    canvas.width = canvas.height = Math.round(size * ratio);
    c.scale(ratio, ratio);
    c.imageSmoothingEnabled = cell * ratio < 1;
    c.drawImage(image(color("--weight")), left, left, n * cell, n * cell);
    c.fillStyle = color("--back");
    for (let i = 1; i < n && cell > 6; i++) { const gap = left + i * cell - 1;
      c.fillRect(gap, left, 1, n * cell); c.fillRect(left, gap, n * cell, 1); }
    c.textBaseline = "middle"; c.textAlign = "right";
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
    const query = boxes[2].selectedIndex, [layer, head] = data.heads[place];
    const where = `layer ${layer}, head ${head}`;
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
    const keys = data.keys[place].map((value, j) =>
      [name(j), value, `${value > 0 ? "+" : ""}${shown(value)}`]);
    keys.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
    given.replaceChildren(...bars(`What ${where} gives to ${data.number[0]}, by the token it reads:`,
      keys.slice(0, MOST), `All ${n} tokens together give ${shown(data.direct[place])}, the head's ` +
      `direct part: what it writes at token ${data.number[1]}, through no later head.` +
      (n > MOST ? ` The other ${n - MOST} give less each.` : "")));
  }

  const move = (box, by) => { const last = box.options.length - 1;
    const next = Math.min(Math.max(box.selectedIndex + by, 0), last);
    if (next !== box.selectedIndex) { box.selectedIndex = next; changed(); } };
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
  for (const box of boxes) box.addEventListener("change", changed);
  for (const title of document.querySelectorAll(".figures rect title, .figures circle title")) {
    const [, layer, head] = /^layer (\d+), head (\d+):/.exec(title.textContent) ?? [];
    if (!data.heads.some(each => each[0] === +layer && each[1] === +head)) continue;
    title.parentElement.style.cursor = "pointer";
    title.parentElement.addEventListener("click", () => {
      choose(+layer, +head); root.scrollIntoView(); canvas.focus({ preventScroll: true }); });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", draw);
  boxes[2].selectedIndex = data.number ? Math.max(0, data.tokens.findIndex(t => t[0] === data.number[1]))
    : n - 1;
  choose(...data.heads[0]);
})();
