// Only a convenience: a click on a table's heading sorts its rows. The page is complete without it.
(() => {
  "use strict";
  const value = (row, column) => row.cells[column].textContent.trim();
  const figure = (text) => {
    const found = text.replace(/,/g, "").match(/^[+-]?\d+(\.\d+)?(e[+-]?\d+)?/i);
    return found ? parseFloat(found[0]) : NaN;
  };
  const sort = (head) => {
    const table = head.closest("table"), body = table.tBodies[0], column = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== "ascending";
    const rows = [...body.rows].sort((one, other) => {
      const a = value(one, column), b = value(other, column), x = figure(a), y = figure(b);
      const order = Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
      return up ? order : -order;
    });
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...rows);
  };
  for (const head of document.querySelectorAll("thead th")) {
    if (head.closest("table").tBodies[0].rows.length < 3) continue;
    head.setAttribute("aria-sort", "none");
    head.tabIndex = 0;
    head.title = "Sort by this column";
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(head); }
    });
  }
})();
