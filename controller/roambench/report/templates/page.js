"use strict";
(async () => {
  const element = (id) => document.getElementById(id);
  const root = document.documentElement;
  const inflated = async (id) => {
    const bytes = Uint8Array.from(atob(element(id).textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const places = [...document.querySelectorAll(".plot")];
  if (!places.length) return;
  let report;
  try {
    report = JSON.parse(await inflated("report-data"));
    const script = document.createElement("script");
    script.textContent = await inflated("plotly");
    document.head.append(script);
  } catch {
    for (const place of places) place.innerHTML = '<p class="failed">This browser is too old to draw figures. The tables are complete.</p>';
    return;
  }

  // Figures name their colours: var(--run-1). The style sheet has them, by day, by night and for paper.
  const painted = (value, style) => {
    if (typeof value === "string")
      return value.includes("var(") ? value.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim()) : value;
    if (Array.isArray(value)) return typeof value[0] === "number" && typeof value[1] !== "string" ? value : value.map((part) => painted(part, style));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, painted(part, style)]));
  };

  // The buttons are named one by one: plotly's own set also uploads figures to its makers' cloud ("Share chart...").
  const config = {
    responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "",
    modeBarButtons: [["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  const phone = window.matchMedia("(max-width: 600px)");

  // --- what each figure is now
  const figures = new Map(report.figures.map((figure) => [figure.key, figure]));
  const now = (key, paper) => {
    const { data, layout, narrow } = key === "power" && power ? powerFigure() : figures.get(key);
    if (phone.matches) return { data, layout: roomy(data, { ...layout, ...narrow }) };
    return { data, layout: paper && layout.xaxis3 ? { ...layout, ...narrow } : layout }; // three beside each other: too many
  };
  // On a phone a legend has a row for each name, and the plot keeps its height.
  const roomy = (data, layout) => {
    const names = layout.showlegend === false ? 0 : data.filter((trace) => trace.name && trace.showlegend !== false).length;
    if (names < 3 || layout.legend?.orientation === "v") return layout;
    return { ...layout, height: layout.height + 19 * names, legend: { ...layout.legend, maxheight: 19 * names + 20 } };
  };
  const drawn = new Set();
  const draw = async (place, paper) => {
    const { data, layout } = now(place.id.slice("plot-".length), paper);
    const style = getComputedStyle(root);
    const whole = painted({ ...layout, template: report.template }, style);
    if (paper) Object.assign(whole, { width: paper.width, height: Math.min(layout.height, paper.height) });
    place.style.height = whole.height + "px";
    drawn.add(place);
    const shown = phone.matches || paper ? { ...config, displayModeBar: false } : config;
    await Plotly.react(place, painted(data, style), whole, shown);
    place.dataset.drawn = "yes";
  };
  const drawAgain = () => { for (const place of drawn) draw(place); };

  // --- power over time, of one board at a time
  const power = report.power;
  const seconds = power && { s: 1, min: 60, h: 3600 }[power.unit];
  const series = new Map();
  const seriesOf = (device) => {
    if (!series.has(device)) {
      let at = 0;
      const t = device.t.map((step) => (at += step) / 1000 / seconds);
      series.set(device, { t, w: device.w.map((milliwatts) => milliwatts === null ? null : milliwatts / 1000) });
    }
    return series.get(device);
  };
  const powerFigure = () => {
    const device = power.runs[element("power-run").value].devices[element("power-device").value];
    const { t, w } = seriesOf(device);
    // A loop, not Math.max(...w): thousands of arguments overflow some browsers' stacks.
    let top = 1;
    for (const watts of w) if (watts > top) top = watts;
    top *= 1.08;
    const band = -0.07 * top;
    const areas = (borders, low, high) => {
      const x = [], y = [];
      for (let i = 0; i < borders.length; i += 2) {
        x.push(borders[i], borders[i], borders[i + 1], borders[i + 1], null);
        y.push(low, high, high, low, null);
      }
      return { type: "scatter", mode: "lines", x, y, fill: "toself", line: { width: 0 }, hoverinfo: "skip" };
    };
    const shading = Object.entries(device.phases).flatMap(([phase, borders]) => {
      const { colour, pattern } = report.phases[phase];
      return [
        { ...areas(borders, 0, top), fillcolor: colour, opacity: 0.3, name: phase, legendgroup: phase, showlegend: false },
        { ...areas(borders, band, 0), fillcolor: colour, fillpattern: { ...pattern, bgcolor: colour }, name: phase, legendgroup: phase },
      ];
    });
    const line = {
      type: "scatter", mode: w.length < 400 ? "lines+markers" : "lines", x: t, y: w, name: "power",
      line: { color: "var(--ink)", width: 1.3 }, marker: { size: 3.5, color: "var(--ink)" }, connectgaps: false,
      hovertemplate: "%{x:.3f} " + power.unit + ": %{y:.3f} W<extra></extra>",
    };
    const layout = {
      height: 420, uirevision: element("power-run").value + "/" + element("power-device").value,
      xaxis: { title: { text: (phone.matches ? "device time, " : "device time since the start of the run, ") + power.unit }, range: [0, device.end] },
      yaxis: { title: { text: "power, W" }, range: [band, top] },
      annotations: w.some((watts) => watts !== null) ? [] : [{ text: "no readings", x: 0.5, y: 0.5, xanchor: "center" }],
    };
    return { data: [...shading, line], layout };
  };
  if (power) {
    const fill = (select, names) => select.replaceChildren(...names.map((name, index) => new Option(name, index)));
    const runs = element("power-run"), devices = element("power-device");
    const choose = () => {
      const kept = devices.value;
      const names = power.runs[runs.value].devices.map((device) => device.name);
      fill(devices, names);
      if (kept && kept < names.length) devices.value = kept;
    };
    fill(runs, power.runs.map((run) => run.label));
    choose();
    const redraw = () => draw(element("plot-power"));
    runs.addEventListener("change", () => { choose(); redraw(); });
    devices.addEventListener("change", redraw);
  }

  // --- drawn when a reader comes near; again for another width, by night, for paper
  const near = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) if (isIntersecting) { near.unobserve(target); draw(target); }
  }, { rootMargin: "900px" });
  places.forEach((place) => near.observe(place));
  phone.addEventListener("change", drawAgain);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);
  const PAPER_PX = { width: 640, height: 740 }; // what A4 and Letter have room for, a heading and a caption besides
  window.addEventListener("beforeprint", () => {
    root.classList.add("paper");
    for (const notes of document.querySelectorAll("details.routine")) notes.open = true;
    for (const place of places) draw(place, PAPER_PX);
  });
  window.addEventListener("afterprint", () => {
    root.classList.remove("paper");
    drawAgain();
  });

  // --- a figure as a file, always in the colours of paper
  document.addEventListener("click", async ({ target }) => {
    const { figure, format } = target.dataset ?? {};
    if (!figure) return;
    const place = element("plot-" + figure);
    root.classList.add("paper");
    let url;
    try {
      await draw(place);
      url = await Plotly.toImage(place, { format, width: place.clientWidth, height: place.clientHeight, scale: format === "png" ? 3 : 1 });
    } finally {
      root.classList.remove("paper");
      await draw(place);
    }
    const link = Object.assign(document.createElement("a"), { href: url, download: figure + "." + format });
    link.click();
  });

  // --- zoom and pan by keys: + - arrows, 0 for all of it
  const axes = (place) => Object.keys(place._fullLayout ?? {}).filter((name) => /^[xy]axis\d*$/.test(name));
  const moved = (place, letter, part, zoom) => {
    const change = {};
    for (const name of axes(place)) {
      const axis = place._fullLayout[name];
      if (axis.fixedrange || (letter && !name.startsWith(letter))) continue;
      const [low, high] = axis.range.map((end) => axis.r2l(end));
      const middle = (low + high) / 2 + part * (high - low), half = (high - low) / 2 * zoom;
      change[name + ".range"] = [axis.l2r(middle - half), axis.l2r(middle + half)];
    }
    return Plotly.relayout(place, change);
  };
  const KEYS = {
    ArrowLeft: ["x", -0.2, 1], ArrowRight: ["x", 0.2, 1], ArrowUp: ["y", 0.2, 1], ArrowDown: ["y", -0.2, 1],
    "+": ["", 0, 0.7], "-": ["", 0, 1 / 0.7],
  };
  document.addEventListener("keydown", (event) => {
    const place = event.target;
    if (!drawn.has(place) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in KEYS) moved(place, ...KEYS[event.key]);
    else if (event.key === "0") Plotly.relayout(place, now(place.id.slice("plot-".length)).layout && Object.fromEntries(axes(place).map((name) => [name + ".autorange", true])));
    else return;
    event.preventDefault();
  });
})();
