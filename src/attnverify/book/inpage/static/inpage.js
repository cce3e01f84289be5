// A button "Check this here" on each derivation: Python runs it in this page, and the cell can be
// edited. Nothing is loaded before the first click; then the book's own files alone.
(() => {
  "use strict";
  const STATIC = new URL(".", document.currentScript.src);
  const BASE = new URL("python/", STATIC).href;
  const NOTEBOOK = location.pathname.split("/").pop().replace(/\.html$/, "");
  const FROM_FILE = "Python does not start in a page that was opened from a file. Run “make serve” "
    + "in the book's folder and open the address that it prints.";

  const CHECK = "Check this here", CLOSE = "Back to the book";

  const waiting = new Map();  // the panels whose cells are with Python, by the number of the check
  let worker = null, katex = null, ready = false, count = 0;
  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };
  const seconds = (s) => (s < 0.95 ? "less than a second" : `${Math.round(s)} s`);

  /** The formulas of a box, by the KaTeX that has set those of the page. */
  async function typeset(box) {
    const formulas = [...box.querySelectorAll(".math")];
    if (!formulas.length) return;
    katex ??= new Promise((done, failed) => document.head.append(
      make("script", { src: `${BASE}katex.min.js`, onload: done, onerror: failed })));
    await katex;
    for (const formula of formulas) {
      window.katex.render(formula.textContent.trim(), formula,
        { displayMode: formula.matches(".block"), throwOnError: false });
    }
    dispatchEvent(new Event("resize"));  // what scrolls now can be reached by keyboard
  }

  function stop(words) {
    worker?.terminate();
    [worker, ready] = [null, false];
    waiting.forEach((panel) => panel.ended(words));
    waiting.clear();
  }

  function listen({ data }) {
    if (data.progress) waiting.forEach((panel) => panel.progress(data.progress));
    if (data.ready) {
      ready = true;
      waiting.forEach((panel) =>
        panel.say(`Python is ready (${seconds(data.ready.seconds)}). Checking …`));
    }
    if (data.failed) stop(`Python ${ready ? "broke off" : "could not be started"}: ${data.failed}`);
    const panel = waiting.get(data.id);
    if (data.shown && panel) {
      waiting.delete(data.id);
      panel.show(data.shown);
    }
  }

  /** Hand a cell to Python, which takes one after the other. */
  function run(panel, before, source) {
    if (location.protocol === "file:") return panel.ended(FROM_FILE);
    const id = ++count, message = { id, notebook: NOTEBOOK, before, source };
    if (!worker) {
      worker = new Worker(new URL("inpage-worker.mjs", STATIC), { type: "module" });
      worker.onmessage = listen;
      worker.onerror = (event) => stop(`Python could not be started: ${event.message || "no reason given"}`);
      message.base = BASE;
    }
    panel.begin(waiting.size ? "Waiting for another cell …" : ready ? "Checking …" : "Loading Python …");
    waiting.set(id, panel);
    worker.postMessage(message);
  }

  /** Editor, buttons, progress and results of one cell, in the place of its code and output. */
  class Panel {
    constructor(cell, number, printed) {
      this.cell = cell;
      this.printed = printed;
      const name = `inpage-source-${number}`;
      this.bar = make("progress", { max: 1, hidden: true, ariaLabel: "Python is loaded" });
      this.status = make("p", { className: "inpage-status" });
      this.status.setAttribute("role", "status");
      this.result = make("div", { className: "inpage-result" });
      this.result.setAttribute("role", "region");
      this.result.setAttribute("aria-label", `Result of derivation cell ${number}`);
      this.source = make("textarea", { id: name, value: printed, spellcheck: false, wrap: "off",
        rows: Math.min(30, printed.split("\n").length + 1) });
      this.source.setAttribute("autocapitalize", "off");
      this.source.onkeydown = (event) => {
        if (event.key === "Enter" && (event.shiftKey || event.ctrlKey)) {
          event.preventDefault();
          if (!this.checkButton.disabled) this.check();
        }
      };
      this.checkButton = this.button("Check again", () => this.check());
      this.stopButton = this.button("Stop", () => stop("Stopped."));
      this.resetButton = this.button("As printed", () => { this.source.value = printed; });
      this.editor = make("div", { className: "inpage-editor" }, make("label", { htmlFor: name,
        textContent: "Edit the cell and check it again (Shift+Enter). The cells before it run as printed." }),
      this.source);
      this.element = make("div", { className: "inpage-panel" },
        make("div", { className: "inpage-buttons" }, this.checkButton, this.stopButton,
          this.resetButton, this.bar), this.status, this.result, make("p", { className: "inpage-about" },
          make("a", { href: `${BASE}LICENSES.txt`, textContent: "What runs here, and its licenses" })));
      const folded = cell.querySelector(":scope > details");
      cell.querySelector(".cell_input").after(this.editor);
      if (folded) folded.after(this.element);
      else this.editor.after(this.element);
    }

    /** Show the session, or what the book printed. */
    open(is) {
      const folded = this.cell.querySelector(":scope > details");
      if (is && folded) folded.open = true;
      this.cell.classList.toggle("inpage-live", is);
      this.element.hidden = this.editor.hidden = !is;
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
      this.cell.classList.remove("inpage-checked");
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

    async show({ outcome, message, boxes, printed, value, number, seconds: time }) {
      const edited = this.source.value === this.printed ? "as printed" : "as edited";
      const words = { holds: `Runs to its end, ${edited}: ${boxes.length} box`
          + `${boxes.length === 1 ? "" : "es"}, every step decided in this page`,
        false: "A step is not as it is said to be", refused: "A step does not count",
        absent: "This cell runs in the notebook only", error: "Stopped by an error" }[outcome];
      const shown = boxes.map((html) => {
        const box = make("div", { className: "inpage-box" });
        box.innerHTML = html;
        box.querySelectorAll("code").forEach((code) => code.classList.add("docutils", "literal"));
        return box;
      });
      this.result.append(...shown);
      for (const text of [printed, value]) {
        if (text) this.result.append(make("pre", { textContent: text, tabIndex: 0 }));
      }
      if (outcome !== "holds") this.result.append(this.refusal(outcome, message, number));
      await Promise.allSettled(shown.map(typeset));  // without KaTeX the TeX stays
      this.cell.classList.add("inpage-checked");
      this.element.dataset.outcome = outcome;
      this.element.dataset.seconds = time;
      this.ended(`${words} (${seconds(time)}).`);
    }

    refusal(outcome, message, number) {
      const heading = outcome === "error" ? `Error in derivation cell ${number}`
        : `Derivation cell ${number} stops here`;
      const box = make("div", { className: "ledger ledger-refused inpage-refusal" });
      box.append(make("p", {}, make("strong", { textContent: heading })),
        make("pre", { textContent: message, tabIndex: 0 }));
      return box;
    }
  }

  const cells = [...document.querySelectorAll("article div.cell.tag_derivation")];
  const sources = cells.map((cell) => cell.querySelector(".cell_input pre").textContent.replace(/\n$/, ""));
  cells.forEach((cell, k) => {
    const open = make("button", { type: "button", className: "inpage-open", textContent: CHECK });
    open.setAttribute("aria-expanded", "false");
    let panel = null;
    open.onclick = () => {
      const first = !panel, is = open.getAttribute("aria-expanded") === "false";
      if (first) {
        panel = new Panel(cell, k + 1, sources[k]);
        panel.onCheck = (source) => run(panel, sources.slice(0, k), source);
      }
      panel.open(is);
      open.setAttribute("aria-expanded", String(is));
      open.textContent = is ? CLOSE : CHECK;
      if (first) panel.check();
    };
    cell.classList.add("inpage-cell");
    cell.prepend(open);
  });
})();
