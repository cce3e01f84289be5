// Folded evidence opens where a link leads into it. (folding.js opens all that is folded on paper.)
(() => {
  "use strict";
  const closed = "details.attnverify-details:not([open])";

  function reveal() {
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const fold = place && place.closest(closed);
    if (!fold) return;
    fold.open = true;
    place.scrollIntoView();
  }

  addEventListener("hashchange", reveal);
  reveal();
})();
