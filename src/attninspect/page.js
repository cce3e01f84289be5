// Tables sort by a click on a column's head; numbers by value, what is missing last.
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const th = button.parentElement, table = th.closest("table"), body = table.tBodies[0];
  const down = th.getAttribute("aria-sort") !== "descending";
  for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = row => { const cell = row.cells[th.cellIndex], n = cell.dataset.n;
    return n === undefined ? (cell.textContent === "\u2013" ? null : cell.textContent) : +n; };
  const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0)
    : typeof a === "number" ? -1 : 1;
  const rows = [...body.rows].map(row => [key(row), row]);
  rows.sort((a, b) => a[0] === null ? (b[0] === null ? 0 : 1) : b[0] === null ? -1
    : (down ? -1 : 1) * order(a[0], b[0]));
  body.append(...rows.map(pair => pair[1]));
});
// A long page begins with links to its sections.
const sections = [...document.querySelectorAll("main h2")];
if (sections.length > 2) {
  const nav = document.createElement("nav");
  nav.setAttribute("aria-label", "Sections");
  sections.forEach((title, i) => { const link = document.createElement("a");
    title.id ||= `section-${i + 1}`; link.href = `#${title.id}`; link.textContent = title.textContent;
    nav.append(link, " "); });
  document.querySelector("main h1").after(nav);
}
