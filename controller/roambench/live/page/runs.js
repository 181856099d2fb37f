"use strict";
/* The list of runs. All text comes from run folders: it is set as text, never as markup. */
(() => {
  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const row = (run) => {
    const item = make("li");
    const link = make("a", run.name, "name");
    link.href = "/?run=" + encodeURIComponent(run.name);
    item.append(link);
    if (run.problem) {
      item.append(make("span", run.problem, "note"));
      return item;
    }
    item.append(make("span", run.state, "state " + run.state));
    const begun = run.created.slice(0, 16).replace("T", " ") + " UTC";
    item.append(make("span", `${run.system} · ${run.devices} devices, ${run.fleet} · ${begun}`, "note"));
    if (run.reason) item.append(make("span", run.reason, "note"));
    if (run.report) {
      const report = make("a", "report", "name");
      report.href = "/report?run=" + encodeURIComponent(run.name);
      item.append(report);
    }
    return item;
  };
  const show = async () => {
    const lead = document.getElementById("lead");
    try {
      const runs = await (await fetch("/runs.json")).json();
      lead.textContent = runs.length === 1 ? "1 run, " : runs.length + " runs, the newest first; ";
      lead.textContent += "a run that goes on is followed, one that is over can be replayed.";
      document.getElementById("runs").replaceChildren(...runs.map(row));
    } catch {
      lead.textContent = "roambench watch has ended: start it again to see the runs.";
    }
  };
  show();
  setInterval(show, 5000);
})();
