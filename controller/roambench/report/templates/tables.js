"use strict";
(() => {
  // 1,234.5 ± 6.7 J; a number alone; a number with a unit.
  const QUANTITY = /^([+\-\u2212]?\d[\d,]*(?:\.\d+)?(?:e[+-]\d\d)?)(?: ± (\d[\d,]*(?:\.\d+)?))?(?: ([^\s\d(±]\S{0,9}))?$/;
  const NONE = "–";
  const plain = (number) => number.replaceAll(",", "").replace("\u2212", "-").replace(/^\+/, "");

  // Rows of cells: { text, value, u, unit }; `value` only where the cell is a number.
  const cellOf = (cell) => {
    const text = cell.textContent.replaceAll("\u00a0", " ").trim();
    const found = cell.matches("tbody td") ? QUANTITY.exec(text) : null;
    if (!found) return { text: text === NONE ? "" : text };
    return { text, value: plain(found[1]), u: found[2] ? plain(found[2]) : "", unit: found[3] ?? "" };
  };
  const read = (table) => {
    const [head, ...rows] = [...table.rows].map((row) => [...row.cells].map(cellOf));
    return { head: head.map((cell) => cell.text), rows };
  };

  // A column of numbers becomes up to three: value, uncertainty (what stands behind ±), unit.
  const csv = (table) => {
    const { head, rows } = read(table);
    const parts = head.map((name, column) => {
      const cells = rows.map((row) => row[column]);
      const has = (part) => cells.some((cell) => cell[part]);
      return [[has("u") ? name + " value" : name, (cell) => cell.value ?? cell.text],
        ...(has("u") ? [[name + " u", (cell) => cell.u ?? ""]] : []),
        ...(has("unit") ? [[name + " unit", (cell) => cell.unit ?? ""]] : [])];
    });
    const quoted = (text) => /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    // A spreadsheet must not take a name for a formula.
    const safe = (text) => quoted(/^[=@\t]|^[+-](?![\d.])/.test(text) ? "'" + text : text);
    const lines = [parts.flat().map(([name]) => safe(name))];
    for (const row of rows) lines.push(parts.flatMap((columns, at) => columns.map(([, part]) => safe(part(row[at])))));
    return lines.map((line) => line.join(",")).join("\n") + "\n";
  };

  const SIGNS = { "\\": "\\textbackslash{}", "^": "\\textasciicircum{}", "~": "\\textasciitilde{}", "±": "$\\pm$",
    "×": "$\\times$", "÷": "$\\div$", "≥": "$\\geq$", "≤": "$\\leq$", "²": "$^2$", "→": "$\\to$", "α": "$\\alpha$", "β": "$\\beta$",
    "∞": "$\\infty$", "–": "--", "·": "$\\cdot$", "°": "$^\\circ$", "σ": "$\\sigma$", "µ": "$\\mu$", "μ": "$\\mu$", "\u2212": "$-$" };
  const tex = (text) => text.replace(/[\\^~±×÷≥≤²→αβ∞–·°σµμ\u2212]|[&%$#_{}]/g, (sign) => SIGNS[sign] ?? "\\" + sign);
  const UNITS = { J: "\\joule", W: "\\watt", mW: "\\milli\\watt", s: "\\second", ms: "\\milli\\second", min: "\\minute", h: "\\hour",
    m: "\\metre", km: "\\kilo\\metre", "%": "\\percent", "°C": "\\degreeCelsius", MHz: "\\mega\\hertz", Hz: "\\hertz", V: "\\volt",
    A: "\\ampere", "Mbit/s": "\\mega\\bit\\per\\second", MB: "\\mega\\byte", MiB: "\\mebi\\byte" };
  const quantity = ({ text, value, u, unit }) => {
    if (value === undefined) return tex(text);
    const number = value + (u ? " \\pm " + u : "");
    if (!unit) return `\\num{${number}}`;
    return UNITS[unit] ? `\\qty{${number}}{${UNITS[unit]}}` : `\\num{${number}} ${tex(unit)}`;
  };
  // Wants booktabs and siunitx 3.
  const latex = (table) => {
    const { head, rows } = read(table);
    const numeric = (column) => table.rows[0].cells[column].classList.contains("n");
    const line = (cells) => "    " + cells.join(" & ") + " \\\\";
    const caption = [table.caption.textContent, described(table)].filter(Boolean).map((text) => text.replace(/[.:]?$/, ".")).join(" ");
    return ["% \\usepackage{booktabs, siunitx}", "\\begin{table}", "  \\centering", `  \\caption{${tex(caption)}}`,
      `  \\label{tab:${table.id.replace(/^table-/, "")}}`, `  \\begin{tabular}{${head.map((_, at) => numeric(at) ? "r" : "l").join("")}}`,
      "    \\toprule", line(head.map(tex)), "    \\midrule", ...rows.map((row) => line(row.map(quantity))),
      "    \\bottomrule", "  \\end{tabular}", "\\end{table}", ""].join("\n");
  };
  const described = (table) => document.getElementById(table.getAttribute("aria-describedby"))?.textContent.trim();

  const copied = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // A page from a server without TLS.
    const field = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (!done) throw new Error("refused");
  };
  document.addEventListener("click", async ({ target }) => {
    const form = target.dataset?.copy;
    if (!form) return;
    const table = target.closest(".table").querySelector("table");
    const said = document.getElementById("said"), name = target.textContent;
    try {
      await copied(form === "csv" ? csv(table) : latex(table));
      target.textContent = "copied";
      said.textContent = `${table.caption.textContent}: copied as ${name}`;
    } catch {
      target.textContent = "refused";
      said.textContent = "The browser refused to copy";
    }
    setTimeout(() => { target.textContent = name; }, 1500);
  });
})();
