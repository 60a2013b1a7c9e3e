"use strict";
// Every table sorts by a click on a head, and filters by words. Both act on the rows that the page came with.

// An element with children: strings become text, so no value of the data can be markup.
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Numbers by size, before words in alphabetical order, before empty cells; also when descending.
function compareCells(one, other, sign) {
  const [first, second] = [one, other].map((cell) => ({
    number: cell.dataset.value === undefined ? null : Number(cell.dataset.value),
    text: cell.textContent.trim().toLowerCase(),
  }));
  const rank = (cell) => (cell.number !== null ? 0 : cell.text ? 1 : 2);
  if (rank(first) !== rank(second)) return rank(first) - rank(second);
  if (first.number !== null) return sign * (first.number - second.number);
  return sign * (first.text < second.text ? -1 : first.text > second.text ? 1 : 0);
}

// Another click on the same head sorts the other way, a third restores the order of the page.
function makeSortable(table) {
  const original = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells];
  const next = { none: "ascending", ascending: "descending", descending: "none" };
  heads.forEach((head, column) => {
    const button = element("button", { type: "button" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = next[head.getAttribute("aria-sort") || "none"];
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const sorted = [...original];
      if (order !== "none") sorted.sort((a, b) => compareCells(a.cells[column], b.cells[column], sign));
      table.tBodies[0].append(...sorted);
    });
  });
}

// A row stays if it contains every word, in whatever case.
function makeFilter(table, tools) {
  const rows = [...table.tBodies[0].rows];
  const found = element("output", {});
  const field = element("input", { type: "search", autocomplete: "off" });
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    found.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  });
  tools.append(element("label", {}, "Filter ", field), found);
}

function equip(table) {
  if (table.tBodies[0].rows.length < 2) return;
  makeSortable(table);
  const tools = element("div", { class: "tools" });
  table.parentElement.before(tools);
  if (table.tBodies[0].rows.length > 8) makeFilter(table, tools);
}

document.querySelectorAll("main .wide table").forEach(equip);
// The keyboard scrolls what a finger does.
for (const box of document.querySelectorAll("main .wide")) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
}
// Who prints gets all notes, also from a browser whose style sheets can't open them.
const folds = [...document.querySelectorAll("main details")];
let closed = [];
addEventListener("beforeprint", () => {
  closed = folds.filter((one) => !one.open);
  closed.forEach((one) => { one.open = true; });
});
addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));
