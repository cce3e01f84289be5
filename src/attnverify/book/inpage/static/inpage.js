// A button "Check this here" on each derivation: Python runs it in this page, and the cell can be
// edited. Nothing is loaded before the first click; then the book's own files alone.
(() => {
  "use strict";
  const STATIC = new URL(".", document.currentScript.src);
  const BASE = new URL("python/", STATIC).href;
  const NOTEBOOK = location.pathname.split("/").pop().replace(/\.html$/, "");
  const FROM_FILE = "Python does not start in a page that was opened from a file. Run “make serve” "
    + "in the book's folder and open the address that it prints.";

  let worker = null, katex = null, running = null, ready = false, count = 0;
  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };
  const seconds = (s) => (s < 0.95 ? "less than a second" : `${Math.round(s)} s`);

  /** The formulas of a box, between dollar signs, by the KaTeX that the book itself uses. */
  async function typeset(box) {
    if (!/\$/.test(box.textContent)) return;
    katex ??= new Promise((done, failed) => document.head.append(
      make("script", { src: `${BASE}katex.min.js`, onload: done, onerror: failed })));
    await katex;
    const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT), texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts.filter((t) => !t.parentElement.closest("code, pre"))) {
      const parts = text.data.split(/(\$\$[^$]+\$\$|\$[^$]+\$)/);
      if (parts.length === 1) continue;
      text.replaceWith(...parts.map((part) => {
        if (!/^\$.+\$$/s.test(part)) return part;
        const displayMode = part.startsWith("$$"), span = make("span", { className: "math" });
        window.katex.render(part.replace(/^\$+|\$+$/g, ""), span, { displayMode, throwOnError: false });
        return span;
      }));
    }
  }

  function stop(words) {
    worker?.terminate();
    [worker, ready] = [null, false];
    running?.ended(words);
    running = null;
  }

  function listen({ data }) {
    if (data.progress) running?.progress(data.progress);
    if (data.ready) {
      ready = true;
      running?.say(`Python is ready (${seconds(data.ready.seconds)}). Checking …`);
    }
    if (data.failed) stop(`Python ${ready ? "broke off" : "could not be started"}: ${data.failed}`);
    if (data.shown && running?.id === data.id) {
      const done = running;
      running = null;
      done.show(data.shown);
    }
  }

  function run(panel, before, source) {
    if (location.protocol === "file:") return panel.ended(FROM_FILE);
    if (running) stop("Stopped: another cell is checked.");
    panel.id = ++count;
    running = panel;
    const message = { id: panel.id, notebook: NOTEBOOK, before, source };
    if (!worker) {
      worker = new Worker(new URL("inpage-worker.mjs", STATIC), { type: "module" });
      worker.onmessage = listen;
      worker.onerror = (event) => stop(`Python could not be started: ${event.message || "no reason given"}`);
      message.base = BASE;
    }
    panel.begin(ready ? "Checking …" : "Loading Python …");
    worker.postMessage(message);
  }

  /** Editor, buttons, progress and results of one cell. */
  class Panel {
    constructor(cell, number, printed) {
      this.printed = printed;
      const name = `inpage-source-${number}`;
      this.bar = make("progress", { max: 1, hidden: true, ariaLabel: "Python is loaded" });
      this.status = make("p", { className: "inpage-status" });
      this.status.setAttribute("role", "status");
      this.result = make("div", { className: "inpage-result" });
      this.result.setAttribute("role", "region");
      this.result.setAttribute("aria-label", `Result of derivation cell ${number}`);
      this.source = make("textarea", { id: name, value: printed, spellcheck: false, rows:
        Math.min(30, printed.split("\n").length + 1), wrap: "off" });
      this.source.setAttribute("autocapitalize", "off");
      this.checkButton = this.button("Check again", () => this.check());
      this.stopButton = this.button("Stop", () => stop("Stopped."));
      this.resetButton = this.button("As printed", () => { this.source.value = printed; });
      this.element = make("div", { className: "inpage-panel" },
        make("label", { htmlFor: name, textContent: "Edit the cell and check it again. The cells before it run as printed." }),
        this.source, make("div", { className: "inpage-buttons" }, this.checkButton, this.stopButton,
          this.resetButton, this.bar), this.status, this.result);
    }

    button(text, onclick) { return make("button", { type: "button", textContent: text, onclick }); }

    check() { this.onCheck(this.source.value); }

    say(words) { this.status.textContent = words; }

    busy(is) {
      // the button that has the focus is about to go: the other one takes it
      const focused = [this.checkButton, this.stopButton].includes(document.activeElement);
      this.element.setAttribute("aria-busy", String(is));
      this.stopButton.hidden = !is;
      this.checkButton.disabled = is;
      if (focused) (is ? this.stopButton : this.checkButton).focus();
    }

    begin(words) {
      this.busy(true);
      this.result.replaceChildren();
      delete this.element.dataset.outcome;
      this.bar.hidden = ready;
      this.bar.removeAttribute("value");
      this.say(words);
    }

    progress({ loaded, total, words }) {
      if (words) return this.say(`Python: ${words} …`);
      this.bar.value = loaded / total;
    }

    ended(words) {
      this.busy(false);
      this.bar.hidden = true;
      this.say(words);
    }

    show({ outcome, message, boxes, printed, value, number, seconds: time }) {
      const edited = this.source.value === this.printed ? "as printed" : "as edited";
      const words = { holds: `Runs to its end, ${edited}: ${boxes.length} box`
          + `${boxes.length === 1 ? "" : "es"}, every step decided in this page`,
        false: "Does not hold", error: "Stopped by an error" }[outcome];
      this.ended(`${words} (${seconds(time)}).`);
      this.element.dataset.outcome = outcome;
      this.element.dataset.seconds = time;
      for (const html of boxes) {
        const box = make("div", { className: "inpage-box" });
        box.innerHTML = html;
        this.result.append(box);
        typeset(box);
      }
      for (const text of [printed, value]) {
        if (text) this.result.append(make("pre", { textContent: text, tabIndex: 0 }));
      }
      if (outcome !== "holds") this.result.append(this.refusal(outcome, message, number));
    }

    refusal(outcome, message, number) {
      const box = make("div", { className: "ledger ledger-rejected inpage-refusal" });
      box.append(make("p", {}, make("strong", { textContent: outcome === "false"
        ? "This step does not hold" : `Error in derivation cell ${number}` })),
      make("pre", { textContent: message, tabIndex: 0 }));
      return box;
    }
  }

  const cells = [...document.querySelectorAll("article div.cell.tag_derivation")];
  const sources = cells.map((cell) => cell.querySelector(".cell_input pre").textContent.replace(/\n$/, ""));
  cells.forEach((cell, k) => {
    const open = make("button", { type: "button", className: "inpage-open", textContent: "Check this here" });
    open.setAttribute("aria-expanded", "false");
    let panel = null;
    open.onclick = () => {
      if (!panel) {
        panel = new Panel(cell, k + 1, sources[k]);
        panel.onCheck = (source) => run(panel, sources.slice(0, k), source);
        open.after(panel.element);
        panel.check();
      } else {
        panel.element.hidden = !panel.element.hidden;
      }
      open.setAttribute("aria-expanded", String(!panel.element.hidden));
    };
    cell.append(make("div", { className: "inpage" }, open));
  });
})();
