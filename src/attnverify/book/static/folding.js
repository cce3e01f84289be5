// A switch that opens the code of all computations on a page, remembered for the next page.
// What is folded is opened for printing, and closed again after it.
"use strict";

(() => {
  const KEY = "attnverify-code";
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

  function openForPrint() {
    const closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
    addEventListener("afterprint", () => closed.forEach((d) => { d.open = false; }), { once: true });
  }

  addEventListener("beforeprint", openForPrint);
  workSwitch();
})();
