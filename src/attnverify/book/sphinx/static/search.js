"use strict";
// The search page: chapters on a subject that is named otherwise and claims that match by id, number,
// title or formula come before the pages, what is about the package after them, and an excerpt shows
// prose, with each formula once. Wraps two functions of Sphinx's searchtools.js.
(() => {
  const EXCERPTS = 6; // a page is loaded for each
  const PACKAGE = /^book\/(api|generated)\//;
  const SUBJECT = 4000, ID = 3000, TITLE = 2000, FORMULA = 1000;
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

  // Sphinx's own hook. Who types a dot or an underscore looks for a name of the package.
  let named = false;
  Scorer.score = ([page, , , object, score]) =>
    score - (named ? 0 : object ? 200 : PACKAGE.test(page) ? 100 : 0);

  const theirs = Search._performSearch;
  Search._performSearch = (query, ...rest) => {
    named = /[._]/.test(query);
    const subject = window.attnverifyTopics[query.toLowerCase().trim()] || [];
    const first = subject.map(([page, title], k) =>
      [page, escaped(title), "", null, SUBJECT - k, page]).reverse();
    const found = window.attnverifyClaims
      .map((claim) => [rank(query, claim), claim])
      .filter(([score]) => score > 0)
      .sort(([a], [b]) => a - b)
      .map(([score, [id, name, title, , , page, anchor]]) =>
        [page, escaped(`${name} (${title})`), `#${anchor}`, null, score, page]);
    const others = theirs(query, ...rest).filter(([page, , anchor]) =>
      anchor || !subject.some(([chapter]) => chapter === page));
    const all = [...others, ...found, ...first]; // shown from the end
    for (const item of all.slice(0, -EXCERPTS)) // a word in place of an excerpt
      item[3] ||= PACKAGE.test(item[0]) ? "package" : item[2] ? "section" : "page";
    return all;
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
    const left = ".headerlink, script, style, .attnverify-cite, .attnverify-formal, .cell_input, button, "
      + "h1, summary, .cell_output pre, .attnverify-details, .attnverify-footer";
    page.querySelectorAll(left).forEach((e) => e.remove());
    page.querySelectorAll(".katex").forEach((e) => e.replaceWith(plain(e)));
    const place = anchor && page.getElementById(decodeURIComponent(anchor.slice(1)));
    const main = place || page.querySelector("article") || page.querySelector("main");
    return main ? main.textContent.replace(/\s+/g, " ") : "";
  };
})();
