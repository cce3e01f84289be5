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

  /** In parentheses unless it is one word, one number or one sign. */
  const whole = (text) => (/^[\p{Letter}\p{Number}.]+$|^.$/u.test(text) ? text : `(${text})`);
  const single = (text) => (/^[\d.]+$|^.$/u.test(text) ? text : `(${text})`);
  const root = (text) => `√${single(text)}`;
  const both = (x, low, high) => `${x}_${whole(low)}^${whole(high)}`;
  const WRITTEN = {
    mfrac: (over, under) => `${single(over)}/${/^√([\d.]+|.|\([^()]*\))$/u.test(under) ? under : single(under)}`,
    msup: (x, high) => `${x}^${whole(high)}`,
    msub: (x, low) => `${x}_${whole(low)}`,
    munder: (x, low) => `${x}_${whole(low)}`,
    msubsup: both,
    munderover: both,
    msqrt: (...parts) => root(parts.join("")),
    mroot: (x, index) => `[${index}]${root(x)}`,
    annotation: () => "",
  };
  const written = (e) => {
    if (e.nodeType === Node.TEXT_NODE) return e.data;
    const parts = [...e.childNodes].map(written);
    return (WRITTEN[e.localName] || ((...all) => all.join("")))(...parts);
  };

  /** A formula as one line of text: fractions, powers, indices and roots with their signs. */
  const plain = (katex) => {
    const math = katex.querySelector("math");
    if (!math) return katex.textContent;
    return written(math).replace(/\u2061(?=[\p{Letter}\p{Number}])/gu, " ").replace(/[\u2061-\u2064]/g, "");
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
