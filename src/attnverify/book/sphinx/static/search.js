"use strict";
// The search page: claims that match by id, number, title or formula, and the chapters on a subject,
// stand above the pages that Sphinx finds. An excerpt of a page shows each formula once.
(() => {
  const MOST = 12;
  const words = (text) => text.toLowerCase().match(/[\p{Letter}\p{Number}]+/gu) || [];

  /** How well an entry matches a query; 0 if it does not. */
  const rank = (query, [id, name, title, formula]) => {
    const asked = words(query), whole = query.toLowerCase().trim();
    const all = (...texts) => asked.every((word) => words(texts.join(" ")).some((w) => w.startsWith(word)));
    if (!asked.length) return 0;
    if (whole === id || whole === name.toLowerCase()) return 5;
    if (all(id)) return 4;
    if (title.toLowerCase().includes(whole)) return 3;
    return all(id, title) ? 2 : all(id, title, formula) ? 1 : 0;
  };

  const list = (query, place) => {
    const found = attnverifyFound.map((entry) => [rank(query, entry), entry]).filter(([n]) => n);
    found.sort(([m, a], [n, b]) => n - m || (n === 4 && a[0].length - b[0].length));
    if (!found.length) return;
    const items = document.createElement("ul");
    items.className = "attnverify-found";
    for (const [, [, name, title, , address]] of found.slice(0, MOST)) {
      const link = document.createElement("a"), item = document.createElement("li");
      link.href = address;
      link.textContent = `${name} (${title})`;
      item.append(link);
      items.append(item);
    }
    place.before(items);
  };

  const query = new URLSearchParams(location.search).get("q");
  const place = document.getElementById("search-results");
  if (query && place) list(query, place);

  // Private to Sphinx: private_interfaces.py says what breaks without it.
  const text = Search.htmlToText;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const left = ".katex-html, annotation, script, .cell_input, button, h1, summary, .cell_output pre, "
      + ".attnverify-details, .attnverify-footer";
    page.querySelectorAll(left).forEach((e) => e.remove());
    return text(page.documentElement.outerHTML, anchor);
  };
})();
