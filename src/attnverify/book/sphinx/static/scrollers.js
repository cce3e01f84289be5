"use strict";
// What scrolls sideways can be reached and scrolled with the keyboard, and is no stop where it fits.
// The theme does this too, for fewer boxes and all at once, which lays out the whole chapter while
// it loads; src/attnverify/book/html/slim_html.py takes that from it.
(() => {
  const SCROLLERS = "article table, article .pst-scrollable-table-container, article pre, " +
    "article .output, article .figure-scroll, article dt.sig";
  const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";
  const SLICE = 8; // milliseconds: to ask for a width may lay out a box, and a chapter has hundreds
  const PATIENCE = 6000; // milliseconds after which what is not laid out yet is looked at, too
  const scrolls = (e) =>
    e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX);
  const look = (e) => {
    if (scrolls(e) && !e.matches("[tabindex]") && !e.querySelector(FOCUSABLE)) {
      e.tabIndex = 0;
      e.dataset.scroller = "";
    } else if ("scroller" in e.dataset && !scrolls(e)) {
      e.removeAttribute("tabindex");
      delete e.dataset.scroller;
    }
  };
  const laidOut = (e) => !e.checkVisibility || e.checkVisibility({ contentVisibilityAuto: true });
  const later = window.requestIdleCallback || ((work) => setTimeout(work, 1));
  let waiting = [], planned = false, all = false;
  const slice = () => {
    const end = performance.now() + SLICE;
    while (waiting.length && performance.now() < end) look(waiting.shift());
    planned = waiting.length > 0;
    if (planned) later(slice);
    else if (all) document.documentElement.dataset.scrollers = "seen";
  };
  const start = () => {
    waiting = [...document.querySelectorAll(SCROLLERS)].filter((e) => all || laidOut(e));
    if (all) document.documentElement.dataset.scrollers = "looking";
    if (!planned) later(slice);
    planned = true;
  };
  const startAll = () => {
    all = true;
    start();
  };
  addEventListener("load", start);
  addEventListener("load", () => setTimeout(startAll, PATIENCE));
  addEventListener("keydown", startAll, { once: true }); // whoever uses the keyboard
  addEventListener("resize", start);
  document.addEventListener("toggle", start, true); // what was folded had no width
  // A derivation that is run in the page brings boxes of its own.
  const article = document.querySelector("article");
  if (article) new MutationObserver(start).observe(article, { childList: true, subtree: true });
})();
