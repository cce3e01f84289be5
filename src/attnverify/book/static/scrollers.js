"use strict";
// What scrolls sideways can be reached and scrolled with the keyboard, and is no stop where it fits.
(() => {
  const SCROLLERS = "article table, article pre, article .output, article .figure-scroll, article dt.sig";
  const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";
  const scrolls = (e) =>
    e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX);
  const look = () => {
    for (const e of document.querySelectorAll(SCROLLERS)) {
      if (scrolls(e) && !e.matches("[tabindex]") && !e.querySelector(FOCUSABLE)) {
        e.tabIndex = 0;
        e.dataset.scroller = "";
      } else if ("scroller" in e.dataset && !scrolls(e)) {
        e.removeAttribute("tabindex");
        delete e.dataset.scroller;
      }
    }
  };
  look();
  addEventListener("load", look);
  addEventListener("resize", look);
  document.addEventListener("toggle", look, true); // what was folded had no width
})();
