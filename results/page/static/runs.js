"use strict";
// A click on a value opens its runs: their curves together, then settings, environment, attempts and log of each.

const DATA = JSON.parse(document.getElementById("runs-data").textContent);
const dialog = document.getElementById("run");
const kept = new Set(); // numbers of runs that stay in the chart while others are opened

function factsList(pairs) {
  const items = Object.entries(pairs).flatMap(([name, value]) => [
    element("dt", {}, name), element("dd", {}, value),
  ]);
  return element("dl", {}, ...items);
}

function attemptsTable(attempts) {
  const names = Object.keys(Object.assign({}, ...attempts));
  const head = element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)));
  const rows = attempts.map((one) =>
    element("tr", {}, ...names.map((name) => element("td", {}, one[name] || ""))));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  return element("div", { class: "wide" }, table);
}

function details(run, open) {
  const made = element("details", {}, element("summary", {}, `${run.label} (${run.key})`));
  const fill = () => {
    if (made.childElementCount > 1) return;
    made.append(factsList(run.facts));
    const parts = [
      ["Settings", factsList({ ...DATA.configs[run.base], ...run.changed })],
      ["Environment", factsList(DATA.environments[run.environment])],
      ["Attempts", attemptsTable(run.attempts)],
      ["End of the log", element("pre", {}, run.log || "There is no log.")],
    ];
    for (const [title, body] of parts) {
      if (body.childElementCount || body.tagName === "PRE") made.append(element("h4", {}, title), body);
    }
  };
  made.addEventListener("toggle", fill);
  if (open) fill();
  made.open = open;
  return made;
}

function chooser(label, control) {
  return element("label", {}, label, " ", control);
}

function chart(numbers) {
  const box = element("div", { class: "chart" });
  const kind = element("select", {}, element("option", { value: "train" }, "training loss"),
    element("option", { value: "val" }, "validation loss"));
  const smooth = element("input", { type: "checkbox" });
  const keep = element("input", { type: "checkbox" });
  smooth.checked = true;
  // Others' runs may have evaluations only.
  if (!numbers.some((number) => DATA.runs[number].curves.train)) kind.value = "val";
  keep.checked = numbers.every((number) => kept.has(number));
  const draw = () => {
    const shown = [...new Set([...kept, ...numbers])].map((number) => DATA.runs[number]);
    drawCurves(box, shown, DATA.styles, kind.value, smooth.checked && kind.value === "train");
  };
  kind.addEventListener("change", draw);
  smooth.addEventListener("change", draw);
  keep.addEventListener("change", () => {
    numbers.forEach((number) => (keep.checked ? kept.add(number) : kept.delete(number)));
    draw();
  });
  const tools = element("div", { class: "tools" }, chooser("Show", kind), chooser("Smooth", smooth),
    chooser("Keep in the chart to compare with others", keep));
  return { parts: [tools, box], draw };
}

function openRuns(numbers, title) {
  const drawn = chart(numbers);
  const runs = numbers.map((number) => DATA.runs[number]);
  document.getElementById("run-title").textContent = title;
  dialog.querySelector(".body").replaceChildren(
    ...drawn.parts, ...runs.map((run) => details(run, runs.length === 1)));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  drawn.draw(); // the chart needs the width of the open dialog
}

function titleOf(cell) {
  const table = cell.closest("table");
  const head = table.tHead.rows[0].cells[cell.cellIndex].textContent;
  const row = cell.parentElement.querySelector("th") || cell.parentElement.cells[0];
  const caption = table.querySelector(".workload") || table.caption;
  return [caption.textContent, row.textContent, head].filter((word, i, all) => all.indexOf(word) === i).join(" \u00b7 ");
}

function numbersOf(cell) {
  return cell.dataset.runs.split(" ").map(Number);
}

// Of a row of a grid the chosen step, of any other the first value that has runs.
function mainRuns(row) {
  const cell = row.querySelector("td[data-runs][data-chosen]") || row.querySelector("td[data-runs]");
  return cell ? numbersOf(cell) : [];
}

// `report.html#run-KEY` opens a run.
function openAddressed() {
  const number = DATA.runs.findIndex((run) => location.hash === `#run-${run.key}`);
  if (number >= 0) openRuns([number], DATA.runs[number].label);
}

for (const cell of document.querySelectorAll("td[data-runs]")) {
  const value = [...cell.childNodes].filter((node) => node.nodeName !== "SUP");
  cell.prepend(element("button", { type: "button", class: "open" }, ...value));
}
for (const tools of document.querySelectorAll("main .tools")) {
  const rows = [...tools.nextElementSibling.querySelectorAll("tbody tr")];
  const numbers = [...new Set(rows.flatMap(mainRuns))];
  if (numbers.length < 2 || tools.closest("#runs")) continue;
  const button = element("button", { type: "button" }, "Curves of all rows");
  button.addEventListener("click", () =>
    openRuns(numbers, tools.nextElementSibling.querySelector("caption").textContent));
  tools.append(button);
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.open");
  if (button) openRuns(numbersOf(button.parentElement), titleOf(button.parentElement));
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog || event.target.closest("button.close")) dialog.close();
});
addEventListener("hashchange", openAddressed);
openAddressed();
