// Per branch: slices with bands, the contour of a pair, importance. Over all branches: shared parameters.
let branch = 0, pair = [0, 1], wide = false;
const detailed = () => [...new Set(D.slices.map((c) => c.branch))];
function currentBranch() {
  const options = detailed().filter((b) => inside.has(b));
  if (!options.includes(branch)) branch = options.length ? options[0] : detailed()[0] ?? 0;
  return options.length ? branch : null;
}
function branchPicker(host, after) {
  const now = currentBranch(), options = detailed().filter((b) => inside.has(b));
  host.replaceChildren(h("label", {}, "Branch ", h("select", { id: "branch", onchange: (e) => { branch = Number(e.target.value); after(); } }, options.map((b) => h("option", { value: b, selected: b === now }, `${b + 1}. ${B[b].label} (${many(B[b].trials, "trial")})`)))),
    h("span", { class: "soft small" }, now === null ? "No details of this part: no trial there has a value, or others lead by far." : `leader: trial ${B[now].leader + 1}, expected ${fmt(B[now].expected)} ± ${fmt(B[now].sd, 2)}; chance of something clearly better ${pct(B[now].chance)}`));
}
const shareOf = (b, p) => D.importance.find((s0) => s0.branch === b && s0.parameter === p) || { alone: 0, total: 0 };
function drawSlices(host) {
  const b = currentBranch();
  host.replaceChildren();
  if (b === null) return;
  const own = FINISHED.filter((k) => T.branch[k] === b), cuts = D.slices.filter((c) => c.branch === b).sort((p, q) => shareOf(b, q.parameter).total - shareOf(b, p.parameter).total);
  if (!cuts.length) host.append(h("p", { class: "soft" }, "Nothing can vary on this branch."));
  const range = [...own.map((k) => T.value[k]), ...cuts.flatMap((c) => c.mean)];
  for (const c of cuts) {
    const p = c.parameter, box = h("div"), name = h("h3", {}, label(p));
    host.append(h("figure", { class: "panel slice", "data-parameter": P[p].name }, h("figcaption", {}, name, h("span", { class: "soft" }, P[p].text + (P[p].shared ? ", shared by several branches" : ""))), box));
    const f = frame(box, 190, 56, 26, 8, 8), x = scaleOf(p, f.x0, f.x1), y = valueScale(range, f.y0, f.y1, 0.2);
    axisY(f, y, 4); axisX(f, x, null, Math.max(2, Math.floor((f.x1 - f.x0) / 62)));
    const cy = (v) => between(y(v), f.y0, f.y1);
    if (x.step) c.x.forEach((v, j) => {
      const w = Math.min(26, x.step * 0.55);
      f.svg.append(s("rect", { class: "band", x: x(v) - w / 2, width: w, y: Math.min(cy(c.low[j]), cy(c.high[j])), height: Math.abs(cy(c.low[j]) - cy(c.high[j])), fill: "var(--band)", rx: 3 }), s("line", { class: "expected", x1: x(v) - w / 2, x2: x(v) + w / 2, y1: cy(c.mean[j]), y2: cy(c.mean[j]), stroke: "var(--accent)", "stroke-width": 2.2 }));
    });
    else {
      const lows = c.x.map((v, j) => [x(v), cy(c.low[j])]), highs = c.x.map((v, j) => [x(v), cy(c.high[j])]).reverse();
      f.svg.append(s("path", { class: "band", d: path([...lows, ...highs]) + "Z", fill: "var(--band)" }), s("path", { class: "expected", d: path(c.x.map((v, j) => [x(v), cy(c.mean[j])])), stroke: "var(--accent)", "stroke-width": 2, fill: "none" }));
    }
    const points = own.map((k) => { const v = paramOf(k, p); return [x(v) + (x.step ? (((k * 7919) % 17) / 17 - 0.5) * x.step * 0.4 : 0), cy(T.value[k]), k]; });
    dots(f, points, "var(--ink)", own.length > 800 ? 1.3 : 2.3, own.length > 800 ? 0.25 : 0.5);
    const lead = B[b].leader;
    f.svg.append(s("circle", { cx: x(paramOf(lead, p)), cy: cy(T.value[lead]), r: 6, fill: "none", stroke: "var(--accent)", "stroke-width": 2 }));
    hover(f, points, (q) => trialText(q[2]), (q) => showTrial(q[2]));
    f.svg.setAttribute("aria-label", `${D.metric} against ${label(p)}`);
  }
}
function drawContour(host) {
  const b = currentBranch(), grids = D.contours.filter((c) => c.branch === b);
  host.replaceChildren();
  if (!grids.length) return void host.append(h("p", { class: "soft small" }, "A contour needs a branch with two parameters that can vary."));
  const params = [...new Set(grids.flatMap((c) => [c.across, c.up]))];
  if (!params.includes(pair[0]) || !params.includes(pair[1]) || pair[0] === pair[1]) pair = [grids[0].across, grids[0].up];
  const pick = (at) => h("select", { "aria-label": at ? "upwards" : "across", onchange: (e) => { const old = pair[at]; pair[at] = Number(e.target.value); if (pair[0] === pair[1]) pair[1 - at] = old; drawContour(host); } }, params.map((p) => h("option", { value: p, selected: p === pair[at] }, label(p))));
  const box = h("div");
  host.append(h("div", { class: "tools" }, pick(0), h("span", {}, "×"), pick(1)), box);
  const c = grids.find((g) => (g.across === pair[0] && g.up === pair[1]) || (g.across === pair[1] && g.up === pair[0]));
  const turned = c.across !== pair[0], bytes = Uint8Array.from(atob(c.levels), (ch) => ch.charCodeAt(0)), xs = turned ? c.y : c.x, ys = turned ? c.x : c.y;
  const at = (i, j) => c.low + (bytes[turned ? i * c.x.length + j : j * c.x.length + i] / 255) * (c.high - c.low);
  const f = frame(box, 330, 64, 40, 10, 12), x = scaleOf(pair[0], f.x0, f.x1), y = scaleOf(pair[1], f.y0, f.y1);
  const middle = (scale, list, k, side) => (scale.step ? scale(list[k]) + (side * scale.step) / 2 : k + side < 0 || k + side >= list.length ? scale(list[k]) : (scale(list[k]) + scale(list[k + side])) / 2);
  const shade = (v) => css(ramp(c.high > c.low ? (SIGN > 0 ? c.high - v : v - c.low) / (c.high - c.low) : 0.5));
  const group = s("g", { class: "contour", "shape-rendering": "crispEdges" });
  if (!x.step && !y.step) smooth(f, group, xs.map(x), ys.map(y), at, (v) => ramp(c.high > c.low ? (SIGN > 0 ? c.high - v : v - c.low) / (c.high - c.low) : 0.5));
  else xs.forEach((_, i) => ys.forEach((__, j) => {
    const x0 = middle(x, xs, i, -1), x1 = middle(x, xs, i, 1), y0 = middle(y, ys, j, y.step ? 1 : -1), y1 = middle(y, ys, j, y.step ? -1 : 1);
    group.append(s("rect", { x: Math.min(x0, x1), y: Math.min(y0, y1), width: Math.abs(x1 - x0) + 0.4, height: Math.abs(y1 - y0) + 0.4, fill: shade(at(i, j)) }));
  }));
  f.svg.append(group);
  if (!x.step && !y.step) isolines(f, xs.map(x), ys.map(y), at, c.low, c.high);
  axisX(f, x, label(pair[0])); axisY2(f, y);
  f.svg.append(s("text", { x: 12, y: (f.y0 + f.y1) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(f.y0 + f.y1) / 2})` }, label(pair[1])));
  const points = FINISHED.filter((k) => T.branch[k] === b).map((k) => [x(paramOf(k, pair[0])), y(paramOf(k, pair[1])), k]);
  const small = points.length > 400;
  if (!small) dots(f, points, "var(--panel)", 3.1, 0.9);
  dots(f, points, "var(--ink)", small ? 1 : 2, small ? 0.5 : 0.9);
  const lead = B[b].leader;
  f.svg.append(s("circle", { cx: x(paramOf(lead, pair[0])), cy: y(paramOf(lead, pair[1])), r: 7, fill: "none", stroke: "var(--b1)", "stroke-width": 2.4 }));
  hover(f, points, (q) => trialText(q[2]), (q) => showTrial(q[2]));
  host.append(h("div", { class: "legend" }, h("span", {}, `expected ${D.metric}: ${fmt(SIGN > 0 ? c.high : c.low, 3)} `, s("svg", { width: 90, height: 12 }, [0, 1, 2, 3, 4, 5, 6, 7, 8].map((k) => s("rect", { x: k * 10, width: 10, height: 12, fill: css(ramp(k / 8)) }))), fmt(SIGN > 0 ? c.low : c.high, 3)), h("span", {}, "all other parameters as in the leader (circled)")));
}
function smooth(f, group, px, py, at, colour) { // bilinear between the places that are known
  const w = 96, ht = 72, canvas = h("canvas", { width: w, height: ht }), context = canvas.getContext("2d"), image = context.createImageData(w, ht);
  const locate = (list, v) => { let k = 0; while (k + 2 < list.length && (list[k + 1] - v) * (list[0] < list[list.length - 1] ? 1 : -1) < 0) k += 1; return [k, between((v - list[k]) / (list[k + 1] - list[k]), 0, 1)]; };
  for (let r = 0; r < ht; r += 1) for (let q = 0; q < w; q += 1) {
    const [i, u] = locate(px, f.x0 + ((q + 0.5) / w) * (f.x1 - f.x0)), [j, v] = locate(py, f.y1 + ((r + 0.5) / ht) * (f.y0 - f.y1));
    const z = (at(i, j) * (1 - u) + at(i + 1, j) * u) * (1 - v) + (at(i, j + 1) * (1 - u) + at(i + 1, j + 1) * u) * v;
    image.data.set([...colour(z), 255], 4 * (r * w + q));
  }
  context.putImageData(image, 0, 0);
  group.append(s("image", { href: canvas.toDataURL(), x: f.x0, y: f.y1, width: f.x1 - f.x0, height: f.y0 - f.y1, preserveAspectRatio: "none" }));
}
function axisY2(f, scale) {
  for (const t of scale.ticks(5)) f.svg.append(s("text", { x: f.x0 - 7, y: scale(t.v) + 4, "text-anchor": "end" }, scale.step ? short(t.text, 6) : t.text));
}
function isolines(f, px, py, at, low, high) { // marching squares
  for (let level = 1; level < 8; level += 1) {
    const v = low + ((high - low) * level) / 8;
    let d = "";
    for (let i = 0; i + 1 < px.length; i += 1) for (let j = 0; j + 1 < py.length; j += 1) {
      const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]], cuts = [];
      for (let e = 0; e < 4; e += 1) {
        const [a, b] = [corners[e], corners[(e + 1) % 4]], va = at(...a), vb = at(...b);
        if (va < v === vb < v) continue;
        const w = (v - va) / (vb - va);
        cuts.push([px[a[0]] + (px[b[0]] - px[a[0]]) * w, py[a[1]] + (py[b[1]] - py[a[1]]) * w]);
      }
      for (let e = 0; e + 1 < cuts.length; e += 2) d += `M${cuts[e].map((z) => z.toFixed(1)).join(" ")}L${cuts[e + 1].map((z) => z.toFixed(1)).join(" ")}`;
    }
    f.svg.append(s("path", { class: "iso", d, stroke: "var(--panel)", "stroke-opacity": 0.55, "stroke-width": 1, fill: "none" }));
  }
}
function drawImportance(host) {
  const b = wide ? null : currentBranch();
  const list = D.importance.filter((q) => q.branch === b).sort((p, q) => q.total - p.total).slice(0, 14);
  host.replaceChildren(h("div", { class: "tools" }, h("button", { type: "button", "aria-pressed": String(!wide), onclick: () => { wide = false; drawImportance(host); } }, "This branch"), h("button", { type: "button", "aria-pressed": String(wide), onclick: () => { wide = true; drawImportance(host); } }, "Whole space")));
  if (!list.length) return void host.append(h("p", { class: "soft small" }, "Nothing can vary here."));
  const box = h("div");
  host.append(box);
  const f = frame(box, 26 * list.length + 34, 132, 24, 6, 44), x = linear(0, 1, f.x0, f.x1);
  for (const t of [0, 0.25, 0.5, 0.75, 1]) f.svg.append(s("line", { class: "gridline", x1: x(t), x2: x(t), y1: f.y1, y2: f.y0 }), s("text", { x: x(t), y: f.y0 + 15, "text-anchor": "middle" }, pct(t)));
  list.forEach((q, k) => {
    const y = f.y1 + 26 * k + 4, name = wide && P[q.parameter].decision ? `choice of ${label(q.parameter)}` : wide && !P[q.parameter].shared ? shortName(q.parameter) : label(q.parameter);
    f.svg.append(s("text", { x: f.x0 - 8, y: y + 13, "text-anchor": "end", class: "strong" }, short(name, 20)), s("rect", { class: "total", x: f.x0, y, width: Math.max(0.5, x(q.total) - f.x0), height: 17, rx: 3, fill: "var(--band)" }), s("rect", { class: "alone", x: f.x0, y, width: Math.max(0.5, x(q.alone) - f.x0), height: 17, rx: 3, fill: "var(--accent)" }), s("text", { x: x(q.total) + 6, y: y + 13 }, pct(q.total)));
  });
  f.svg.setAttribute("aria-label", "Importance of parameters");
  host.append(h("div", { class: "legend" }, h("span", {}, h("i", { style: "background:var(--accent)" }), "alone"), h("span", {}, h("i", { style: "background:var(--band)" }), "together with others")),
    h("p", { class: "soft small" }, "Shares of the variance of what the model expects over " + (wide ? "the whole space; a decision's share is that of choosing the branch." : "this branch.")));
}
function shortName(p) { // model[0].kernel[1].gamma: the branch it belongs to, and its key
  const owner = B.find((b) => b.active.includes(p));
  return owner && !P[p].shared ? `${label(p).split(".").pop()} (${owner.cells.map((c) => c[1]).join(" ")})` : label(p);
}
function drawShared(host) {
  const shared = P.map((_, p) => p).filter((p) => P[p].shared && !P[p].decision), cols = detailed().filter((b) => inside.has(b)).slice(0, 10);
  host.replaceChildren();
  if (!shared.length || cols.length < 2) { host.hidden = true; return; }
  host.hidden = false;
  const cell = (q) => { const c = ramp(q.total); return h("td", { class: "c", style: `background:${css(c)};color:${inkOn(c)}` }, pct(q.total)); };
  host.append(h("h3", {}, "Shared parameters, branch by branch"), h("p", { class: "soft small" }, "How much of a branch's variance each parameter takes part in. A parameter that matters everywhere is worth fixing first."),
    h("div", { class: "tablewrap" }, h("table", { class: "heat" }, h("thead", {}, h("tr", {}, h("th", {}), cols.map((b) => h("th", { title: B[b].label }, short(B[b].cells.map((c) => c[1]).join(" "), 18))))), h("tbody", {}, shared.slice(0, 12).map((p) => h("tr", {}, h("th", {}, label(p)), cols.map((b) => (B[b].free.includes(p) ? cell(shareOf(b, p)) : h("td", { class: "c soft" }, "–")))))))));
}
