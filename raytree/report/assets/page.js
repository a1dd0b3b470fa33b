// The table of trials, and the page: sections in reading order.
let sortBy = "number", upwards = true, pageNumber = 0, words = "", marked = null;
const ROWS = 25;
const COLUMNS = [
  ["number", "#", (k) => k], ["id", "Id", (k) => T.id[k]], ["branch", "Branch", (k) => B[T.branch[k]].label], ["status", "Status", (k) => T.status[k]], ["value", D.metric, (k) => (T.value[k] === null ? null : SIGN * T.value[k])],
  ...(new Set(T.t.filter((v) => v !== null)).size > 1 ? [["t", D.time_attr, (k) => T.t[k]]] : []),
  ...(T.seconds.some((v) => v !== null) ? [["seconds", "Time", (k) => T.seconds[k]]] : []),
  ...(T.started.some((v) => v !== null) ? [["started", "Started", (k) => T.started[k]]] : []),
  ...(T.node.some((v) => v !== null) ? [["node", "Node", (k) => T.node[k]]] : []),
  ["config", "Configuration", (k) => k],
];
const configText = (k) => B[T.branch[k]].active.map((p, j) => `${label(p)}=${value(p, T.values[k][j])}`).join(" ");
let texts = null;
function rowsNow() {
  const wanted = words.trim().toLowerCase().split(/\s+/).filter(Boolean);
  texts = texts || T.id.map((id, k) => `${k + 1} ${id} ${T.status[k]} ${B[T.branch[k]].label} ${T.node[k] || ""} ${configText(k)}`.toLowerCase());
  const list = T.id.map((_, k) => k).filter((k) => isIn(k) && wanted.every((w) => texts[k].includes(w)));
  const key = COLUMNS.find((c) => c[0] === sortBy)[2], sign = upwards ? 1 : -1;
  const compare = (a, b) => { const p = key(a), q = key(b); if (p === q) return a - b; if (p === null) return 1; if (q === null) return -1; return (p < q ? -1 : 1) * sign; };
  return list.sort(compare);
}
function drawTable() {
  const list = rowsNow(), pages = Math.max(1, Math.ceil(list.length / ROWS));
  pageNumber = Math.max(0, Math.min(pageNumber, pages - 1));
  const cell = (name, k) => {
    if (name === "number") return h("td", { class: "num" }, k + 1);
    if (name === "id") return h("td", {}, h("code", {}, short(T.id[k], 18)));
    if (name === "branch") return h("td", {}, h("i", { class: "sr" }), h("span", { style: `color:${branchColour(T.branch[k])}` }, "● "), B[T.branch[k]].label);
    if (name === "status") return h("td", { class: "status " + T.status[k] }, T.status[k]);
    if (name === "value") return h("td", { class: "num" }, fmt(T.value[k], 5));
    if (name === "t") return h("td", { class: "num" }, fmt(T.t[k]));
    if (name === "seconds") return h("td", { class: "num" }, seconds(T.seconds[k]));
    if (name === "started") return h("td", {}, T.started[k] === null ? "–" : new Date(1000 * T.started[k]).toISOString().slice(0, 16).replace("T", " "));
    if (name === "node") return h("td", {}, T.node[k] ?? "–");
    return h("td", { class: "config small" }, B[T.branch[k]].active.map((p, j) => [h("span", { class: "k" }, label(p) + "="), value(p, T.values[k][j]), "  "]));
  };
  $("rows").replaceChildren(...list.slice(pageNumber * ROWS, (pageNumber + 1) * ROWS).map((k) => h("tr", { "data-trial": k, class: k === marked ? "mark" : null }, COLUMNS.map((c) => cell(c[0], k)))));
  $("count").textContent = `${many(list.length, "trial")}, page ${pageNumber + 1} of ${pages}`;
  for (const th of document.querySelectorAll("#trials-table th")) th.setAttribute("aria-sort", th.dataset.column === sortBy ? (upwards ? "ascending" : "descending") : "none");
}
function showTrial(k) {
  if (!isIn(k)) choose(0);
  words = ""; $("search").value = ""; marked = k;
  pageNumber = Math.floor(rowsNow().indexOf(k) / ROWS);
  drawTable();
  document.querySelector(`#rows [data-trial="${k}"]`)?.scrollIntoView({ block: "center" });
}
function csv() {
  const quote = (v) => { let t = v === null || v === undefined ? "" : String(v); if (/^[=+@\t]/.test(t) || (/^-/.test(t) && isNaN(Number(t)))) t = "'" + t; return /[",\n\r]/.test(t) ? `"${t.replaceAll('"', '""')}"` : t; };
  const keys = [...new Set(P.map((p) => p.key))], list = rowsNow();
  const lines = list.map((k) => {
    const own = new Map(B[T.branch[k]].active.map((p, j) => [P[p].key, P[p].kind === "category" ? P[p].labels[T.values[k][j]] : T.values[k][j]]));
    return [k + 1, T.id[k], B[T.branch[k]].label, T.status[k], T.value[k], T.t[k], T.seconds[k], T.node[k], ...keys.map((key) => own.get(key))].map(quote).join(",");
  });
  return [["number", "trial_id", "branch", "status", D.metric, D.time_attr, "seconds", "node", ...keys.map((k) => "config/" + k)].map(quote).join(","), ...lines].join("\r\n") + "\r\n";
}
function copyable(text, id) {
  const button = h("button", { type: "button", onclick: async () => {
    try { await navigator.clipboard.writeText(text); } catch { const area = h("textarea", {}); area.value = text; document.body.append(area); area.select(); document.execCommand("copy"); area.remove(); }
    button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return h("div", { class: "code" }, h("pre", { id, tabindex: 0 }, text), button);
}
const SECTIONS = [];
function section(id, title, lead, ...kids) {
  SECTIONS.push([id, title]);
  return h("section", { id, "aria-labelledby": id + "-title" }, h("h2", { id: id + "-title" }, title), lead ? h("p", { class: "lead" }, lead) : null, ...kids);
}
function drawn(render) { // a host that is drawn again whenever filter, theme or width change
  const host = h("div");
  renders.push(() => render(host));
  return host;
}
const figure = (title, note, render, legend) => h("figure", { class: "panel" }, h("figcaption", {}, h("h3", {}, title), note ? h("span", { class: "soft" }, note) : null), drawn(render), legend ? drawn((host) => host.replaceChildren(legend())) : null);

function build() {
  const count = (...kinds) => T.status.filter((x) => kinds.includes(x)).length, failed = count("errored", "invalid"), running = count("running"), stopped = count("stopped");
  const main = $("main"), c = D.choice;
  $("brand-title").textContent = D.title;
  const fact = (b, text) => h("div", { class: "fact" }, h("b", {}, b), h("span", {}, text));
  const hope = Math.max(...B.map((b) => b.chance ?? -1));
  main.append(h("div", {}, h("h1", {}, D.title), h("p", { class: "soft" }, `${D.method} · ${D.metric}, ${D.mode === "min" ? "lower" : "higher"} is better · ${D.running ? "still running, as of " : ""}${D.made.slice(0, 16).replace("T", " ")}`),
    h("div", { class: "facts" },
      c ? fact(fmt(c.best_value), `best ${D.metric} of one trial`) : fact("–", "no value yet"),
      c && c.sd !== null ? fact([fmt(c.value), h("small", {}, ` ± ${fmt(c.sd, 2)}`)], "expected of the recommendation") : null,
      fact(T.id.length.toLocaleString("en"), "trials" + [[failed, "failed"], [stopped, "stopped early"], [running, "running"]].filter(([n]) => n).map(([n, t]) => `, ${n} ${t}`).join("")),
      D.paths > 1 ? fact(`${B.length} of ${D.paths.toLocaleString("en")}`, "branches tried") : null,
      hope >= 0 ? fact(pct(hope), "chance of something clearly better") : null)));

  main.append(section("recommendation", "Recommendation", null, c
    ? h("div", { class: "two" }, h("div", { class: "panel" }, h("h3", {}, "Use this configuration"), copyable(c.code, "code"), h("p", { class: "small soft" }, `Trial ${c.trial + 1} (${T.id[c.trial]}). `, c.sd === null ? `Reported ${fmt(c.value)}.` : `Expected ${D.metric}: ${fmt(c.value, 5)}, standard deviation ${fmt(c.sd, 2)}.`)),
      h("div", { class: "panel" }, h("h3", {}, "Why this one"), h("p", {}, c.why), h("h3", { style: "margin-top:1rem" }, "What to do next"), h("ul", { class: "todo" }, D.advice.map((t) => h("li", {}, t)))))
    : h("div", { class: "panel" }, D.advice.map((t) => h("p", {}, t)))));
  if (D.nodes.length > 1) main.append(section("tree", "The tree of the space", "Where the search went. Click a part to see only its trials on the whole page.", h("figure", { class: "panel" }, drawn(drawTree), drawn((host) => host.replaceChildren(treeLegend())))));
  main.append(section("progress", "Progress", null, h("div", { class: "stack" }, figure("Best so far", chosen ? null : "click a point to find its trial in the table", drawProgress, progressLegend), D.curves.length ? figure("Learning curves", "faint ones were stopped", drawCurves) : null)));
  if (D.slices.length || D.importance.length) {
    const again = () => { for (const r of own) r(); }, own = [];
    const part = (render) => { const host = h("div"); own.push(() => render(host)); return host; };
    const picker = part((host) => branchPicker(host, again)), slices = part(drawSlices), contour = part(drawContour), importance = part(drawImportance);
    picker.className = "tools"; slices.className = "grid";
    renders.push(again);
    const shared = h("div", { class: "panel" });
    renders.push(() => drawShared(shared));
    main.append(section("branches", "Branch by branch", "What the model expects along each parameter, all others as in the branch's leader: line and 95% band. Dots are trials, which differ in the other parameters too.", picker, slices,
      h("div", { class: "two", style: "margin-top:1rem" }, h("figure", { class: "panel" }, h("figcaption", {}, h("h3", {}, "Two parameters together")), contour), h("figure", { class: "panel" }, h("figcaption", {}, h("h3", {}, "Which parameters matter")), importance)), h("div", { style: "margin-top:1rem" }, shared)));
  }
  main.append(section("health", "Health", null, h("div", { class: "stack" }, h("div", { class: "panel", id: "checks" }, checkList()),
    D.fits.length ? h("div", { class: "two" }, figure("Can the model be trusted?", "each trial predicted from the others", drawFit), figure("Are its bands right?", "on the line: yes; below: too sure", drawCalibration)) : null,
    D.fits.length ? h("div", { class: "panel" }, h("h3", {}, "Left-out predictions by branch"), drawn((host) => host.replaceChildren(fitTable() || ""))) : null)));
  if (D.seeds) main.append(section("seeds", "Seeds", `Values by configuration and ${D.seeds.key}; the average over seeds is what counts, and what the model expects of it stands beside.`, h("div", { class: "panel" }, drawn((host) => host.replaceChildren(...seedPanel())))));
  if (D.partition.length) main.append(section("partition", "Partition", "The parts of the space that the model treats on their own, best first; points on a border are in both.", h("div", { class: "panel" }, drawn((host) => host.replaceChildren(partitionPanel())))));
  if (D.pool) main.append(section("pool", "Pool", null, h("div", { class: "panel" }, poolPanel())));

  const save = () => { const link = h("a", { href: URL.createObjectURL(new Blob([csv()], { type: "text/csv" })), download: "trials.csv" }); link.click(); setTimeout(() => URL.revokeObjectURL(link.href), 1000); };
  const head = COLUMNS.map(([name, title]) => h("th", { "data-column": name, class: ["number", "value", "t", "seconds"].includes(name) ? "num" : "" }, name === "config" ? title : h("button", { type: "button", onclick: () => { upwards = sortBy === name ? !upwards : true; sortBy = name; pageNumber = 0; drawTable(); } }, title + " ↕")));
  main.append(section("trials", "Trials", null, h("div", { class: "panel" }, h("div", { class: "tools" }, h("input", { type: "search", id: "search", placeholder: "Find: running, svm, C=0.1 …", "aria-label": "Find trials", oninput: (e) => { words = e.target.value; pageNumber = 0; drawTable(); } }), h("button", { type: "button", id: "csv", onclick: save }, "Download CSV"), h("span", { class: "soft small", id: "count" })),
    h("div", { class: "tablewrap" }, h("table", { id: "trials-table" }, h("thead", {}, h("tr", {}, head)), h("tbody", { id: "rows" }))),
    h("div", { class: "tools pager", style: "margin:.8rem 0 0" }, h("button", { type: "button", id: "previous", onclick: () => { pageNumber -= 1; drawTable(); } }, "Previous"), h("button", { type: "button", id: "next", onclick: () => { pageNumber += 1; drawTable(); } }, "Next")))));
  renders.push(() => { pageNumber = 0; drawTable(); });
  const list = (entries) => h("dl", { class: "kv" }, entries.map(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
  const spent = T.seconds.reduce((a, v) => a + (v ?? 0), 0);
  main.append(section("settings", "Settings", null, h("div", { class: "two" }, h("div", { class: "panel" }, h("h3", {}, "How it was searched"), list(Object.entries(D.settings)), h("h3", { style: "margin-top:1rem" }, "Versions"), list([...Object.entries(D.versions), ...(spent ? [["time in trials", seconds(spent)]] : []), ...(D.thinking !== null ? [["time to choose", seconds(D.thinking)]] : [])])),
    h("div", { class: "stack" }, D.restore ? h("div", { class: "panel" }, h("h3", {}, "Take it up again"), copyable(D.restore, "restore")) : null, h("div", { class: "panel" }, h("h3", {}, "The space"), h("div", { class: "code" }, h("pre", { id: "drawing", tabindex: 0 }, D.drawing)))))));
  main.append(h("footer", {}, `Made by raytree ${D.versions.raytree} on ${D.made}. One file, no network.`));
  $("nav").append(...SECTIONS.map(([id, title]) => h("a", { href: "#" + id }, title === "The tree of the space" ? "Tree" : title === "Branch by branch" ? "Branches" : title)));
}
function setTheme(name) { document.documentElement.dataset.theme = name; redraw(); }
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = prefersDark.matches ? "dark" : "light";
prefersDark.addEventListener("change", (e) => setTheme(e.matches ? "dark" : "light"));
build();
redraw();
$("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
$("filter-clear").addEventListener("click", () => choose(0));
addEventListener("keydown", (e) => { if (e.key === "Escape" && chosen) choose(0); });
let timer = 0, lastWidth = innerWidth;
addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(() => { if (innerWidth !== lastWidth) { lastWidth = innerWidth; redraw(); } }, 150); });
addEventListener("beforeprint", () => redraw());
