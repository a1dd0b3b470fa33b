// Left-out predictions, calibration, health checks; and what single methods know: seeds, partition, pool.
function drawFit(host) {
  const fits = D.fits.filter((q) => isIn(q.trial));
  host.replaceChildren();
  if (!fits.length) return void host.append(h("p", { class: "soft small" }, "Too few values to leave some out."));
  const f = frame(host, 320, 62, 42, 24, 12), all = fits.map((q) => T.value[q.trial]), x = valueScale(all, f.x0, f.x1), y = valueScale(all, f.y0, f.y1);
  axisY(f, y, 5); axisX(f, x, `${D.metric} as it was`);
  f.svg.append(s("text", { x: f.x0 - 4, y: 14, class: "strong" }, "as the model expected it, not told of the trial"));
  const [a, b] = x.domain, cx = (v) => between(x(v), f.x0, f.x1), cy = (v) => between(y(v), f.y0, f.y1);
  f.svg.append(s("line", { x1: x(a), y1: cy(a), x2: x(b), y2: cy(b), stroke: "var(--soft)", "stroke-dasharray": "4 4" }));
  const points = fits.map((q) => [cx(T.value[q.trial]), cy(q.mean), q]);
  if (fits.length <= 160) for (const [px, , q] of points) f.svg.append(s("line", { class: "whisker", x1: px, x2: px, y1: cy(q.low), y2: cy(q.high), stroke: branchColour(T.branch[q.trial]), "stroke-opacity": 0.4 }));
  for (let k = 0; k < 10; k += 1) dots(f, points.filter((p) => (T.branch[p[2].trial] < 9 ? T.branch[p[2].trial] : 9) === k), branchColour(k), fits.length > 200 ? 2 : 3, 0.85);
  hover(f, points, (p) => `${trialText(p[2].trial)}\nexpected ${fmt(p[2].mean)} (95%: ${fmt(p[2].low)} to ${fmt(p[2].high)})`, (p) => showTrial(p[2].trial));
  f.svg.setAttribute("aria-label", "Left-out predictions against values");
}
const ERF = (x) => { const t = 1 / (1 + 0.3275911 * Math.abs(x)), v = 1 - ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * Math.exp(-x * x); return x < 0 ? -v : v; };
function drawCalibration(host) {
  const fits = D.fits.filter((q) => isIn(q.trial));
  host.replaceChildren();
  if (fits.length < 4) return void host.append(h("p", { class: "soft small" }, "Too few values."));
  const f = frame(host, 320, 50, 42, 24, 12), x = linear(0, 1, f.x0, f.x1), y = linear(0, 1, f.y0, f.y1), inner = fits.map((q) => ERF(Math.abs(q.z) / Math.SQRT2)).sort((p, q) => p - q), n = inner.length;
  for (const t of [0, 0.25, 0.5, 0.75, 1]) f.svg.append(s("line", { class: "gridline", x1: f.x0, x2: f.x1, y1: y(t), y2: y(t) }), s("text", { x: f.x0 - 7, y: y(t) + 4, "text-anchor": "end" }, pct(t)), s("text", { x: x(t), y: f.y0 + 16, "text-anchor": "middle" }, pct(t)));
  const steps = [...Array(41).keys()].map((k) => k / 40), wide = (p) => 2 * Math.sqrt((p * (1 - p)) / n);
  f.svg.append(s("path", { d: path([...steps.map((p) => [x(p), y(Math.min(1, p + wide(p)))]), ...steps.map((p) => [x(p), y(Math.max(0, p - wide(p)))]).reverse()]) + "Z", fill: "var(--faint)" }), s("line", { x1: x(0), y1: y(0), x2: x(1), y2: y(1), stroke: "var(--soft)", "stroke-dasharray": "4 4" }));
  f.svg.append(s("path", { class: "calibration", d: path(steps.map((p) => [x(p), y(inner.filter((v) => v <= p).length / n)])), stroke: "var(--accent)", "stroke-width": 2.2, fill: "none" }));
  f.svg.append(s("text", { x: f.x0 - 4, y: 14, class: "strong" }, "share of values inside"), s("text", { x: (f.x0 + f.x1) / 2, y: f.y0 + 33, "text-anchor": "middle" }, "a band that should hold this share"));
  f.svg.setAttribute("aria-label", "Calibration of the model");
}
function fitTable() {
  const rows = B.map((b, k) => [b, D.fits.filter((q) => T.branch[q.trial] === k), k]).filter(([, list, k]) => list.length >= 3 && inside.has(k));
  if (!rows.length) return null;
  const rms = (list) => Math.sqrt(list.reduce((a, q) => a + (q.mean - T.value[q.trial]) ** 2, 0) / list.length);
  const median = (list) => quantile(ascending(list.map((q) => Math.abs(q.mean - T.value[q.trial]))), 0.5);
  return h("div", { class: "tablewrap" }, h("table", {}, h("thead", {}, h("tr", {}, ["Branch", "Left out", "Typical error", "Root mean square", "Inside 95%"].map((t, k) => h("th", { class: k ? "num" : "" }, t)))),
    h("tbody", {}, rows.map(([b, list]) => h("tr", {}, h("td", {}, b.label), h("td", { class: "num" }, list.length), h("td", { class: "num" }, fmt(median(list), 3)), h("td", { class: "num" }, fmt(rms(list), 3)), h("td", { class: "num" }, pct(list.filter((q) => Math.abs(q.z) <= 2).length / list.length)))))));
}
const checkList = () => D.checks.map((c) => h("div", { class: "check" }, h("span", { class: "badge " + c.level }, c.level), h("h3", {}, c.title), h("p", {}, c.text)));
function seedPanel() {
  const q = D.seeds, sorted = ascending(q.cells.map((c) => c[2])), rank = (v) => { const f = sorted.indexOf(v) / Math.max(1, sorted.length - 1); return SIGN > 0 ? 1 - f : f; };
  const byPlace = new Map(q.cells.map((c) => [c[0] + "," + c[1], c[2]]));
  const cell = (v) => { if (v === undefined) return h("td", { class: "c" }); const c = ramp(rank(v)); return h("td", { class: "c", style: `background:${css(c)};color:${inkOn(c)}` }, fmt(v, 3)); };
  return [h("p", { class: "soft" }, "What values vary by: " + Object.entries(q.shares).map(([name, v]) => `${name} ${pct(v)}`).join(", ") + "."),
    h("div", { class: "tablewrap" }, h("table", { class: "heat", id: "seeds-table" }, h("thead", {}, h("tr", {}, h("th", {}, "Configuration"), h("th", { class: "num" }, "Expected average"), q.seeds.map((name) => h("th", { title: name }, short(name, 8))))),
      h("tbody", {}, q.configurations.map((name, k) => h("tr", {}, h("td", { class: "conf" }, name), h("td", { class: "num c" }, `${fmt(q.mean[k], 3)} ± ${fmt(q.sd[k], 2)}`), q.seeds.map((_, j) => cell(byPlace.get(k + "," + j))))))))];
}
function partitionPanel() {
  const most = Math.max(...D.partition.map((q) => q.points));
  return h("div", { class: "tablewrap" }, h("table", { id: "partition-table" }, h("thead", {}, h("tr", {}, h("th", {}, "Where"), h("th", { class: "num" }, "Points"), h("th", {}, ""), h("th", { class: "num" }, "Mean " + D.metric), h("th", {}, "Changes within (share of the range)"))),
    h("tbody", {}, D.partition.map((q) => { const c = ramp(goodness(q.mean)); return h("tr", {}, h("td", {}, q.rules.length ? q.rules.map((r) => h("div", {}, r)) : "everywhere"), h("td", { class: "num" }, q.points), h("td", { style: "min-width:6rem;vertical-align:middle" }, h("div", { class: "hbar" }, h("i", { style: `width:${(100 * q.points) / most}%;background:${css(c)}` }))), h("td", { class: "num" }, fmt(q.mean)), h("td", { class: "small soft" }, Object.entries(q.lengths).map(([name, v]) => `${name} ${fmt(v, 2)}`).join(", "))); }))));
}
function poolPanel() {
  return [h("p", {}, D.pool.left ? `${many(D.pool.left, "configuration")} of the pool ${D.pool.left === 1 ? "is" : "are"} left. The most promising:` : "Every configuration of the pool was tried."),
    D.pool.left ? h("div", { class: "tablewrap" }, h("table", { id: "pool-table" }, h("tbody", {}, D.pool.configurations.map((name, k) => h("tr", {}, h("td", {}, h("code", {}, name)), h("td", { class: "num" }, `${fmt(D.pool.mean[k])} ± ${fmt(D.pool.sd[k], 2)}`)))))) : null];
}
