// Folded evidence opens where a link leads into it, and on paper.
(() => {
  "use strict";
  const closed = "details.attnverify-details:not([open])";
  let printed = [];

  function reveal() {
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const fold = place && place.closest(closed);
    if (!fold) return;
    fold.open = true;
    place.scrollIntoView();
  }

  addEventListener("hashchange", reveal);
  addEventListener("beforeprint", () => {
    printed = [...document.querySelectorAll(closed)];
    printed.forEach((fold) => { fold.open = true; });
  });
  addEventListener("afterprint", () => printed.forEach((fold) => { fold.open = false; }));
  reveal();
})();
