"use strict";
// The search page: claims that match by id, number, title or formula, and the chapters on a subject,
// stand above the pages that Sphinx finds, each with its first sentences.
(() => {
  const MOST = 12;
  const words = (text) => text.toLowerCase().match(/[\p{Letter}\p{Number}]+/gu) || [];

  /** How well an entry matches a query; 0 if it does not. */
  const rank = (query, [id, name, title, formula]) => {
    const asked = words(query), whole = query.toLowerCase().trim();
    const all = (...texts) => asked.every((word) => words(texts.join(" ")).some((w) => w.startsWith(word)));
    if (!asked.length) return 0;
    if (whole === id || whole === name.toLowerCase()) return 5;
    if (all(id) || (!formula && whole.includes(id))) return 4;
    if (title.toLowerCase().includes(whole)) return 3;
    return all(id, title) ? 2 : all(id, title, formula) ? 1 : 0;
  };

  const list = (query, place) => {
    const found = attnverifyFound.map((entry) => [rank(query, entry), entry]).filter(([n]) => n);
    found.sort(([m, a], [n, b]) => n - m || (n === 4 && a[0].length - b[0].length));
    if (!found.length) return;
    const seen = new Set(), first = ([, [, , , , address]]) => !seen.has(address) && seen.add(address);
    const items = document.createElement("ul");
    items.className = "attnverify-found";
    for (const [, [, name, title, , address]] of found.filter(first).slice(0, MOST)) {
      const link = document.createElement("a"), item = document.createElement("li");
      link.href = address;
      link.textContent = name ? `${name} (${title})` : title;
      item.append(link);
      explain(item, address);
      items.append(item);
    }
    place.before(items);
  };

  /** The first sentences of a page, below a link to the whole of it. */
  const explain = (item, address) => {
    const text = attnverifyExcerpts[address.replace(/\.html$/, "")];
    if (!text) return;
    const excerpt = document.createElement("p");
    excerpt.className = "context";
    excerpt.textContent = text;
    item.append(excerpt);
  };

  const query = new URLSearchParams(location.search).get("q");
  const place = document.getElementById("search-results");
  if (query && place) list(query, place);

  /** The score of a result: the API last; a word in a title is worth 15, in a text 5. */
  const CHAPTERS = /^notebooks\//, REFERENCE = /^(book\/api|book\/generated|genindex)/;
  Scorer.score = ([page, , , , score]) =>
    score + (CHAPTERS.test(page) ? 4 : REFERENCE.test(page) ? -30 : 0);

  new MutationObserver((changes) => {
    for (const item of changes.flatMap((change) => [...change.addedNodes])) {
      const link = item.localName === "li" && item.querySelector("a");
      if (link && !item.closest(".attnverify-found"))
        explain(item, link.getAttribute("href").replace(/\.html.*/, ".html"));
    }
  }).observe(document.getElementById("search-results"), { childList: true, subtree: true });
})();
