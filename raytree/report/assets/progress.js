// Best so far with the model's expectation, the share of branches above it, and learning curves with rungs.
function drawProgress(host) {
  const n = T.id.length, narrow = host.clientWidth < 560, f = frame(host, narrow ? 400 : 440, 62, 42, 24, 12);
  const shareTop = 24, shareBottom = 104, lane = 122, top = 166;
  const x = linear(0.5, Math.max(1.5, n + 0.5), f.x0, f.x1), points = FINISHED.filter(isIn);
  const y = valueScale([...(points.length ? points : FINISHED).map((k) => T.value[k]), ...D.trace.mean.slice(-1)], f.y0, top);
  // the share of branches
  f.svg.append(s("text", { x: f.x0 - 4, y: 14, class: "strong" }, "share of trials by branch"), s("text", { x: f.x0 - 7, y: shareTop + 8, "text-anchor": "end" }, "100%"), s("text", { x: f.x0 - 7, y: shareBottom, "text-anchor": "end" }, "0"));
  const groups = Math.min(B.length, 9), half = Math.max(3, Math.round(n / 40)), steps = Math.min(n, 240), columns = [];
  for (let j = 0; j < steps; j += 1) {
    const at = steps === 1 ? 0 : Math.round((j * (n - 1)) / (steps - 1)), counts = new Array(10).fill(0), from = Math.max(0, at - half), to = Math.min(n - 1, at + half);
    for (let k = from; k <= to; k += 1) counts[T.branch[k] < 9 ? T.branch[k] : 9] += 1;
    columns.push([x(at + 1), counts.map((c) => c / (to - from + 1))]);
  }
  let base = columns.map(() => 0);
  for (let b = 0; b < (B.length > 9 ? 10 : groups); b += 1) {
    const upper = columns.map(([, c], j) => base[j] + c[b]), px = (v) => shareBottom - v * (shareBottom - shareTop);
    const outline = path([...columns.map(([cx], j) => [cx, px(upper[j])]), ...columns.map(([cx], j) => [cx, px(base[j])]).reverse()]) + "Z";
    const name = b < 9 ? B[b].label : `${B.length - 9} other branches`, on = b < 9 ? inside.has(b) : true;
    f.svg.append(s("path", { d: outline, fill: branchColour(b), "fill-opacity": on ? 0.82 : 0.15, onpointermove: (e) => showTip(name, e.clientX, e.clientY), onpointerleave: hideTip }));
    base = upper;
  }
  // failed and running trials
  const failed = [], running = [], marks = [];
  T.status.forEach((status, k) => {
    if (status !== "errored" && status !== "invalid" && status !== "running") return;
    (status === "running" ? running : failed).push([x(k + 1), lane, k]);
  });
  if (failed.length + running.length) f.svg.append(s("text", { x: f.x0 - 7, y: lane + 4, "text-anchor": "end" }, "no value"));
  const cross = failed.map(([cx]) => `M${(cx - 3).toFixed(1)} ${lane - 3}l6 6m0 -6l-6 6`).join("");
  f.svg.append(s("path", { d: cross, stroke: "var(--warn)", "stroke-width": 1.5, fill: "none" }), s("path", { d: running.map(([cx]) => `M${(cx - 3).toFixed(1)} ${lane}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0`).join(""), stroke: "var(--note)", "stroke-width": 1.5, fill: "none" }));
  axisY(f, y, 6); axisX(f, x, "trial");
  f.svg.append(s("text", { x: f.x0 - 4, y: top - 10, class: "strong" }, `${D.metric} (${D.mode === "min" ? "lower" : "higher"} is better)`));
  const clamp = (v) => between(y(v), f.y0, top);
  // the model's expectation of the leader, known now
  const tr = D.trace;
  if (tr.trial.length && chosen === 0) {
    const low = [], high = [], mean = [];
    tr.trial.forEach((k, j) => {
      const from = x(k + 1), to = x(j + 1 < tr.trial.length ? tr.trial[j + 1] + 1 : n);
      for (const [list, v] of [[low, tr.low[j]], [high, tr.high[j]], [mean, tr.mean[j]]]) list.push([from, clamp(v)], [to, clamp(v)]);
    });
    f.svg.append(s("path", { class: "band", d: path([...low, ...high.reverse()]) + "Z", fill: "var(--band)" }), s("path", { class: "expected", d: path(mean), stroke: "var(--accent)", "stroke-width": 1.6, "stroke-dasharray": "5 4", fill: "none" }));
  }
  for (let b = 0; b < 10; b += 1) {
    const own = FINISHED.filter((k) => (T.branch[k] < 9 ? T.branch[k] : 9) === b), bright = own.filter(isIn);
    const r = n > 3000 ? 1.4 : n > 600 ? 2 : 2.8;
    dots(f, own.filter((k) => !isIn(k)).map((k) => [x(k + 1), clamp(T.value[k])]), "var(--line)", r, 0.7);
    dots(f, bright.filter((k) => T.status[k] === "stopped").map((k) => [x(k + 1), clamp(T.value[k])]), branchColour(b), r * 0.8, 0.28);
    dots(f, bright.filter((k) => T.status[k] !== "stopped").map((k) => [x(k + 1), clamp(T.value[k])]), branchColour(b), r, n > 3000 ? 0.5 : 0.85);
  }
  let best = null;
  const line = [], complete = FINISHED.filter((k) => isIn(k) && T.status[k] === "finished");
  for (const k of complete.length ? complete : points) {
    if (best !== null && !better(T.value[k], best)) continue;
    if (best !== null) line.push([x(k + 1), clamp(best)]);
    best = T.value[k]; line.push([x(k + 1), clamp(best)]);
  }
  if (best !== null) { line.push([x(n), clamp(best)]); f.svg.append(s("path", { class: "best", d: path(line), stroke: "var(--ink)", "stroke-width": 1.8, fill: "none" })); }
  if (D.choice && isIn(D.choice.trial)) f.svg.append(s("circle", { class: "recommended", cx: x(D.choice.trial + 1), cy: clamp(T.value[D.choice.trial]), r: 7, fill: "none", stroke: "var(--accent)", "stroke-width": 2.2 }));
  for (const k of FINISHED) marks.push([x(k + 1), clamp(T.value[k]), k]);
  hover(f, [...marks, ...failed, ...running], (p) => trialText(p[2]), (p) => showTrial(p[2]));
  f.svg.setAttribute("aria-label", `Best ${D.metric} so far over ${n} trials`);
}
function progressLegend() {
  const key = (kids, text) => h("span", {}, s("svg", { width: 24, height: 14, "aria-hidden": "true" }, kids), text);
  return h("div", { class: "legend" },
    key([s("line", { x1: 1, x2: 23, y1: 7, y2: 7, stroke: "var(--ink)", "stroke-width": 1.8 })], "best so far"),
    D.trace.trial.length ? key([s("rect", { y: 1, width: 24, height: 12, fill: "var(--band)" }), s("line", { x1: 0, x2: 24, y1: 7, y2: 7, stroke: "var(--accent)", "stroke-width": 1.6, "stroke-dasharray": "5 4" })], "what the model now expects of the leader (95%)") : null,
    D.choice ? key([s("circle", { cx: 12, cy: 7, r: 5.5, fill: "none", stroke: "var(--accent)", "stroke-width": 2 })], "recommended") : null,
    key([s("path", { d: "M8 3l8 8m0 -8l-8 8", stroke: "var(--warn)", "stroke-width": 1.5 })], "failed"),
    key([s("circle", { cx: 12, cy: 7, r: 3.5, fill: "none", stroke: "var(--note)", "stroke-width": 1.5 })], "running"),
    B.slice(0, 9).map((b, k) => h("span", {}, h("i", { style: `background:${branchColour(k)}` }), b.label)), B.length > 9 ? h("span", {}, h("i", { style: "background:var(--b9)" }), "others") : null);
}
function drawCurves(host) {
  const f = frame(host, 320, 62, 42, 24, 12), curves = D.curves, last = Math.max(...curves.map((c) => c.t[c.t.length - 1])), first = Math.min(...curves.map((c) => c.t[0]));
  const x = (last / first > 20 ? logarithmic : linear)(first, last, f.x0, f.x1), y = valueScale(curves.flatMap((c) => c.value), f.y0, 34);
  axisY(f, y, 6); axisX(f, x, D.time_attr);
  f.svg.append(s("text", { x: f.x0 - 4, y: 14, class: "strong" }, `${D.metric} on the way`));
  const marks = [];
  for (const stopped of [true, false]) for (const c of curves) {
    if ((T.status[c.trial] === "stopped") !== stopped) continue;
    const points = c.t.map((t, j) => [x(t), between(y(c.value[j]), f.y0, 34)]), on = isIn(c.trial);
    f.svg.append(s("path", { class: "curve", d: path(points), fill: "none", stroke: !on ? "var(--line)" : branchColour(T.branch[c.trial]), "stroke-opacity": on ? (stopped ? 0.35 : 0.85) : 0.4, "stroke-width": stopped ? 1 : 1.5 }));
    const end = points[points.length - 1];
    if (stopped && on) f.svg.append(s("circle", { cx: end[0], cy: end[1], r: 2, fill: branchColour(T.branch[c.trial]) }));
    marks.push([...end, c.trial]);
  }
  for (const [t, count] of D.rungs) f.svg.append(s("line", { class: "rung", x1: x(t), x2: x(t), y1: 34, y2: f.y0, stroke: "var(--soft)", "stroke-dasharray": "2 4" }), s("text", { x: x(t) + 4, y: 32 }, `${count} stopped`));
  hover(f, marks, (p) => trialText(p[2]), (p) => showTrial(p[2]));
}
