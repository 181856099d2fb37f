"use strict";
/* The live page: keeps what the stream says of one run, and shows it as of now or as of a past step.
   All text of a run may come from boards: it is set as text or drawn, never as markup. */
(() => {
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const PHASES = ["idle", "absent", "rest", "wait", "download", "decode", "train", "evaluate", "encode", "upload", "exchange", "off", "lost"];
  const DOING = { idle: "idle", absent: "absent", rest: "resting", wait: "waiting", download: "downloading", decode: "decoding", train: "training", evaluate: "evaluating", encode: "encoding", upload: "uploading", exchange: "exchanging", off: "off: no charge", lost: "agent down" };
  const WORK = new Set(["download", "decode", "train", "evaluate", "encode", "upload", "exchange"]);
  const MEASURED = new Set([...WORK, "rest"]);
  const MANY = 64;  // more boards than these are squares
  const wanted = new URLSearchParams(location.search).get("run") || "";

  let run = null;      // what is known of the run
  let at = null;       // the step shown; null: now
  let ahead = 0;       // the server's clock less ours, s
  let playing = null;

  // ---- the stream ------------------------------------------------------------------------------

  const noUpdates = () => ({ device: [], step: [], outcome: [], decided: [], reason: [], joules: [] });
  /* Numbers, devices and steps of local updates come as differences. */
  const learn = (sent) => {
    const known = run.updates;
    let number = 0, device = 0, step = 0;
    sent.number.forEach((more, k) => {
      number += more; device += sent.device[k]; step += sent.step[k];
      known.device[number] = device; known.step[number] = step; known.outcome[number] = sent.outcome[k];
      known.decided[number] = step + sent.after[k]; known.reason[number] = sent.reasons[sent.why[k]]; known.joules[number] = sent.joules[k] || 0;
    });
  };
  const fresh = () => ({ name: "", head: {}, now: {}, ghost: {}, steps: new Map(), places: new Map(), asked: new Set(), links: new Map(), charges: new Map(), updates: noUpdates(), boards: [], cells: new Map(), events: [], power: new Map() });
  const apply = (message) => {
    if (message.failed) { say(message.failed, true); if (!run) $("lead").textContent = message.failed; return; }
    const moved = message.whole && (!run || run.name !== message.name);
    if (message.whole) run = Object.assign(fresh(), { name: message.name, ghost: message.ghost, report: message.report });
    if (!run) return;
    if (moved) { at = null; stop(); }
    if (message.head) run.head = message.head;
    if (message.now) { run.now = message.now; ahead = message.now.t - Date.now() / 1000; }
    for (const row of message.steps || []) run.steps.set(row[0], row);
    for (const row of message.places || []) run.places.set(row[0], row);
    for (const row of message.links || []) run.links.set(row[0], row[1]);
    for (const row of message.charges || []) run.charges.set(row[0], row);
    if (message.updates && message.updates.number) learn(message.updates);
    for (const row of message.boards || []) run.boards[row[0]] = row;
    for (const row of message.cells || []) run.cells.set(row[0] + ":" + row[1], row);
    for (const row of message.events || []) run.events.push(row);
    for (const [device, width, first, means] of message.power || []) {
      const known = run.power.get(device);
      if (!known || known.width !== width || first === 0) run.power.set(device, { width, means: first ? (known ? known.means.slice(0, first) : []).concat(means) : means });
      else known.means.splice(first, Infinity, ...means);
    }
    say("");
    if (message.head || moved) setUp();
    draw();
  };
  const say = (text, off) => {
    $("link").textContent = text;
    $("link").classList.toggle("off", !!off);
  };
  /* Where devices are, and what boards drew, is asked for of the step that is shown. */
  const isThere = (step) => step < 0 || run.places.has(step);
  const ask = async (step) => {
    const its = run;
    if (its.asked.has(step)) return;
    its.asked.add(step);
    try {
      const answer = await fetch(`/steps/${step}?run=${encodeURIComponent(its.name)}`);
      const message = await answer.json();
      if (its === run) apply(message);
    } catch { its.asked.delete(step); }  // where the server is gone, the stream says it
  };
  const connect = () => {
    const stream = new EventSource("/stream?run=" + encodeURIComponent(wanted));
    stream.onmessage = (event) => apply(JSON.parse(event.data));
    stream.onerror = () => say("no connection to roambench watch; what is shown is the last that came", true);
  };

  // ---- figures as of a step --------------------------------------------------------------------

  const isStep = (row) => row[10] !== null;  // not the time before the first step, or after the last
  const lastStep = () => Math.max(-1, ...[...run.steps.values()].filter(isStep).map((row) => row[0]));
  const shown = () => (at === null ? lastStep() : at);
  const isOver = () => run.head.state !== "running";
  const stepsTo = (step) => [...run.steps.values()].filter((row) => isStep(row) && row[0] <= step).sort((a, b) => a[0] - b[0]);
  const joulesTo = (step) => {
    let sum = 0, any = false;
    for (const row of run.steps.values()) if (row[8] !== null && row[0] <= step) { sum += row[8]; any = true; }
    return any ? sum : null;
  };
  /* Local updates up to a step: all, the ended ones and joules by outcome, why the last one ended so. */
  const outcomeAt = (update, step) => (run.updates.decided[update] <= step ? run.updates.outcome[update] : 0);
  const tally = (step) => {
    const names = run.head.outcomes, found = { all: 0, joules: 0 };
    for (const name of names) found[name] = { count: 0, joules: 0, reason: "" };
    run.updates.step.forEach((its, update) => {
      if (its > step) return;
      const joules = run.updates.joules[update], one = found[names[outcomeAt(update, step)]];
      found.all += 1; found.joules += joules;
      one.count += 1; one.joules += joules; one.reason = run.updates.reason[update];
    });
    return found;
  };
  const ghostAt = (step) => {
    const rows = (run.ghost.rows || []).filter((row) => row[0] <= step);
    return rows[rows.length - 1];
  };
  const joulesTitle = () => (run.head.basis === "modelled" ? run.head.titles.consumed_j : run.head.titles.whole_run_j + ", idling too");
  const energy = (joules) => {
    if (joules === null || joules === undefined) return ["–", ""];
    return Math.abs(joules) < 9999.5 ? [joules.toLocaleString("en-GB", { maximumFractionDigits: joules < 100 ? 1 : 0 }), "J"] : [(joules / 1000).toFixed(joules < 99950 ? 2 : 1), "kJ"];
  };
  const duration = (seconds) => {
    const s = Math.max(0, Math.round(seconds));
    if (s < 120) return s + " s";
    const [h, m] = [Math.floor(s / 3600), Math.floor(s / 60) % 60];
    return h ? h + " h " + String(m).padStart(2, "0") + " min" : m + " min " + String(s % 60).padStart(2, "0") + " s";
  };
  const percent = (share, digits = 1) => (100 * share).toFixed(digits) + "\u00a0%";
  // What the run is judged by: accuracy, or the first metric of a task whose labels are no classes.
  const isAccuracy = () => run.now.metric === "accuracy";
  const scoreText = (value, digits = 1) => (isAccuracy() ? percent(value, digits) : Number(value.toPrecision(4)).toString());
  const threshold = () => (isAccuracy() ? run.head.threshold : run.head.metric_threshold);
  const ghostRows = () => (run.ghost.rows || []).filter((row) => row[1] !== null && run.ghost.metric === run.now.metric);
  const hour = (step) => {
    const { step_s: length, start_utc_s: start } = run.head;
    if (!length || length < 60) return "";  // no hour of a day
    const seconds = Math.round(step * length);
    if (start) return new Date((start + seconds) * 1000).toLocaleString("en-GB", { timeZone: "UTC", weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
    const pad = (n) => String(n).padStart(2, "0");
    return `day ${Math.floor(seconds / 86400) + 1} ${pad(Math.floor(seconds / 3600) % 24)}:${pad(Math.floor(seconds / 60) % 60)}`;
  };
  const count = (n) => n.toLocaleString("en-GB");
  const who = (device) => run.head.devices[device] ?? "device " + device;

  // ---- parts of the page -----------------------------------------------------------------------

  const setUp = () => {
    const head = run.head;
    document.title = `${head.run} · roambench`;
    $("run").textContent = head.run;
    const state = $("state");
    state.hidden = false;
    state.textContent = run.now.paused && !isOver() ? "paused" : head.state;
    state.className = "state " + head.state;
    $("report").hidden = !run.report;
    $("report").href = "/report?run=" + encodeURIComponent(run.name);
    $("doubts").hidden = !(head.doubts || []).length;
    $("doubts").replaceChildren(...(head.doubts || []).map((doubt) => make("li", doubt)));
    $("play").textContent = "replay";
    const choice = $("power-board");
    const boards = head.basis === "measured" ? head.devices : [];  // others have no power to show
    if (choice.options.length !== boards.length + 1) {
      choice.replaceChildren(new Option("all together", ""), ...boards.map((name, device) => new Option(name, device)));
    }
    const key = (list, names, kind) => list.map((name, i) => {
      const item = make("li"), sign = make("i", undefined, kind);
      sign.style.background = `var(--${name})`;
      item.append(sign, make("span", names[i]));
      return item;
    });
    const used = head.basis === "" ? ["train", "upload", "idle", "absent"] : PHASES.filter((phase) => phase !== "lost" && (phase !== "off" || head.batteries));
    $("phases").replaceChildren(...key(used.map((phase) => "phase-" + phase), used.map((phase) => DOING[phase])));
    $("outcome-key").replaceChildren(...key(head.outcomes.map((name) => "outcome-" + name), head.outcomes.map((name) => (name === "pending" ? "not decided yet" : name))));
    const curves = key(["accent"], [head.system], "line");
    curves[0].firstChild.style.borderColor = "var(--accent)";
    if (run.ghost.system) {
      const [ghost] = key(["muted"], [`${run.ghost.system}, the run before` + (run.ghost.name === run.ghost.system ? "" : ` (${run.ghost.name})`)], "line");
      ghost.firstChild.style.borderTopColor = "var(--muted)";
      ghost.firstChild.style.borderTopStyle = "dashed";
      curves.push(ghost);
    }
    for (const item of curves) item.firstChild.style.background = "none";
    $("accuracy-key").replaceChildren(...curves);
    $("charge-panel").hidden = !head.batteries;
    $("charge-key").replaceChildren(...["mean", "lowest"].map((name, k) => {
      const item = make("li"), sign = make("i", undefined, "line");
      sign.style.cssText = `background:none;border-top-color:var(--${k ? "muted" : "accent"});border-top-style:${k ? "dashed" : "solid"}`;
      item.append(sign, make("span", name));
      return item;
    }));
    $("power-panel").hidden = head.basis !== "measured";
    const basis = { measured: head.emulated ? "measured by emulated meters" : "measured", modelled: "modelled: virtual devices have no meters", "": "a rehearsal: nothing is trained and nothing drawn" }[head.basis];
    $("footer").textContent = `${head.system}, seed ${head.seed}, ${head.devices.length} devices (${head.fleet}), begun ${head.created.slice(0, 19).replace("T", " ")} UTC. Energy is ${basis}` + (head.basis === "measured" ? "; here it is provisional: raw readings summed up, without uncertainty. The report fits them." : ".");
  };

  const tile = (name, value, unit, note) => {
    const box = make("div", undefined, "tile");
    const number = make("span", value, "value");
    if (unit) number.append(" ", make("span", unit, "unit"));
    box.append(make("span", name, "name"), number, make("span", note, "note"));
    return box;
  };
  const tiles = (step) => {
    const head = run.head, rows = stepsTo(step), row = run.steps.get(step), ghost = ghostAt(step);
    const than = (text) => (ghost ? `${run.ghost.system} at this step: ${text}` : "");
    const updates = tally(step), { wasted, failed, pending } = updates, decided = updates.all - pending.count;
    const scored = rows.filter((r) => r[4] !== null);
    const score = scored.length ? scored[scored.length - 1][4] : null;
    const found = [];
    const watts = at === null ? run.now.watts : wattsIn(step);
    let note = at === null ? readingNote() : "mean of this step";
    if (at === null && isOver() && watts !== null) note = "the last readings";
    if (head.basis !== "measured") found.push(tile("local updates", count(updates.all), "", `${count(pending.count)} not decided yet`));
    else found.push(tile(at === null && !isOver() ? "power now" : "power", watts === null || watts === undefined ? "–" : watts.toFixed(2), watts === null || watts === undefined ? "" : "W", note));
    const joules = at === null ? run.now.joules : joulesTo(step);
    const sort = head.basis === "modelled" ? "modelled" : head.basis ? "provisional" : "";
    found.push(tile(joulesTitle(), ...energy(joules), [at === null && !isOver() ? "so far" : at === null ? "" : "to here", sort, ghost && ghost[2] ? than(energy(ghost[2]).join("\u00a0")) : ""].filter(Boolean).join("; ")));
    if (head.basis === "measured") found.push(tile(head.titles.consumed_j, ...energy(updates.joules), `transfers and trainings; ${sort}`));
    const wanted = threshold(), sameScore = ghost && ghost[1] !== null && run.ghost.metric === run.now.metric;
    const need = [isAccuracy() ? "" : `${run.now.better} is better`, wanted !== null ? `threshold ${scoreText(wanted, 0)}` : ""].filter(Boolean).join("; ");
    const [value, unit] = score === null ? ["–", ""] : isAccuracy() ? [(100 * score).toFixed(1), "%"] : [scoreText(score), ""];
    found.push(tile(run.now.metric, value, unit, sameScore ? than(scoreText(ghost[1])) : head.basis ? need : "nothing is trained"));
    const present = row ? row[10] : 0;
    found.push(tile("present", count(present), `of ${count(head.devices.length)}`, row && row[6] === null ? `${row[1]} local updates ordered` : `step ${step + 1} is over`));
    found.push(tile(head.titles.wasted_trainings, count(wasted.count), `of ${count(decided)}`, [decided ? percent(wasted.count / decided, 0) + " of those decided" : "none decided yet", ghost ? than(count(ghost[4])) : ""].filter(Boolean).join("; ")));
    const lost = head.basis ? wasted.joules : null;
    found.push(tile(head.titles.wasted_j, ...energy(lost), [sort, ghost && ghost[2] ? than(energy(ghost[3]).join("\u00a0")) : ""].filter(Boolean).join("; ")));
    if (head.batteries && row && row[11] !== null) found.push(tile("charge", percent(row[11], 0), "", `mean; lowest ${percent(row[12], 0)}; ${count(row[13])} without charge`));
    if (failed.count) found.push(tile(head.titles.failed_trainings, count(failed.count), `of ${count(decided)}`, failed.reason));
    $("tiles").replaceChildren(...found);
  };
  /* Devices without charge in a step; what their boards drew while they came back is another step's. */
  const offIn = (step) => (run.charges.get(step) || [0, [], []])[2];
  const wattsIn = (step) => {
    let sum = 0, any = false;
    const off = offIn(step);
    run.head.devices.forEach((_, device) => {
      const cell = run.cells.get(device + ":" + step);
      if (cell && cell[2] !== null && !off.includes(device)) { sum += cell[2]; any = true; }
    });
    return any ? sum : null;
  };
  const serverNow = () => Date.now() / 1000 + ahead;
  const readingNote = () => {
    const seen = run.boards.filter((board) => board && board[7]).map((board) => serverNow() - board[7]);
    if (!seen.length) return run.head.quiet ? "quiet: readings come in the pauses" : "no reading yet";
    const oldest = Math.max(...seen), n = seen.length;
    const what = `${n} board${n === 1 ? "" : "s"}, readings up to ${duration(oldest)} old`;
    return run.head.quiet ? what + " (quiet while they work)" : what;
  };

  let done = null;
  const did = (step) => {
    const stamp = `${run.name}:${step}:${run.updates.step.length}:${run.now.t}`;
    if (!done || done.stamp !== stamp) {
      done = { stamp, trained: new Set(), used: new Set() };
      const { device, step: steps, outcome, decided } = run.updates;
      device.forEach((its, update) => {
        if (steps[update] === step) done.trained.add(its);
        if (decided[update] === step && outcome[update] === 1) done.used.add(its);
      });
    }
    return done;
  };
  /* Of a device now, or in a past step: what it did there, as far as the event log tells. */
  const boardAt = (device, step, past = at !== null) => {
    const board = run.boards[device] || [device, "absent", 0, -1, null, null, "", 0, "", 0, null];
    if (!past) return { phase: isOver() ? "over" : board[1], since: board[2], watts: board[4], celsius: board[5], held: board[6], seen: board[7], meter: board[8], late: board[9], ap: board[3] };
    const place = run.places.get(step), index = place ? place[1].indexOf(device) : -1;
    const cell = run.cells.get(device + ":" + step) || [];
    const trained = did(step).trained.has(device), used = did(step).used.has(device);
    const dark = offIn(step).includes(device);
    return { phase: dark ? "off" : index < 0 ? "absent" : trained ? "train" : used ? "upload" : "idle", watts: dark ? 0 : cell[2] ?? null, celsius: cell[3] ?? null, held: cell[4] ? "throttled" : "", rested: cell[5] || 0, seen: 0, meter: "", late: 0, ap: index < 0 ? -1 : place[2][index] };
  };
  const colourOf = (board) => "phase-" + (board.phase === "over" ? "idle" : board.phase);
  const boards = (step) => {
    const head = run.head, devices = head.devices;
    const many = devices.length > MANY;
    $("boards").hidden = many;
    $("crowd").hidden = !many;
    $("boards-title").textContent = head.basis === "measured" ? "Boards" : "Devices";
    if (many) {
      const squares = devices.map((_, device) => boardAt(device, step, at !== null || isOver())).map((board) => ({ colour: colourOf(board), ring: !!(board.held || board.meter) }));
      const busy = squares.filter((square) => !["phase-absent", "phase-off"].includes(square.colour)).length;
      charts.crowd($("crowd"), { squares, label: `${devices.length} devices, ${busy} of them present, coloured by what they do` });
      $("boards-caption").textContent = `${devices.length} devices, each a square in the order of the trace; a red frame: throttled, or its meter is silent.`;
      return;
    }
    $("boards").replaceChildren(...devices.map((name, device) => {
      // Of a run that is over without meters the last step is all there is to see.
      const past = at !== null || (isOver() && head.basis !== "measured");
      const board = boardAt(device, step, past), box = make("li", undefined, "board");
      box.style.setProperty("--phase", `var(--${colourOf(board)})`);
      if (board.phase === "absent" || board.phase === "off") box.classList.add("absent");
      box.append(make("b", name));
      if (head.basis === "measured") {
        const power = make("div", board.watts === null ? "– W" : board.watts.toFixed(2) + " W", "w");
        if (board.celsius !== null) power.append(make("small", ` ${board.celsius.toFixed(0)} °C`));
        box.append(power);
      }
      const around = head.quiet && head.rest_s > 0 && WORK.has(board.phase) ? ", rests included" : "";
      const doing = !past ? (isOver() ? "run is over" : DOING[board.phase] + around + (board.since ? " " + duration(serverNow() - board.since) : "")) : { train: "trained", upload: "its update was used", idle: "idle", absent: "absent", off: DOING.off }[board.phase];
      box.append(make("span", doing));
      const charges = run.charges.get(step);
      if (charges) box.append(make("span", `charge ${percent(charges[1][device], 0)}`));
      if (past && board.rested) box.append(make("span", `rested ${duration(board.rested)}`));
      if (head.basis === "measured" && at === null) {
        const age = serverNow() - board.seen, quiet = head.quiet && MEASURED.has(board.phase);
        if (isOver()) { if (!board.seen) box.append(make("span", "no reading")); }
        else if (!board.seen) box.append(make("span", quiet ? "quiet while it works" : "no reading yet"));
        else if (quiet) box.append(make("span", `quiet: last reading ${duration(age)} old`));
        else box.append(make("span", `reading ${duration(age)} old`, age > 15 ? "warn" : undefined));
      }
      if (board.held) box.append(make("span", board.held, "bad"));
      if (board.meter) box.append(make("span", board.meter, "bad"));
      if (board.late > 0.13 && !isOver()) box.append(make("span", `trained ${board.late.toFixed(1)} s late`, "warn"));
      return box;
    }));
    $("boards-caption").textContent = head.quiet && at === null && !isOver() ? "This run is quiet: a board sends nothing while it rests, downloads, trains or uploads, so that telling costs no joules. Its readings come in the pauses, and are then older. Until then a card says what its board's order is for, the rests around that included." : "";
  };

  const scores = (step) => {
    const rows = stepsTo(step).filter((row) => row[4] !== null);
    const ghost = ghostRows(), wanted = threshold();
    const title = run.now.metric[0].toUpperCase() + run.now.metric.slice(1);
    $("score-steps").textContent = title + " over steps";
    $("score-joules").textContent = title + " over joules";
    const marks = wanted !== null && run.head.basis ? [{ y: wanted, text: "threshold " + scoreText(wanted, 0) }] : [];
    const y = isAccuracy() ? { low: 0, high: 1, label: "accuracy", text: (value) => percent(value, 0) } : { low: Math.min(...rows.map((row) => row[4]), wanted ?? Infinity), label: `${run.now.metric}, ${run.now.better} is better`, text: scoreText };
    const empty = run.head.basis ? "nothing scored yet" : "a rehearsal trains nothing";
    charts.lines($("accuracy-steps"), {
      x: { low: 1, high: run.head.steps || undefined, label: "step", whole: true }, y, marks, empty,
      lines: [
        { points: ghost.map((row) => [row[0] + 1, row[1]]), colour: "muted", dash: [5, 4], width: 1.6 },
        { points: rows.map((row) => [row[0] + 1, row[4]]), colour: "accent", dots: true, end: true },
      ],
      label: `${title} over steps, ${rows.length} points` + (rows.length ? `, the last ${scoreText(rows[rows.length - 1][4])}` : ""),
    });
    let joules = null;
    for (const row of run.steps.values()) if (row[0] < 0 && row[8] !== null) joules = (joules || 0) + row[8];
    const over = [];
    for (const row of stepsTo(step)) {
      if (row[8] === null) continue;
      joules = (joules || 0) + row[8];
      if (row[4] !== null) over.push([joules / 1000, row[4]]);
    }
    charts.lines($("accuracy-joules"), {
      x: { low: 0, label: joulesTitle() + ", kJ" }, y, marks, empty: run.head.basis ? "no energy booked to a scored step yet" : "a rehearsal draws nothing",
      lines: [
        { points: ghost.filter((row) => row[2]).map((row) => [row[2] / 1000, row[1]]), colour: "muted", dash: [5, 4], width: 1.6 },
        { points: over, colour: "accent", dots: true, end: true },
      ],
      label: `${title} over energy, ${over.length} points`,
    });
    $("joules-caption").textContent = run.head.basis === "measured" ? `Joules of ${joulesTitle()}, gross; provisional. They are booked when a phase is over, so the newest step comes late.` : run.head.basis === "modelled" ? `Modelled joules ${joulesTitle()}: of transfers and trainings.` : "";
  };

  const power = (step) => {
    if (run.head.basis !== "measured") return;
    const chosen = $("power-board").value;
    const curves = chosen === "" ? [...run.power.values()] : [run.power.get(Number(chosen))].filter(Boolean);
    const width = Math.max(1, ...curves.map((curve) => curve.width));
    const sums = [];
    for (const curve of curves) {
      const each = width / curve.width, own = [];
      curve.means.forEach((mean, place) => {
        if (mean === null) return;
        const k = Math.floor(place / each);
        (own[k] ||= [0, 0])[0] += mean;
        own[k][1] += 1;
      });
      // A reading holds until the next one, but for no longer than one mean: then there is a hole.
      for (let k = 0; k < own.length + 1; k++) {
        const held = own[k] || own[k - 1];
        if (held) { (sums[k] ||= [0, 0])[0] += held[0] / held[1]; sums[k][1] += 1; }
      }
    }
    const points = [];
    for (let k = 0; k < sums.length; k++) points.push([(k + 0.5) * width, sums[k] && sums[k][1] === curves.length ? sums[k][0] : null]);
    const row = run.steps.get(step);
    const until = at !== null && row ? row[9] : null;
    const long = points.length * width > 7200;
    charts.lines($("power"), {
      x: { low: 0, label: long ? "hours since the run's begin" : "seconds since the run's begin", text: long ? (s) => String(Number((s / 3600).toFixed(2))) : undefined },
      y: { low: 0, label: "power, W" }, empty: "no reading yet", at: until,
      lines: [{ points, colour: "accent", width: 1.4 }],
      label: `Power over time, ${chosen === "" ? "all boards together" : who(Number(chosen))}`,
    });
    const scale = run.head.time_scale !== 1 ? `, which runs ${run.head.time_scale} times as fast as the clock on the wall` : "";
    $("power-caption").textContent = `${chosen === "" ? "All boards together, where each of them was read" : who(Number(chosen))}: means over ${duration(width)} of device time${scale}.`;
  };

  const charge = (step) => {
    if (!run.head.batteries) return;
    const rows = stepsTo(step).filter((row) => row[11] !== null), points = (place) => rows.map((row) => [row[0] + 1, row[place]]);
    charts.lines($("charge"), {
      x: { low: 1, high: run.head.steps || undefined, label: "step", whole: true }, y: { low: 0, high: 1, label: "charge", text: (value) => percent(value, 0) },
      empty: "no step yet",
      lines: [{ points: points(12), colour: "muted", dash: [5, 4], width: 1.6 }, { points: points(11), colour: "accent", dots: rows.length < 60, end: true }],
      label: `Charge of the batteries over ${rows.length} steps`,
    });
    const gone = run.events.filter((event) => event[2] === "no charge" && event[0] <= step), lost = run.events.filter((event) => event[2] === "model lost" && event[0] <= step);
    $("charge-caption").textContent = `At the beginning of each step. Without charge so far: ${gone.length ? count(gone.length) + " times" : "none"}; models lost with it: ${count(lost.length)}.`;
  };

  const outcomes = (step) => {
    const { device, step: steps } = run.updates, all = run.head.devices, cells = [];
    // Of many devices only those that trained have a row.
    const rows = all.length > 40 ? [...new Set(device)].sort((a, b) => a - b) : all.map((_, device) => device);
    const place = new Map(rows.map((device, row) => [device, row]));
    steps.forEach((its, update) => { if (its <= step) cells.push([its, place.get(device[update]), run.head.outcomes[outcomeAt(update, step)]]); });
    charts.grid($("outcomes"), {
      columns: run.head.steps || step + 1, rows: rows.length, names: rows.map(who),
      cells,
      at: step >= 0 ? step : null,
      label: `Outcomes of ${cells.length} local updates of ${rows.length} devices`,
    });
    $("outcomes-caption").textContent = "Each mark is a local update, in the step in which it was ordered. Its outcome is known some steps later; an update that the system has no use for is wasted, one that something broke failed." + (rows.length < all.length ? ` ${rows.length} of ${all.length} devices have trained so far, each in a row.` : "");
  };

  const map = (step) => {
    const place = run.places.get(step), before = run.places.get(step - 1);
    const devices = [];
    if (place) place[1].forEach((device, k) => {
      if (place[3][k] === null) return;
      const old = before ? before[1].indexOf(device) : -1;
      devices.push({ id: device, x: place[3][k], y: place[4][k], ap: place[2][k], from: old >= 0 && before[3][old] !== null ? [before[3][old], before[4][old]] : null, colour: colourOf(boardAt(device, step, at !== null || isOver())), name: who(device) });
    });
    const aps = run.head.without_server ? [] : run.head.aps || [];
    const links = [], byDevice = new Map(devices.map((device) => [device.id, device]));
    const pairs = run.links.get(step) || [];
    for (let k = 0; k < pairs.length; k += 2) {
      const [one, other] = [byDevice.get(pairs[k]), byDevice.get(pairs[k + 1])];
      if (one && other) links.push([one, other]);
    }
    charts.map($("map"), { aps, devices, links, bounds: run.head.bounds || [], scale: !run.head.made_up, empty: "this run has no map", label: `${devices.length} devices and ${aps.length} access points in step ${step + 1}` });
    $("map-caption").textContent = run.head.without_server ? "There is no server: devices with a line between them mix their models. A dotted line leads to where a device was a step before." : (run.head.made_up ? "Access points only have names: where they stand here means nothing. " : "") + "Triangles are access points; a thin line leads to the device's own, a dotted one to where it was a step before.";
  };

  /* Events of one step and kind are one line, with the gravest detail: numbers in texts count as numbers. */
  const together = (events) => {
    const lines = new Map();
    for (const [step, device, kind, gravity, detail] of events) {
      const key = step + " " + kind + " " + gravity;
      const line = lines.get(key) || { step, kind, gravity, devices: [], detail };
      if (device >= 0 && !line.devices.includes(device)) line.devices.push(device);
      if (detail.localeCompare(line.detail, "en", { numeric: true }) > 0) line.detail = detail;
      lines.set(key, line);
    }
    return [...lines.values()].sort((a, b) => b.gravity - a.gravity || b.step - a.step);
  };
  const eventRow = ({ step, kind, gravity, devices, detail }) => {
    const item = make("li", undefined, "g" + gravity);
    const names = devices.slice(0, 3).map(who).join(", ") + (devices.length > 3 ? ` and ${devices.length - 3} more` : "");
    item.append(make("span", step < 0 ? "before" : "step " + (step + 1), "when"), make("span", kind, "what"), make("span", names, "who"), make("span", (devices.length > 1 ? "at most: " : "") + detail, "why"));
    return item;
  };
  let drawnEvents = "";
  const events = (step) => {
    const there = run.events.filter((event) => event[0] <= step || at === null);
    const failed = at === null && run.head.state === "failed";
    const stamp = `${run.name}:${there.length}:${step}:${at}:${failed}`;
    if (stamp === drawnEvents) return;
    drawnEvents = stamp;
    const end = { step, kind: "the run failed", gravity: 2, devices: [], detail: run.head.reason || "controller.log in its folder may say why" };
    const lines = failed ? [end, ...together(there)] : together(there), grave = lines.filter((line) => line.gravity === 2);
    $("alerts").hidden = !grave.length;
    $("grave").replaceChildren(...grave.slice(0, 4).map(eventRow));
    if (grave.length > 4) $("grave").append(make("li", `and ${grave.length - 4} more below`));
    $("events").replaceChildren(...lines.slice(0, 200).map(eventRow));
    $("events-caption").textContent = !lines.length ? "Nothing out of the ordinary so far." : "What was lost, refused or throttled first, then what was late; the newest of each on top." + (lines.length > 200 ? ` ${lines.length - 200} more are in the run folder.` : "");
  };

  const lead = (step) => {
    const head = run.head, total = head.steps ? ` of ${head.steps}` : "";
    const parts = [`${head.system} on ${head.devices.length} ${head.fleet} devices`];
    if (step >= 0) parts.push(`step ${step + 1}${total}`, hour(step));
    else parts.push(isOver() ? "it ended before its first step" : "getting ready: no step has begun");
    if (at !== null) parts.push("replayed");
    else if (head.state === "running" && run.now.eta_s !== null && run.now.eta_s !== undefined) parts.push(`${duration(run.now.eta_s)} left`);
    else if (head.reason) parts.push(head.reason);
    if (at === null && head.state === "interrupted") parts.push("go on with it: roambench resume");
    $("lead").textContent = parts.filter(Boolean).join(" · ");
  };

  const draw = () => {
    if (!run) return;
    const last = lastStep();
    if (at !== null && at > last) at = null;
    const step = shown(), slider = $("slider");
    slider.max = Math.max(0, last);
    slider.disabled = $("play").disabled = last < 1;
    slider.value = Math.max(0, step);
    slider.setAttribute("aria-valuetext", step < 0 ? "no step yet" : `step ${step + 1}, ${hour(step)}`);
    $("live").hidden = at === null;
    $("live").textContent = isOver() ? "to the end" : "back to now";
    $("state").textContent = run.now.paused && !isOver() ? "paused" : run.head.state;
    lead(step); tiles(step); scores(step); power(step); charge(step); outcomes(step); events(step);
    if (isThere(step)) { boards(step); map(step); } else ask(step);
    document.body.dataset.drawn = run.name;
  };

  const stop = () => {
    clearInterval(playing);
    playing = null;
    $("play").textContent = "replay";
  };
  $("slider").addEventListener("input", (event) => {
    stop();
    at = Number(event.target.value);
    draw();
  });
  $("live").addEventListener("click", () => { stop(); at = null; draw(); });
  $("play").addEventListener("click", () => {
    if (playing) { stop(); return; }
    $("play").textContent = "hold";
    at = at === null || at >= lastStep() ? 0 : at;
    draw();
    playing = setInterval(() => {
      if (at === null || at >= lastStep()) { stop(); return; }
      at += 1;
      draw();
    }, Math.max(120, Math.min(1000, 30000 / Math.max(1, lastStep()))));
  });
  $("power-board").addEventListener("change", draw);
  new ResizeObserver(draw).observe(document.querySelector("main"));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { charts.forget(); draw(); });
  // Ages grow without a message.
  setInterval(() => { if (run && at === null && !isOver() && !document.hidden && isThere(shown())) { tiles(shown()); boards(shown()); } }, 1000);
  connect();
})();
