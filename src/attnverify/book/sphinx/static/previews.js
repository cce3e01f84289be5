"use strict";
// Shows what a link inside the book leads to: a claim, a citation, an equation, a figure, an entry
// of the API reference. The previews of a page are one script, loaded when the first is asked for.
(() => {
  const DELAY = 250, LINGER = 200; // milliseconds
  const FRAGMENT = /^#(claim-[\w-]+|equation-[\w.-]+|fig-[\w-]+|id\d+|attnverify(\.\w+)+)$/;
  const own = document.currentScript.src.replace(/previews\.js.*$/, "");
  const root = own.replace(/_static\/$/, "");
  const pages = new Map(); // page name -> previews by id
  const waiting = new Map(); // page name -> promise
  let box, link, timer, leaving;

  window.attnverifyPreviews = (name, previews) => pages.set(name, previews);

  const load = (name) => {
    if (!waiting.has(name)) {
      waiting.set(name, new Promise((done) => {
        const script = document.createElement("script");
        script.src = `${own}previews/${name}.js`;
        script.onload = script.onerror = () => done(pages.get(name) || {});
        document.head.append(script);
      }));
    }
    return waiting.get(name);
  };

  /** [page name, id] of what a link leads to, or null. */
  const target = (a) => {
    const { href, hash } = new URL(a.getAttribute("href"), location); // a link in a drawing has neither
    const address = href.split("#")[0];
    const found = hash && FRAGMENT.exec(decodeURIComponent(hash));
    if (!found || !address.startsWith(root) || !address.endsWith(".html")) return null;
    if (/^id\d+$/.test(found[1]) && !address.endsWith("/bibliography.html")) return null;
    return [decodeURIComponent(address.slice(root.length, -5)), found[1]];
  };

  const place = () => {
    const from = link.getClientRects()[0] || link.getBoundingClientRect();
    const width = document.documentElement.clientWidth;
    const below = innerHeight - from.bottom, above = from.top;
    const under = below > box.offsetHeight + 8 || below >= above;
    box.style.maxHeight = `${Math.max(under ? below : above, 80) - 16}px`;
    box.style.left = `${Math.max(8, Math.min(from.left, width - box.offsetWidth - 8))}px`;
    box.style.top = under ? `${from.bottom + 4}px` : `${from.top - box.offsetHeight - 4}px`;
  };

  const hide = () => {
    clearTimeout(timer);
    clearTimeout(leaving);
    if (link && link.dataset.title) link.title = link.dataset.title;
    if (box) box.remove();
    box = link = undefined;
  };

  const show = async (a) => {
    const [name, id] = target(a);
    const html = (await load(name))[id];
    if (link !== a || !html) return;
    box = document.createElement("div");
    // The link says where it leads; its preview would only be read twice.
    box.setAttribute("aria-hidden", "true");
    box.className = "attnverify-preview";
    box.innerHTML = html.replaceAll('src="ROOT/', `src="${root}`);
    document.body.append(box);
    box.addEventListener("pointerenter", () => clearTimeout(leaving));
    box.addEventListener("pointerleave", leave);
    if (a.title) {
      a.dataset.title = a.title; // one of the two at a time
      a.removeAttribute("title");
    }
    for (const image of box.querySelectorAll("img")) image.addEventListener("load", () => link && place());
    place();
  };

  const enter = (event) => {
    const a = event.target.closest && event.target.closest("article a[href*='#']");
    if (!a || a.matches(".headerlink") || !target(a)) return;
    if (a === link) return clearTimeout(leaving);
    hide();
    link = a;
    wait();
  };
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(show, DELAY, link);
  };
  const leave = () => {
    clearTimeout(leaving);
    leaving = setTimeout(hide, LINGER);
  };

  document.addEventListener("pointerover", (event) => event.pointerType !== "touch" && enter(event));
  document.addEventListener("pointerout", (event) => {
    if (link && link.contains(event.target) && !link.contains(event.relatedTarget)) leave();
  });
  document.addEventListener("focusin", (event) =>
    event.target.matches(":focus-visible") ? enter(event) : hide());
  document.addEventListener("focusout", () => link && leave());
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("click", hide);
  // The keyboard scrolls to a link that it focuses: what is not shown yet waits for the end of that.
  addEventListener("scroll", () => (box ? hide() : link && wait()), { passive: true });
})();
