// A switch that opens the code of all computations on a page, remembered for the next page.
// For printing what is folded is opened, code and lists of evidence apart, and closed again after it;
// formulas get as small as paper asks. The steps of derivations, those of a page in one script, are
// fetched when it has been read and put into their boxes when these are opened.
"use strict";

(() => {
  const PAPER = 600; // CSS pixels that a sheet leaves a formula inside a box, of A4 the narrower
  const KEY = "attnverify-code";
  const own = document.currentScript.src.replace(/folding\.js.*$/, "");
  const fetched = new Map(); // address of a script -> promise of its boxes
  const arrived = new Map(); // address of a script -> its boxes, null if they are of no use
  const UNFOLDED = "details:not([open], [data-steps], .above-input, .attnverify-details, "
    + ".attnverify-formal, .attnverify-cite)";
  const computations = () =>
    document.querySelectorAll(".cell:not(.attnverify-draws) > details.above-input");

  function remembered() {
    try {
      return localStorage.getItem(KEY) === "shown";
    } catch {
      return false; // the reader's browser keeps nothing
    }
  }

  function remember(shown) {
    try {
      localStorage.setItem(KEY, shown ? "shown" : "folded");
    } catch {
      // then the next page starts folded
    }
  }

  function show(button, shown) {
    button.setAttribute("aria-pressed", String(shown));
    for (const details of computations()) details.open = shown;
  }

  function workSwitch() {
    const button = document.querySelector(".attnverify-code-switch");
    if (!button) return;
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      remember(shown);
      show(button, shown);
    });
    show(button, remembered());
  }

  let deliver; // what the script that loads hands its boxes to
  window.attnverifySteps = (digest, boxes) => deliver(digest, boxes);

  const fetchBoxes = (address) => {
    if (!fetched.has(address)) {
      fetched.set(address, new Promise((done) => {
        const script = document.createElement("script");
        deliver = (digest, boxes) => done(address.endsWith(digest) ? boxes : null);
        script.src = own + address;
        script.fetchPriority = "low";
        script.onerror = () => done(null);
        document.head.append(script);
      }));
      fetched.get(address).then((boxes) => arrived.set(address, boxes));
    }
    return fetched.get(address);
  };

  async function fill(fold) {
    if (!fold.open || !fold.dataset.steps) return;
    const boxes = await fetchBoxes(fold.dataset.steps);
    if (boxes) put(fold, boxes);
    else fold.lastElementChild.textContent = "The steps could not be loaded. Load the page again.";
  }

  function put(fold, boxes) {
    delete fold.dataset.steps;
    const box = document.createElement("div");
    box.innerHTML = boxes[fold.dataset.place];
    box.querySelector(".ledger > p").remove(); // the line above says it
    fold.lastElementChild.replaceWith(...box.firstElementChild.children);
  }

  /** How many times wider than the sheet the widest part of a formula is that does not break. */
  function excess(formula) {
    return Math.max(...[...formula.querySelectorAll(".base")].map((e) => e.offsetWidth)) / PAPER;
  }

  function openForPrint() {
    for (const fold of document.querySelectorAll("details[data-steps]")) {
      const boxes = arrived.get(fold.dataset.steps);
      if (boxes) put(fold, boxes);
    }
    const closed = [...document.querySelectorAll(UNFOLDED)];
    for (const details of closed) details.open = true;
    const formulas = [...document.querySelectorAll(".katex-display > .katex > .katex-html")];
    const wide = formulas.map((e) => [e, excess(e)]).filter(([, times]) => times > 1);
    for (const [formula, times] of wide) formula.style.fontSize = `${1 / times}em`;
    addEventListener("afterprint", () => {
      for (const details of closed) details.open = false;
      for (const [formula] of wide) formula.style.fontSize = "";
    }, { once: true });
  }

  /** What is folded opens where a link leads into it. */
  function reveal() {
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const fold = place && place.closest("details.attnverify-details:not([open])");
    if (!fold) return;
    fold.open = true;
    place.scrollIntoView();
  }

  for (const fold of document.querySelectorAll("details[data-steps]")) {
    fold.addEventListener("toggle", () => fill(fold));
    fetchBoxes(fold.dataset.steps);
  }
  addEventListener("beforeprint", openForPrint);
  addEventListener("hashchange", reveal);
  workSwitch();
  reveal();
})();
