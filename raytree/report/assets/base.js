// Elements, numbers, colours, scales, the filter, the tooltip. Text from users only ever becomes text nodes.
const D = JSON.parse(document.getElementById("data").textContent);
const T = D.trials, P = D.parameters, B = D.branches, SIGN = D.mode === "min" ? 1 : -1;
const SVG = "http://www.w3.org/2000/svg";

function put(el, attrs, kids) {
  for (const [k, v] of Object.entries(attrs || {})) {
    if (v === null || v === undefined || v === false) continue;
    if (k.startsWith("on")) el.addEventListener(k.slice(2), v);
    else el.setAttribute(k, v === true ? "" : v);
  }
  for (const kid of kids.flat(3)) if (kid !== null && kid !== undefined && kid !== false) el.append(kid);
  return el;
}
const h = (tag, attrs, ...kids) => put(document.createElement(tag), attrs, kids);
const s = (tag, attrs, ...kids) => put(document.createElementNS(SVG, tag), attrs, kids);
const $ = (id) => document.getElementById(id);

// Numbers

function fmt(v, digits = 4) {
  if (v === null || v === undefined) return "–";
  if (v === 0) return "0";
  const a = Math.abs(v);
  if (a >= 1e6 || a < 1e-4) return v.toExponential(Math.max(0, Math.min(digits, 3) - 1)).replace(/\.?0+e/, "e").replace("e+", "e").replace("-", "−").replace("e-", "e−");
  return String(Number(v.toPrecision(digits))).replace("-", "−");
}
const pct = (v) => (v === null || v === undefined ? "–" : v > 0 && v < 0.01 ? "under 1%" : Math.round(100 * v) + "%");
const many = (n, one, more) => n.toLocaleString("en") + " " + (n === 1 ? one : more || one + "s");
const better = (a, b) => SIGN * a < SIGN * b;
function seconds(v) {
  if (v === null || v === undefined) return "–";
  return v < 10 ? fmt(v, 2) + " s" : v < 120 ? Math.round(v) + " s" : v < 7200 ? Math.round(v / 60) + " min" : fmt(v / 3600, 3) + " h";
}
const quantile = (sorted, q) => sorted[Math.max(0, Math.min(sorted.length - 1, Math.round(q * (sorted.length - 1))))];
const ascending = (list) => list.slice().sort((a, b) => a - b);
const short = (text, n) => (text.length > n ? text.slice(0, Math.max(1, n - 1)) + "…" : text);
const label = (p) => P[p].key.replaceAll("/", ".");
const value = (p, v) => (v === null || v === undefined ? "–" : P[p].kind === "category" ? P[p].labels[v] : fmt(v));
const paramOf = (trial, p) => { const at = B[T.branch[trial]].active.indexOf(p); return at < 0 ? null : T.values[trial][at]; };
const FINISHED = T.value.map((v, k) => k).filter((k) => T.value[k] !== null && (T.status[k] === "finished" || T.status[k] === "stopped"));
const VALUES = ascending(FINISHED.map((k) => T.value[k]));

// Colours

let palette = {};
function colours() {
  const style = getComputedStyle(document.documentElement);
  palette = { v: [0, 1, 2, 3, 4].map((k) => rgb(style.getPropertyValue("--v" + k))) };
}
function rgb(text) {
  const hex = text.trim().slice(1);
  return [0, 2, 4].map((k) => parseInt(hex.slice(k, k + 2), 16));
}
const mixed = (a, b, f) => a.map((x, k) => Math.round(x + (b[k] - x) * f));
function ramp(f) {
  const x = Math.max(0, Math.min(1, f)) * 4, k = Math.min(3, Math.floor(x));
  return mixed(palette.v[k], palette.v[k + 1], x - k);
}
const css = (c) => `rgb(${c.join(",")})`;
function goodness(v) { // 1 for the best value there is, 0 for the worst, by rank
  let low = 0, high = VALUES.length;
  while (low < high) { const m = (low + high) >> 1; if (VALUES[m] < v) low = m + 1; else high = m; }
  let last = low, top = VALUES.length;
  while (last < top) { const m = (last + top) >> 1; if (VALUES[m] <= v) last = m + 1; else top = m; }
  const f = VALUES.length < 2 ? 0 : Math.min(1, Math.max(0, (low + last - 1) / 2 / (VALUES.length - 1)));
  return SIGN > 0 ? 1 - f : f;
}
function inkOn(c) { return 0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2] > 140 ? "#17212b" : "#ffffff"; }
const branchColour = (b) => `var(--b${b < 9 ? b : 9})`;

// Scales

function linear(d0, d1, r0, r1) {
  if (d0 === d1) { const e = Math.abs(d0) * 0.05 || 0.5; d0 -= e; d1 += e; }
  const f = (v) => r0 + ((v - d0) / (d1 - d0)) * (r1 - r0);
  f.domain = [d0, d1];
  f.ticks = (n) => {
    const raw = (d1 - d0) / n, mag = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 2.5, 5, 10].find((m) => m * mag >= raw * 0.8) * mag, out = [];
    for (let v = Math.ceil(d0 / step - 1e-9) * step; v <= d1 + step * 1e-9; v += step) out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
    return out.map((v) => ({ v, text: fmt(Number(v.toPrecision(12)), 4) }));
  };
  return f;
}
function logarithmic(d0, d1, r0, r1) {
  if (d0 === d1) { d0 /= 1.5; d1 *= 1.5; }
  const a = Math.log10(d0), b = Math.log10(d1), f = (v) => r0 + ((Math.log10(Math.max(v, d0 * 1e-9)) - a) / (b - a)) * (r1 - r0);
  f.domain = [d0, d1];
  f.ticks = (n) => {
    const out = [], every = Math.max(1, Math.ceil((b - a) / n));
    for (let e = Math.ceil(a - 1e-9); e <= b + 1e-9; e += 1) if ((e - Math.ceil(a - 1e-9)) % every === 0) out.push({ v: 10 ** e, text: fmt(10 ** e, 3) });
    return out.length >= 2 ? out : [...new Set([d0, Math.sqrt(d0 * d1), d1].map((v) => Number(v.toPrecision(2))))].map((v) => ({ v, text: fmt(v, 2) }));
  };
  return f;
}
function categories(labels, r0, r1) {
  const step = (r1 - r0) / labels.length, f = (v) => r0 + (v + 0.5) * step;
  f.step = Math.abs(step);
  f.ticks = () => labels.map((text, v) => ({ v, text }));
  return f;
}
function scaleOf(p, r0, r1) {
  const q = P[p];
  if (q.kind === "category") return categories(q.labels, r0, r1);
  const f = (q.log ? logarithmic : linear)(q.low, q.high, r0, r1), ticks = f.ticks;
  if (q.kind === "int") f.ticks = (n) => ticks(n).filter((t) => Number.isInteger(t.v));
  return f;
}
function valueScale(list, r0, r1, outside = 0.08) { // robust: the worst few may lie outside
  const sorted = ascending(list.filter((v) => v !== null && isFinite(v)));
  if (!sorted.length) return linear(0, 1, r0, r1);
  let low = SIGN > 0 ? sorted[0] : quantile(sorted, sorted.length > 20 ? outside : 0), high = SIGN > 0 ? quantile(sorted, sorted.length > 20 ? 1 - outside : 1) : sorted[sorted.length - 1];
  if (sorted.length > 20) { // nor may a few bad ones squeeze all others
    const reach = 5 * Math.abs(quantile(sorted, 0.5) - (SIGN > 0 ? low : high));
    if (reach > 0 && SIGN > 0) high = Math.min(high, low + reach);
    else if (reach > 0) low = Math.max(low, high - reach);
  }
  if (low > 0 && high / low > 60) return logarithmic(low / 1.15, high * 1.15, r0, r1);
  const pad = (high - low) * 0.06;
  return linear(low - pad, high + pad, r0, r1);
}

// Figures

function frame(host, height, left, bottom, top = 10, right = 10) {
  const width = Math.max(240, Math.floor(host.clientWidth || 600));
  const svg = s("svg", { class: "fig", viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
  host.replaceChildren(svg);
  return { svg, width, height, x0: left, x1: width - right, y0: height - bottom, y1: top };
}
function axisX(f, scale, title, n) {
  const ticks = scale.ticks(n || Math.max(2, Math.floor((f.x1 - f.x0) / 75))), room = (f.x1 - f.x0) / Math.max(1, ticks.length);
  f.svg.append(s("line", { class: "axis", x1: f.x0, x2: f.x1, y1: f.y0, y2: f.y0 }));
  const skip = scale.step ? Math.ceil(ticks.length / Math.max(1, Math.floor((f.x1 - f.x0) / 34))) : 1;
  ticks.forEach((t, k) => {
    if (k % skip) return;
    f.svg.append(s("text", { x: scale(t.v), y: f.y0 + 16, "text-anchor": "middle" }, scale.step ? short(t.text, Math.max(2, Math.floor((room * skip) / 6.4))) : t.text));
  });
  if (title) f.svg.append(s("text", { x: (f.x0 + f.x1) / 2, y: f.y0 + 33, "text-anchor": "middle" }, title));
}
function axisY(f, scale, n, title) {
  for (const t of scale.ticks(n || 5)) {
    const y = scale(t.v);
    f.svg.append(s("line", { class: "gridline", x1: f.x0, x2: f.x1, y1: y, y2: y }), s("text", { x: f.x0 - 7, y: y + 4, "text-anchor": "end" }, scale.step ? short(t.text, 9) : t.text));
  }
  if (title) f.svg.append(s("text", { x: f.x0 - 4, y: f.y1 - 9, "text-anchor": "start", class: "strong" }, title));
}
const path = (points) => points.map(([x, y], k) => (k ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1)).join("");
const between = (v, a, b) => Math.max(Math.min(a, b), Math.min(Math.max(a, b), v));
function dots(f, points, colour, r = 2.6, opacity = 0.8) { // one element for any number of points
  if (points.length) f.svg.append(s("path", { d: points.map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join(""), stroke: colour, "stroke-width": 2 * r, "stroke-linecap": "round", fill: "none", "stroke-opacity": opacity }));
}
function hover(f, points, text, click) { // points: [x, y, ...]
  const mark = s("circle", { r: 6, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5, visibility: "hidden" });
  f.svg.append(mark);
  const nearest = (event) => {
    const box = f.svg.getBoundingClientRect(), x = ((event.clientX - box.left) * f.width) / box.width, y = ((event.clientY - box.top) * f.height) / box.height;
    let found = null, least = 18 * 18;
    for (const p of points) { const d = (p[0] - x) ** 2 + (p[1] - y) ** 2; if (d < least) { least = d; found = p; } }
    return found;
  };
  f.svg.addEventListener("pointermove", (event) => {
    const p = nearest(event);
    mark.setAttribute("visibility", p ? "visible" : "hidden");
    if (!p) return hideTip();
    mark.setAttribute("cx", p[0]); mark.setAttribute("cy", p[1]);
    showTip(text(p), event.clientX, event.clientY);
  });
  f.svg.addEventListener("pointerleave", () => { mark.setAttribute("visibility", "hidden"); hideTip(); });
  if (click) f.svg.addEventListener("click", (event) => { const p = nearest(event); if (p) click(p); });
}
function showTip(text, x, y) {
  const tip = $("tip");
  tip.textContent = text; tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(6, Math.min(innerWidth - box.width - 6, x + 14)) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + "px";
}
const hideTip = () => { $("tip").hidden = true; };
function trialText(k) {
  const b = B[T.branch[k]], lines = [`Trial ${k + 1} · ${T.status[k]}`];
  if (T.value[k] !== null) lines.push(`${D.metric} ${fmt(T.value[k], 5)}`);
  b.active.slice(0, 14).forEach((p, j) => lines.push(`${label(p)}: ${value(p, T.values[k][j])}`));
  return lines.join("\n");
}

// The filter: a node of the tree, or nothing

let chosen = 0;
const renders = [];
let inside = new Set(B.keys());
function choose(node) {
  chosen = node === chosen ? 0 : node;
  inside = new Set(D.nodes[chosen].branches);
  const trail = [];
  for (let k = chosen; k > 0; k = D.nodes[k].parent) trail.unshift(`${D.nodes[k].decision}=${D.nodes[k].label}`);
  $("filter").hidden = chosen === 0;
  $("filter-name").textContent = trail.join(" · ");
  $("filter-count").textContent = "(" + many(D.nodes[chosen].trials, "trial") + ")";
  document.body.dataset.filter = trail.join(" · ");
  redraw();
}
function redraw() { colours(); for (const render of renders) render(); }
const isIn = (k) => inside.has(T.branch[k]);
