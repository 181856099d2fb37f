"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  // The buttons are named one by one: plotly's own set also uploads figures to its makers' cloud ("Share chart...").
  const config = {
    responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "",
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  const phone = window.matchMedia("(max-width: 600px)");
  const drawn = (figure) => {
    const instead = phone.matches && figure.narrow;
    const layout = { ...figure.layout, ...(instead || {}), template: report.template };
    const place = document.getElementById("plot-" + figure.key);
    place.style.height = layout.height + "px";
    Plotly.react(place, figure.data, layout, instead ? { ...config, displayModeBar: false } : config);
  };
  report.figures.forEach(drawn);
  phone.addEventListener("change", () => report.figures.filter((figure) => figure.narrow).forEach(drawn));

  const power = report.power;
  if (!power) return;
  const runs = document.getElementById("power-run");
  const devices = document.getElementById("power-device");
  const fill = (select, names) => select.replaceChildren(...names.map((name, index) => new Option(name, index)));

  const draw = () => {
    const device = power.runs[runs.value].devices[devices.value];
    const seen = device.w.filter((watts) => watts !== null);
    // A loop, not Math.max(...seen): thousands of arguments overflow some browsers' stacks.
    let top = 1;
    for (const watts of seen) if (watts > top) top = watts;
    top *= 1.08;
    const shading = Object.entries(device.phases).map(([phase, borders]) => {
      const x = [], y = [];
      for (let i = 0; i < borders.length; i += 2) {
        x.push(borders[i], borders[i], borders[i + 1], borders[i + 1], null);
        y.push(0, top, top, 0, null);
      }
      return {
        type: "scatter", mode: "lines", x, y, fill: "toself", fillcolor: report.phaseColours[phase],
        line: { width: 0 }, opacity: 0.55, name: phase, hoverinfo: "skip",
      };
    });
    const line = {
      type: "scatter", mode: seen.length < 400 ? "lines+markers" : "lines", x: device.t, y: device.w, name: "power",
      line: { color: "#1d2733", width: 1.3 }, marker: { size: 3.5, color: "#1d2733" }, connectgaps: false,
      hovertemplate: "%{x:.3f} " + power.unit + ": %{y:.3f} W<extra></extra>",
    };
    const layout = {
      template: report.template, height: 420,
      xaxis: { title: { text: "device time since the start of the run, " + power.unit }, range: [0, device.end] },
      yaxis: { title: { text: "power, W" }, range: [0, top] },
      annotations: seen.length ? [] : [{ text: "no readings", x: 0.5, y: 0.5, xanchor: "center" }],
    };
    Plotly.react("plot-power", [...shading, line], layout, config);
  };
  const choose = () => {
    const kept = devices.value;
    const names = power.runs[runs.value].devices.map((device) => device.name);
    fill(devices, names);
    if (kept && kept < names.length) devices.value = kept;
    draw();
  };
  fill(runs, power.runs.map((run) => run.label));
  runs.addEventListener("change", choose);
  devices.addEventListener("change", draw);
  choose();
})();
