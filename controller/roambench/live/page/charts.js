"use strict";
/* Small charts on canvas: lines, a grid of cells, a map. Colours are the page's CSS variables. */
const charts = (() => {
  let palette = {};
  const colour = (name) => {
    if (!(name in palette)) palette[name] = getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim() || "#888";
    return palette[name];
  };
  const forget = () => { palette = {}; };

  /* A context in CSS pixels, cleared; null while the canvas is not shown. */
  const begin = (canvas, height) => {
    const width = canvas.clientWidth;
    if (height) canvas.style.height = height + "px";
    const tall = height || canvas.clientHeight;
    if (!width || !tall) return null;
    const scale = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * scale), Math.round(tall * scale)];
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, tall);
    pen.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
    pen.lineJoin = "round";
    return { pen, width, height: tall };
  };

  const ticks = (low, high, count, whole) => {
    const span = high - low || 1;
    const raw = whole ? Math.max(1, span / count) : span / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = (whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map((m) => m * power).find((s) => s >= raw * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-6; k++) found.push(k * step);
    return found;
  };
  const words = (value) => {
    const size = Math.abs(value);
    if (size >= 1000) return value.toLocaleString("en-GB", { maximumFractionDigits: 0 });
    return String(Number(value.toPrecision(4)));
  };

  /* Lines over a common x. spec: x, y {low, high, label, text}, lines [{points [[x, y|null]], colour, dash, width, dots}],
     marks [{y, text}], at (a vertical line), empty (what to say without points). */
  const lines = (canvas, spec) => {
    const area = begin(canvas);
    if (!area) return;
    const { pen, width, height } = area;
    const seen = spec.lines.flatMap((line) => line.points).filter((point) => point[1] !== null);
    if (!seen.length) {
      pen.fillStyle = colour("soft");
      pen.textAlign = "center";
      pen.fillText(spec.empty, width / 2, height / 2, width - 20);
      canvas.setAttribute("aria-label", spec.label + ": " + spec.empty);
      return;
    }
    let [xLow, xHigh, yLow, yHigh] = [spec.x.low ?? Infinity, spec.x.high ?? -Infinity, spec.y.low ?? Infinity, spec.y.high ?? -Infinity];
    for (const [x, y] of seen) {
      if (x < xLow) xLow = x;
      if (x > xHigh) xHigh = x;
      if (y < yLow) yLow = y;
      if (y > yHigh) yHigh = y;
    }
    if (xHigh <= xLow) xHigh = xLow + 1;
    if (spec.x.high === undefined) xHigh += (xHigh - xLow) * 0.03;
    if (spec.y.high === undefined) yHigh = yLow + (yHigh - yLow || 1) * 1.08;
    const yTicks = ticks(yLow, yHigh, 4);
    const text = (axis, value) => (axis.text ? axis.text(value) : words(value));
    const left = Math.max(...yTicks.map((tick) => pen.measureText(text(spec.y, tick)).width)) + 10;
    const box = { x: left, y: 26, w: width - left - 12, h: height - 26 - 36 };
    const px = (x) => box.x + ((x - xLow) / (xHigh - xLow)) * box.w;
    const py = (y) => box.y + box.h - ((y - yLow) / (yHigh - yLow)) * box.h;
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    for (const tick of yTicks) {
      pen.strokeStyle = colour("line");
      pen.beginPath(); pen.moveTo(box.x, Math.round(py(tick)) + 0.5); pen.lineTo(box.x + box.w, Math.round(py(tick)) + 0.5); pen.stroke();
      pen.fillStyle = colour("soft"); pen.textAlign = "right";
      pen.fillText(text(spec.y, tick), box.x - 6, py(tick));
    }
    pen.textBaseline = "top";
    for (const tick of ticks(xLow, xHigh, Math.max(2, Math.floor(box.w / 90)), spec.x.whole)) {
      const label = text(spec.x, tick);
      const half = pen.measureText(label).width / 2;
      pen.fillStyle = colour("soft"); pen.textAlign = "center";
      pen.fillText(label, Math.min(px(tick), width - half - 1), box.y + box.h + 6);
    }
    pen.textAlign = "right";
    pen.fillText(spec.x.label, box.x + box.w, box.y + box.h + 21);
    pen.textAlign = "left";
    pen.fillText(spec.y.label, 0, 0);
    for (const mark of spec.marks || []) {
      if (mark.y < yLow || mark.y > yHigh) continue;
      pen.strokeStyle = colour("soft"); pen.setLineDash([2, 4]);
      pen.beginPath(); pen.moveTo(box.x, py(mark.y)); pen.lineTo(box.x + box.w, py(mark.y)); pen.stroke();
      pen.setLineDash([]);
      pen.fillStyle = colour("soft"); pen.textAlign = "left"; pen.textBaseline = "bottom";
      pen.fillText(mark.text, box.x + 4, py(mark.y) - 2);
    }
    if (spec.at !== undefined && spec.at !== null) {
      pen.strokeStyle = colour("accent"); pen.lineWidth = 1.5;
      pen.beginPath(); pen.moveTo(px(spec.at), box.y); pen.lineTo(px(spec.at), box.y + box.h); pen.stroke();
    }
    pen.save();
    pen.beginPath(); pen.rect(box.x - 4, box.y - 6, box.w + 10, box.h + 12); pen.clip();
    for (const line of spec.lines) {
      pen.strokeStyle = pen.fillStyle = colour(line.colour);
      pen.lineWidth = line.width || 2;
      pen.setLineDash(line.dash || []);
      pen.beginPath();
      let down = false;
      for (const [x, y] of line.points) {
        if (y === null) { down = false; continue; }
        if (down) pen.lineTo(px(x), py(y)); else pen.moveTo(px(x), py(y));
        down = true;
      }
      pen.stroke();
      pen.setLineDash([]);
      const there = line.points.filter((point) => point[1] !== null);
      if (line.dots && there.length < 60) for (const [x, y] of there) { pen.beginPath(); pen.arc(px(x), py(y), 2.6, 0, 7); pen.fill(); }
      if (line.end && there.length) {
        const [x, y] = there[there.length - 1];
        pen.beginPath(); pen.arc(px(x), py(y), 4.2, 0, 7); pen.fill();
      }
    }
    pen.restore();
    canvas.setAttribute("aria-label", spec.label);
  };

  /* Of more rows than pixels each pixel once: the last cell there, in runs of one colour. */
  const dense = (pen, box, spec, cw, ch) => {
    const wide = Math.ceil(box.w), tall = Math.ceil(box.h), names = [], pixels = new Uint8Array(wide * tall);
    for (const [column, row, name] of spec.cells) {
      let number = names.indexOf(name) + 1;
      if (!number) number = names.push(name);
      const y = wide * Math.floor(row * ch), x = Math.floor(column * cw);
      pixels.fill(number, y + x, y + Math.max(x + 1, Math.min(wide, Math.floor((column + 1) * cw))));
    }
    names.forEach((name, number) => {
      pen.fillStyle = colour("outcome-" + name);
      for (let at = 0; at < pixels.length; at++) {
        if (pixels[at] !== number + 1) continue;
        const from = at, end = (Math.floor(at / wide) + 1) * wide;
        while (at + 1 < end && pixels[at + 1] === number + 1) at++;
        pen.fillRect(box.x + from % wide, box.y + Math.floor(from / wide), at - from + 1, 1);
      }
    });
  };

  /* Cells by column and row. spec: columns, rows, names, cells [[column, row, colour]], at, label, xLabel. */
  const grid = (canvas, spec) => {
    const named = spec.rows <= 40;
    const tall = Math.max(120, Math.min(460, spec.rows * (named ? 20 : 3) + 40));
    const area = begin(canvas, tall);
    if (!area) return;
    const { pen, width } = area;
    let left = 4;
    if (named) {
      left = Math.min(width * 0.3, Math.max(20, ...spec.names.map((name) => pen.measureText(name).width)) + 10);
    }
    const box = { x: left, y: 4, w: width - left - 6, h: tall - 36 };
    const [cw, ch] = [box.w / Math.max(1, spec.columns), box.h / Math.max(1, spec.rows)];
    pen.textBaseline = "middle"; pen.textAlign = "right";
    for (let row = 0; row < spec.rows; row++) {
      if (named) {
        pen.fillStyle = colour("soft");
        pen.fillText(spec.names[row], left - 6, box.y + (row + 0.5) * ch, left - 8);
        pen.strokeStyle = colour("line"); pen.lineWidth = 1;
        pen.beginPath(); pen.moveTo(box.x, box.y + (row + 0.5) * ch); pen.lineTo(box.x + box.w, box.y + (row + 0.5) * ch); pen.stroke();
      }
    }
    if (spec.at !== null) {
      pen.fillStyle = colour("hover");
      pen.fillRect(box.x + spec.at * cw, box.y, cw, box.h);
    }
    const gap = Math.min(2, cw * 0.15);
    const thick = Math.max(1, Math.min(ch * 0.72, 14));
    if (ch < 1) dense(pen, box, spec, cw, ch);
    else for (const [column, row, name] of spec.cells) {
      pen.fillStyle = colour("outcome-" + name);
      const [x, y] = [box.x + column * cw + gap / 2, box.y + (row + 0.5) * ch - thick / 2];
      const w = Math.max(1, cw - gap);
      if (name === "pending" && thick > 5) {  // distinct by its form, too
        pen.lineWidth = 1.5; pen.strokeStyle = colour("outcome-" + name);
        pen.strokeRect(x + 1, y + 1, Math.max(1, w - 2), thick - 2);
      } else if (name === "wasted" && thick > 5) {
        pen.fillRect(x, y, w, thick);
        pen.strokeStyle = colour("outcome-mark"); pen.lineWidth = 1.6;
        pen.beginPath(); pen.moveTo(x, y + thick); pen.lineTo(x + w, y); pen.stroke();
      } else if (name === "failed" && thick > 5) {
        pen.fillRect(x, y, w, thick);
        pen.strokeStyle = colour("outcome-mark"); pen.lineWidth = 1.6;
        pen.beginPath(); pen.moveTo(x, y + thick); pen.lineTo(x + w, y); pen.moveTo(x, y); pen.lineTo(x + w, y + thick); pen.stroke();
      } else pen.fillRect(x, y, w, thick);
    }
    pen.fillStyle = colour("soft"); pen.textBaseline = "top"; pen.textAlign = "center";
    for (const tick of ticks(1, Math.max(2, spec.columns), Math.max(2, Math.floor(box.w / 90)), true)) {
      pen.fillText(String(tick), box.x + (tick - 0.5) * cw, box.y + box.h + 4);
    }
    pen.textAlign = "right";
    pen.fillText("step", box.x + box.w, box.y + box.h + 17);
    canvas.setAttribute("aria-label", spec.label);
  };

  /* Access points and devices on a plane. spec: aps [[x, y]], devices [{x, y, from, ap, colour, name}], links [[device, device]], label, empty. */
  const map = (canvas, spec) => {
    const area = begin(canvas);
    if (!area) return;
    const { pen, width, height } = area;
    const all = [...spec.aps, ...spec.bounds];
    if (!all.length) {
      pen.fillStyle = colour("soft"); pen.textAlign = "center";
      pen.fillText(spec.empty, width / 2, height / 2, width - 20);
      canvas.setAttribute("aria-label", spec.empty);
      return;
    }
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [x, y] of all) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
    const edge = 24;
    const scale = Math.min((width - 2 * edge) / (x1 - x0 || 1), (height - 2 * edge - 14) / (y1 - y0 || 1));
    const [ox, oy] = [(width - (x1 - x0) * scale) / 2, (height - 14 - (y1 - y0) * scale) / 2];
    const px = (x) => ox + (x - x0) * scale;
    const py = (y) => height - 14 - oy - (y - y0) * scale;
    pen.strokeStyle = colour("muted"); pen.lineWidth = 1.8;
    for (const [one, other] of spec.links) {
      pen.beginPath(); pen.moveTo(px(one.x), py(one.y)); pen.lineTo(px(other.x), py(other.y)); pen.stroke();
    }
    const used = new Set(spec.devices.map((device) => device.ap));
    for (const device of spec.devices) {
      const ap = spec.aps[device.ap];
      if (ap) {
        pen.strokeStyle = colour("muted"); pen.lineWidth = 1;
        pen.beginPath(); pen.moveTo(px(device.x), py(device.y)); pen.lineTo(px(ap[0]), py(ap[1])); pen.stroke();
      }
      if (device.from) {
        pen.strokeStyle = colour("line"); pen.lineWidth = 2; pen.setLineDash([2, 4]);
        pen.beginPath(); pen.moveTo(px(device.from[0]), py(device.from[1])); pen.lineTo(px(device.x), py(device.y)); pen.stroke();
        pen.setLineDash([]);
      }
    }
    spec.aps.forEach(([x, y], place) => {
      const [cx, cy] = [px(x), py(y)];
      pen.fillStyle = colour(used.has(place) ? "soft" : "line");
      pen.beginPath(); pen.moveTo(cx, cy - 6); pen.lineTo(cx + 5.5, cy + 4); pen.lineTo(cx - 5.5, cy + 4); pen.closePath(); pen.fill();
    });
    const few = spec.devices.length <= 40;
    const taken = [];
    pen.textAlign = "left"; pen.textBaseline = "middle";
    for (const device of spec.devices) {
      const [x, y] = [px(device.x), py(device.y)];
      pen.fillStyle = colour(device.colour); pen.strokeStyle = colour("soft"); pen.lineWidth = 1;
      pen.beginPath(); pen.arc(x, y, few ? 6 : 4, 0, 7); pen.fill(); pen.stroke();
      if (!few) continue;
      const wide = pen.measureText(device.name).width;
      const at = x + 10 + wide > width ? x - 10 - wide : x + 10;
      if (taken.some(([tx, ty, tw]) => Math.abs(ty - y) < 12 && at < tx + tw && tx < at + wide)) continue;
      taken.push([at, y, wide]);
      pen.strokeStyle = colour("paper"); pen.lineWidth = 4;
      pen.strokeText(device.name, at, y);
      pen.fillStyle = colour("ink");
      pen.fillText(device.name, at, y);
    }
    const metres = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000].find((m) => m * scale > 60) || 100000;
    pen.strokeStyle = pen.fillStyle = colour("soft"); pen.lineWidth = 1.5;
    pen.beginPath(); pen.moveTo(8, height - 8); pen.lineTo(8 + metres * scale, height - 8); pen.stroke();
    pen.textBaseline = "bottom";
    if (spec.scale) pen.fillText(metres < 1000 ? metres + " m" : metres / 1000 + " km", 8, height - 11);
    canvas.setAttribute("aria-label", spec.label);
  };

  /* Many devices as squares. spec: squares [{colour, ring}], label. */
  const crowd = (canvas, spec) => {
    const size = spec.squares.length > 400 ? 9 : 14;
    const across = Math.max(1, Math.floor((canvas.clientWidth || 300) / (size + 2)));
    const area = begin(canvas, Math.ceil(spec.squares.length / across) * (size + 2));
    if (!area) return;
    spec.squares.forEach((square, place) => {
      const [x, y] = [(place % across) * (size + 2), Math.floor(place / across) * (size + 2)];
      area.pen.fillStyle = colour(square.colour);
      area.pen.fillRect(x, y, size, size);
      if (square.ring) { area.pen.strokeStyle = colour("bad"); area.pen.lineWidth = 2; area.pen.strokeRect(x + 1, y + 1, size - 2, size - 2); }
    });
    canvas.setAttribute("aria-label", spec.label);
  };

  return { lines, grid, map, crowd, forget };
})();
