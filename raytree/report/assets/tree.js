// The tree of the space: area = trials, fill = best value, outline = what the model expects and how sure it is, hatched = failed.
function treeScale() { // from the best value to the worst best value of a part, or where the better half of them says that is too far
  const bests = ascending(D.nodes.map((n) => n.best).filter((v) => v !== null).map((v) => SIGN * v));
  if (!bests.length) return { best: 0, worst: 1, shade: () => 0 };
  const best = bests[0], half = quantile(bests, 0.5) - best, end = bests[bests.length - 1];
  const worst = half > 0 ? Math.min(end, best + 3 * half) : end;
  return { best: SIGN * best, worst: SIGN * worst, shade: (v) => (worst > best ? 1 - (SIGN * v - best) / (worst - best) : 1) };
}
function drawTree(host) {
  const { shade } = treeScale();
  const nodes = D.nodes, kids = nodes.map(() => []);
  nodes.forEach((n, k) => { if (n.parent >= 0) kids[n.parent].push(k); });
  const narrow = host.clientWidth < 620, depth = Math.max(...nodes.map((n) => n.depth));
  const least = (k) => (kids[k].length ? kids[k].reduce((sum, c) => sum + least(c), 0) : nodes[k].untried ? 20 : 30);
  const head = 24, total = Math.max(least(0), Math.min(640, Math.max(220, least(0) * 1.5)));
  const f = frame(host, total + head + 4, 0, 0);
  const notes = narrow ? 0 : Math.min(270, f.width * 0.28), rootWidth = narrow ? 24 : 34, gap = 3;
  const column = (f.width - notes - rootWidth) / Math.max(1, depth);
  const sds = ascending(nodes.map((n) => n.sd).filter((v) => v !== null)), spread = sds.length ? quantile(sds, 0.9) || 1 : 1;
  f.svg.append(s("defs", {}, s("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("line", { x1: 0, x2: 0, y1: 0, y2: 6, stroke: "var(--hatch)", "stroke-width": 3 })), s("pattern", { id: "speckle", width: 6, height: 6, patternUnits: "userSpaceOnUse" }, s("circle", { cx: 3, cy: 3, r: 1.4, fill: "var(--note)" }))));
  f.svg.setAttribute("role", "group");
  f.svg.setAttribute("aria-label", "The tree of the space; every part is a button that filters the page");
  for (let d = 1; d <= depth; d += 1) {
    const names = [...new Set(nodes.filter((n) => n.depth === d).map((n) => n.decision))].join(", ");
    f.svg.append(s("text", { x: rootWidth + (d - 1) * column + 4, y: 14 }, short(names, Math.floor(column / 6.4))));
  }
  if (notes) f.svg.append(s("text", { x: f.width - notes + 14, y: 14 }, `best ${D.metric}, what the model expects`));
  const boxes = {};
  (function place(k, y, height) {
    const n = nodes[k], x = n.depth === 0 ? 0 : rootWidth + (n.depth - 1) * column, w = n.depth === 0 ? rootWidth : column;
    boxes[k] = [x, y, w, height];
    if (!kids[k].length) return;
    // proportional to trials; what would be too small to read gets its least height, the others share the rest
    const fixed = new Set(), weight = (c) => nodes[c].trials || 1e-9;
    let sizes = {};
    for (;;) {
      const rest = height - [...fixed].reduce((a, c) => a + least(c), 0), sum = kids[k].filter((c) => !fixed.has(c)).reduce((a, c) => a + weight(c), 0);
      sizes = Object.fromEntries(kids[k].map((c) => [c, fixed.has(c) ? least(c) : (rest * weight(c)) / sum]));
      const small = kids[k].filter((c) => !fixed.has(c) && sizes[c] < least(c));
      if (!small.length || fixed.size === kids[k].length) break;
      small.forEach((c) => fixed.add(c));
    }
    let at = y;
    for (const c of kids[k]) { place(c, at, sizes[c]); at += sizes[c]; }
  })(0, head, total);
  const related = new Set();
  for (let k = chosen; k >= 0; k = nodes[k].parent) related.add(k);
  const below = (k) => { related.add(k); kids[k].forEach(below); };
  below(chosen);
  nodes.forEach((n, k) => {
    const [x, y, w, height] = boxes[k], words = nodeText(k);
    const g = s("g", { class: "treenode" + (related.has(k) ? "" : " dim"), tabindex: 0, role: "button", "data-node": k, "aria-pressed": k === chosen ? "true" : "false", "aria-label": words.replaceAll("\n", ", ") });
    const bx = x + gap / 2 + 2, by = y + gap / 2 + 2, bw = Math.max(2, w - gap - 4), bh = Math.max(2, height - gap - 4);
    if (n.untried) {
      g.append(s("rect", { class: "body", x: bx, y: by, width: bw, height: bh, rx: 4, fill: "transparent", stroke: "var(--line)", "stroke-dasharray": "3 3" }), s("text", { x: bx + 8, y: by + bh / 2 + 4 }, short(n.label + (n.untried === 1 ? " · never tried" : ""), Math.floor((bw - 12) / 6.2))));
    } else {
      const colour = n.best === null ? palette.v[0] : ramp(shade(n.best)), outline = n.expected === null ? null : ramp(shade(n.expected));
      const thick = n.sd === null ? 0 : 1.5 + 3.5 * Math.min(1, n.sd / spread);
      if (outline && n.depth) g.append(s("rect", { class: "outline", x: bx - 1, y: by - 1, width: bw + 2, height: bh + 2, rx: 6, fill: "none", stroke: css(outline), "stroke-width": thick }));
      const m = outline && n.depth ? thick / 2 + 1 : 0;
      g.append(s("rect", { class: "body", x: bx + m, y: by + m, width: Math.max(1, bw - 2 * m), height: Math.max(1, bh - 2 * m), rx: 4, fill: n.best === null ? "var(--faint)" : css(colour) }));
      let edge = bx + bw - m;
      for (const [count, fill, name] of [[n.failed, "url(#hatch)", "failed"], [n.running, "url(#speckle)", "running"]]) {
        const part = ((bw - 2 * m) * count) / n.trials;
        if (count && n.depth) { edge -= part; g.append(s("rect", { class: name, x: edge, y: by + m, width: Math.max(3, part), height: Math.max(1, bh - 2 * m), rx: 3, fill })); }
      }
      const ink = n.best === null ? "var(--ink)" : inkOn(colour);
      if (n.depth === 0) g.append(s("text", { x: bx + bw / 2, y: by + bh / 2, "text-anchor": "middle", transform: `rotate(-90 ${bx + bw / 2} ${by + bh / 2})`, dy: 4, style: `fill:${ink};font-weight:600` }, many(n.trials, "trial")));
      else {
        const room = Math.floor((edge - bx - 14) / 6.6);
        if (room > 1) {
          const two = bh >= 36 && room > 6;
          g.append(s("text", { x: bx + m + 8, y: by + bh / 2 + (two ? -3 : 4), style: `fill:${ink};font-weight:600;font-size:12.5px` }, short(n.label, room)));
          if (two) g.append(s("text", { x: bx + m + 8, y: by + bh / 2 + 13, style: `fill:${ink};opacity:.85` }, short(many(n.trials, "trial") + (n.failed ? `, ${n.failed} failed` : ""), room + 2)));
        }
      }
    }
    g.addEventListener("click", () => { if (!n.untried) choose(k); });
    g.addEventListener("pointermove", (e) => showTip(words, e.clientX, e.clientY));
    g.addEventListener("pointerleave", hideTip);
    g.addEventListener("focus", () => { if (!g.matches(":focus-visible")) return; const box = g.getBoundingClientRect(); showTip(words, box.left + 20, box.top + Math.min(40, box.height / 2)); });
    g.addEventListener("blur", hideTip);
    g.addEventListener("keydown", (e) => {
      const siblings = n.parent < 0 ? [k] : kids[n.parent], at = siblings.indexOf(k);
      const to = { ArrowDown: siblings[at + 1], ArrowUp: siblings[at - 1], ArrowLeft: n.parent >= 0 ? n.parent : undefined, ArrowRight: kids[k][0] }[e.key];
      if (e.key === "Enter" || e.key === " ") { e.preventDefault(); if (!n.untried) { choose(k); host.querySelector(`[data-node="${k}"]`)?.focus(); } }
      else if (to !== undefined) { e.preventDefault(); host.querySelector(`[data-node="${to}"]`)?.focus(); }
    });
    f.svg.append(g);
    if (notes && !kids[k].length && !n.untried && n.depth) {
      const tx = f.width - notes + 14, from = x + w + 4;
      if (tx - from > 24) f.svg.append(s("line", { x1: from, x2: tx - 6, y1: y + height / 2, y2: y + height / 2, stroke: "var(--line)", "stroke-dasharray": "2 4" }));
      const dim = related.has(k) ? 1 : 0.35;
      f.svg.append(s("text", { x: tx, y: y + height / 2 + 4, opacity: dim }, s("tspan", { class: "strong", style: "font-weight:600;fill:var(--ink)" }, fmt(n.best)), n.expected === null ? "" : s("tspan", { dx: 9 }, `${fmt(n.expected)} ± ${fmt(n.sd, 2)}`), n.chance >= 0.1 ? s("tspan", { dx: 9, style: "fill:var(--accent);font-weight:600" }, `${pct(n.chance)} ↑`) : ""));
    }
  });
}
function nodeText(k) {
  const n = D.nodes[k];
  if (n.untried) return `${n.decision}: ${n.label}${n.untried === 1 ? "\nnever tried" : ""}`;
  const lines = [k ? `${n.decision} = ${n.label}` : "The whole space", many(n.trials, "trial") + (n.failed ? `, ${n.failed} failed` : "") + (n.running ? `, ${n.running} running` : "")];
  if (n.best !== null) lines.push(`best ${D.metric} ${fmt(n.best)}`);
  if (n.expected !== null) lines.push(`the model expects ${fmt(n.expected)} ± ${fmt(n.sd, 2)} of the leader`);
  if (n.chance !== null) lines.push(`chance of something clearly better: ${pct(n.chance)}`);
  return lines.join("\n");
}
function treeLegend() {
  const { best, worst } = treeScale();
  const key = (kids, text) => h("span", {}, s("svg", { width: 26, height: 14, "aria-hidden": "true" }, kids), text);
  const ramped = s("svg", { width: 90, height: 12, "aria-hidden": "true" }, [0, 1, 2, 3, 4, 5, 6, 7, 8].map((j) => s("rect", { x: j * 10, width: 10, height: 12, fill: css(ramp(j / 8)) })));
  return h("div", { class: "legend" },
    h("span", {}, "area: trials"),
    VALUES.length ? h("span", {}, `best ${D.metric}: ${fmt(worst, 3)} `, ramped, fmt(best, 3)) : null,
    key([s("rect", { x: 2, y: 2, width: 22, height: 10, rx: 3, fill: "none", stroke: css(ramp(0.8)), "stroke-width": 1.5 })], "outline: expected, sure"),
    key([s("rect", { x: 2.5, y: 2.5, width: 21, height: 9, rx: 3, fill: "none", stroke: css(ramp(0.8)), "stroke-width": 4.5 })], "thick: unsure"),
    key([s("rect", { width: 26, height: 14, fill: "url(#hatch)" })], "failed"),
    key([s("rect", { width: 26, height: 14, fill: "url(#speckle)" })], "running"));
}
