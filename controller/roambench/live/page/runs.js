"use strict";
/* The list of runs: sorted by a column, filtered, compared. All text comes from run folders: it is set as text, never as
   markup. */
(() => {
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const MOST = 12;  // runs that are compared
  let columns = [], runs = [], shown = "";
  let by = "when", descending = true, where = "";
  const picked = new Set();

  const numeric = (column) => (column.kind === "number" ? "n" : undefined);
  const cellOf = (run, name) => (run.cells[name] || [null, "–"]);
  const sorted = () => {
    const value = (run) => cellOf(run, by)[0];
    const known = runs.filter((run) => value(run) !== null), others = runs.filter((run) => value(run) === null);
    const order = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
    known.sort((a, b) => (descending ? order(b, a) : order(a, b)));
    return known.concat(others);
  };

  const heading = () => {
    const cells = columns.map((column) => {
      const cell = make("th", undefined, numeric(column)), button = make("button", column.title, "sort");
      cell.scope = "col";
      cell.setAttribute("aria-sort", column.name !== by ? "none" : descending ? "descending" : "ascending");
      button.type = "button";
      button.addEventListener("click", () => {
        descending = column.name === by ? !descending : column.kind !== "text";
        by = column.name;
        heading();
        rows();
        $("head").querySelector(`th:nth-child(${columns.indexOf(column) + 2}) button`).focus();
      });
      cell.append(button);
      return cell;
    });
    const pick = make("td");
    pick.append(make("span", "compare", "unseen"));
    $("head").replaceChildren(pick, ...cells);
  };
  const nameOf = (run) => {
    const cell = make("th"), link = make("a", run.setting || run.name, "name");
    cell.scope = "row";
    link.href = "/?run=" + encodeURIComponent(run.name);
    cell.append(link);
    if (run.report) {
      const report = make("a", "report", "more");
      report.href = "/report?run=" + encodeURIComponent(run.name);
      cell.append(" ", report);
    }
    for (const text of [run.setting && run.name, run.reason, run.problem]) if (text) cell.append(make("span", text, "note"));
    return cell;
  };
  const rowOf = (run) => {
    const row = make("tr"), pick = make("td"), box = make("input");
    box.type = "checkbox";
    box.checked = picked.has(run.name);
    box.disabled = !box.checked && picked.size >= MOST;
    box.setAttribute("aria-label", "compare " + run.name);
    box.addEventListener("change", () => {
      picked[box.checked ? "add" : "delete"](run.name);
      for (const other of document.querySelectorAll("#runs input")) other.disabled = !other.checked && picked.size >= MOST;
      compare();
    });
    pick.append(box);
    row.append(pick, nameOf(run));
    for (const column of columns.slice(1)) {
      const cell = make("td", undefined, numeric(column)), text = cellOf(run, column.name)[1];
      cell.append(column.name === "state" && run.state ? make("span", text, "state " + run.state) : text);
      row.append(cell);
    }
    return row;
  };
  const rows = () => $("runs").replaceChildren(...sorted().map(rowOf));

  const compare = async () => {
    $("compared").hidden = picked.size < 2;
    if (picked.size < 2) return;
    const query = [...picked].map((name) => "run=" + encodeURIComponent(name)).join("&");
    const found = await (await fetch("/figures.json?" + query)).json();
    const head = ["figure", ...found.runs].map((text, index) => {
      const cell = make(index ? "th" : "td", text, index ? "n" : undefined);
      if (index) cell.scope = "col";
      return cell;
    });
    $("compared-head").replaceChildren(...head);
    $("compared-rows").replaceChildren(...found.rows.map((texts) => {
      const row = make("tr");
      texts.forEach((text, index) => {
        const cell = make(index ? "td" : "th", text, index ? "n" : undefined);
        if (!index) cell.scope = "row";
        row.append(cell);
      });
      return row;
    }));
    $("command").textContent = found.command;
  };

  const show = async () => {
    const lead = $("lead");
    let answer, text;
    try {
      answer = await fetch("/runs.json?where=" + encodeURIComponent(where));
      text = await answer.text();
    } catch {
      lead.textContent = "roambench watch has ended: start it again to see the runs.";
      return;
    }
    $("wrong").textContent = answer.ok ? "" : text;
    $("where").setAttribute("aria-invalid", String(!answer.ok));
    if (!answer.ok || text === shown) return;  // what has not changed keeps the focus where it is
    shown = text;
    runs = JSON.parse(text);
    lead.textContent = (runs.length === 1 ? "1 run; " : runs.length + " runs; ") + "a run that goes on is followed, one that is over can be replayed.";
    rows();
  };
  $("filter").addEventListener("submit", (event) => {
    event.preventDefault();
    where = $("where").value.trim();
    show();
  });
  $("where").addEventListener("search", () => $("filter").requestSubmit());
  const begin = async () => {
    columns = await (await fetch("/columns.json")).json();
    heading();
    await show();
    setInterval(show, 5000);
  };
  begin();
})();
