"use strict";
// The map: two lists choose what is shown, and what is pointed to lights up with all it belongs to.
(() => {
  const figure = document.querySelector(".attnverify-map"), svg = figure.querySelector(":scope > div svg");
  const all = (selector, within = svg) => [...within.querySelectorAll(selector)];
  const [part, verdict] = all("select", figure), told = figure.querySelector("output");
  const claims = all(".claim"), papers = all(".paper"), lines = all("path").map((line) =>
    [line, document.getElementById(line.dataset.a), document.getElementById(line.dataset.b)]);
  const rowOf = (e) => e.closest(".row");

  /** Show what both lists allow, without gaps, and the lines of the table that belong to it. */
  const choose = () => {
    const shown = new Set(claims.filter((claim) =>
      (!part.value || rowOf(claim).dataset.part === part.value) &&
      (!verdict.value || claim.dataset.verdict === verdict.value)));
    const count = shown.size, top = new Map();
    for (const claim of [...shown]) shown.add(rowOf(claim));
    for (const [line, paper, claim] of lines) if (shown.has(claim)) shown.add(line).add(paper);
    let height = 0;
    for (const side of all(".side")) {
      let head, y = 0;
      for (const item of side.children) {
        if (item.matches(".head")) head = item;
        else if (shown.has(item)) shown.add(head);
      }
      for (const item of [...side.children].filter((each) => shown.has(each))) {
        top.set(item, y);
        item.setAttribute("transform", `translate(0,${y})`);
        y += Number(item.matches(".head") ? svg.dataset.head : svg.dataset.row);
      }
      height = Math.max(height, y);
    }
    svg.setAttribute("viewBox", `0 0 ${svg.viewBox.baseVal.width} ${height}`);
    for (const e of [...all(".side > *"), ...claims, ...lines.map(([line]) => line)])
      e.style.display = shown.has(e) ? "" : "none";
    for (const [line, paper, claim] of lines) {
      if (!shown.has(line)) continue;
      const [a, b] = [paper, rowOf(claim)].map((e) => top.get(e) + svg.dataset.row / 2);
      const x = line.getAttribute("d").split(/,[\d.]+/);
      line.setAttribute("d", `${x[0]},${a}${x[1]},${a}${x[2]},${b}${x[3]},${b}${x[4]}`);
    }
    const chosen = part.value || verdict.value, kept = papers.filter((paper) => shown.has(paper));
    for (const place of all("[id^=paper-]", document))
      place.closest("tr").hidden = chosen && !kept.some((p) => p.id.slice(4) === place.id.slice(6));
    told.textContent = `${count} claims, ${kept.length} papers`;
  };

  /** Light what was chosen, its lines and their other ends; nothing chosen: all alike. */
  const light = (chosen) => {
    for (const e of all(".on")) e.classList.remove("on");
    svg.classList.toggle("lit", chosen.length > 0);
    for (const e of chosen) e.classList.add("on");
    for (const ends of lines)
      if (chosen.some((e) => ends.includes(e))) for (const e of ends) e.classList.add("on");
  };
  const near = (event) => {
    const link = event.target.closest("a");
    if (!link) return light([]);
    light(link.matches(".chapter") ? [...rowOf(link).children] : [link]);
  };
  const named = () => {
    const e = document.getElementById(location.hash.slice(1));
    if (e && svg.contains(e)) light([e]);
  };
  for (const kind of ["pointerover", "focusin"]) svg.addEventListener(kind, near);
  for (const kind of ["pointerleave", "focusout"]) svg.addEventListener(kind, () => light([]));
  for (const list of [part, verdict]) list.addEventListener("change", choose);
  addEventListener("hashchange", named);
  figure.querySelector("fieldset").style.visibility = "visible";
  choose();
  named();
})();
