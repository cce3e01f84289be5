"use strict";
// The search page: claims that match by id, number, title or formula come before the pages, and an
// excerpt shows each formula once. Wraps two functions of Sphinx's searchtools.js.
(() => {
  const ID = 3000, TITLE = 2000, FORMULA = 1000;
  const words = (text) => text.toLowerCase().match(/[\p{Letter}\p{Number}]+/gu) || [];
  const escaped = (text) =>
    text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

  /** How well a claim matches a query; 0 if it does not. */
  const rank = (query, [id, name, title, formula, prose]) => {
    const asked = words(query);
    const whole = query.toLowerCase().trim();
    if (!asked.length) return 0;
    if (whole === id || whole === name.toLowerCase()) return ID + 500;
    const begins = (list) => (word) => list.some((w) => w.startsWith(word));
    const named = words(id), titled = words(title), typed = words(formula);
    if (asked.every(begins(named)))
      return ID + (id.startsWith(whole) ? 300 : 0) - named.length;
    if (title.toLowerCase().includes(whole)) return TITLE + 500 - title.length;
    if (asked.every(begins([...named, ...titled]))) return TITLE - title.length;
    // A word of prose alone is for the pages: "attention" stands in every second statement.
    const known = [...named, ...titled, ...typed];
    const hits = asked.filter(begins(known)).length;
    const all = asked.every(begins([...known, ...words(prose)]));
    const exact = asked.filter((word) => typed.includes(word)).length;
    return all && exact ? FORMULA + 20 * hits + 10 * exact - typed.length / 10 : 0;
  };

  const theirs = Search._performSearch;
  Search._performSearch = (query, ...rest) => {
    const found = window.attnverifyClaims
      .map((claim) => [rank(query, claim), claim])
      .filter(([score]) => score > 0)
      .sort(([a], [b]) => a - b)
      .map(([score, [id, name, title, , , page, anchor]]) =>
        [page, escaped(`${name} (${title})`), `#${anchor}`, null, score, page]);
    return [...theirs(query, ...rest), ...found]; // shown from the end
  };

  /** A formula as one line of text: fractions, powers and indices with their signs. */
  const plain = (katex) => {
    const math = katex.querySelector("math");
    if (!math) return katex.textContent;
    math.querySelectorAll("annotation").forEach((e) => e.remove());
    const signs = { mfrac: "/", msup: "^", msub: "_" };
    for (const [tag, sign] of Object.entries(signs))
      for (const e of math.querySelectorAll(tag)) {
        for (const part of e.children)
          if (tag === "mfrac" && part.textContent.length > 1) part.prepend("("), part.append(")");
        e.children[0].after(sign);
      }
    return math.textContent.replace(/\u2061(?=[\p{Letter}\p{Number}])/gu, " ").replace(/[\u2061-\u2064]/g, "");
  };

  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const left = 
      ".headerlink, script, style, .attnverify-cite, .attnverify-formal, .cell_input, button";
    page.querySelectorAll(left).forEach((e) => e.remove());
    page.querySelectorAll(".katex").forEach((e) => e.replaceWith(plain(e)));
    const place = anchor && page.getElementById(decodeURIComponent(anchor.slice(1)));
    const main = place || page.querySelector("article, [role=main], main");
    return main ? main.textContent.replace(/\s+/g, " ") : "";
  };
})();
