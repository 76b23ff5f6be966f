"use strict";
// Draws what the file holds: the layout of the graph was computed when it was written. No library, nothing is fetched.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const KINDS = {contraction: "contractions", attention: "attention", normalisation: "normalisations", elementwise: "elementwise",
               movement: "copies and moves", reduction: "reductions, pools, updates", foreign: "left to PyTorch", host: "on the host"};

/** An element with attributes, and children that are elements or text. */
function make(name, attributes = {}, ...children) {
  const element = ["svg", "g", "rect", "path", "text", "title"].includes(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** With at least `digits` behind the point; numbers below 1 keep two that are not 0. */
function fixed(x, digits = 1) {
  if (x === null || x === undefined || !isFinite(x)) return "";
  const few = x > 0 && x < 1 ? Math.min(6, Math.ceil(-Math.log10(x)) + 1) : digits;
  return x.toLocaleString("en", {minimumFractionDigits: Math.min(few, digits), maximumFractionDigits: Math.max(few, digits)});
}
const bytesText = (n) => (n < 1024 ? `${n} B` : n < 1 << 20 ? `${fixed(n / 1024)} KiB` : `${fixed(n / (1 << 20))} MiB`);

/** Numbers of a launch that tables sort by; null where nothing is known. */
function measure(launch, index) {
  const us = launch.measured_us ?? (launch.predicted_us || null);
  launch.index = index;
  launch.us = us;
  launch.source_of_us = launch.measured_us !== undefined ? "measured" : us ? "predicted" : launch.floor_us ? "at least" : "";
  launch.span = us ?? launch.floor_us;
  launch.roofline = us && launch.floor_us ? 100 * launch.floor_us / us : null;
  launch.lost = us && launch.floor_us ? us - launch.floor_us : null;
  launch.tflops = us && launch.flop ? launch.flop / us / 1e6 : null;
  launch.gbps = us && launch.bytes ? launch.bytes / us / 1e3 : null;
  launch.label = (launch.kernel ? launch.kernel + ". " : "") + launch.what;
}

let data, chosen = null, shown = null;                 // shown: the only kind that is not dim
const boxOf = new Map(), rowOf = new Map(), slotOf = new Map(), edgesOf = new Map();

// ---- The graph ----

const view = {x: 0, y: 0, scale: 1};
function place() { $("world").setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`); }
function zoom(factor, x, y) {
  const size = $("picture").getBoundingClientRect();
  const at = {x: x ?? size.width / 2, y: y ?? size.height / 2};
  const scale = Math.min(4, Math.max(0.01, view.scale * factor)), by = scale / view.scale;
  view.x = at.x - (at.x - view.x) * by; view.y = at.y - (at.y - view.y) * by; view.scale = scale;
  place();
}
function showAll() {
  const size = $("picture").getBoundingClientRect();
  view.scale = Math.min(1.5, (size.width - 30) / data.width, (size.height - 30) / data.height);
  view.x = (size.width - data.width * view.scale) / 2; view.y = (size.height - data.height * view.scale) / 2;
  place();
}
function showStart() {
  const size = $("picture").getBoundingClientRect();
  view.scale = Math.max(0.35, Math.min(1, (size.width - 30) / data.width));
  const first = data.boxes.length ? data.boxes[0].at : [0, 0, 0, 0];
  view.x = size.width / 2 - (first[0] + first[2] / 2) * view.scale; view.y = 15;
  place();
}
function centre(box) {
  const size = $("picture").getBoundingClientRect();
  view.scale = Math.max(view.scale, 0.6);
  view.x = size.width / 2 - (box.at[0] + box.at[2] / 2) * view.scale; view.y = size.height / 2 - (box.at[1] + box.at[3] / 2) * view.scale;
  place();
}
/** A smooth curve that leaves and enters every point vertically. */
function curve(p) {
  let path = `M${p[0]} ${p[1]}`;
  for (let i = 2; i < p.length; i += 2) {
    const middle = (p[i - 1] + p[i + 1]) / 2;
    path += `C${p[i - 2]} ${middle} ${p[i]} ${middle} ${p[i]} ${p[i + 1]}`;
  }
  const [x, y] = p.slice(-2);
  return path + `M${x - 4} ${y - 7}L${x} ${y}L${x + 4} ${y - 7}`;
}
function drawGraph() {
  const world = $("world");
  for (const edge of data.edges) {
    const path = make("path", {class: "edge", d: curve(edge.points)});
    for (const end of [edge.from, edge.to]) edgesOf.set(end, [...(edgesOf.get(end) ?? []), path]);
    world.append(path);
  }
  data.boxes.forEach((box, index) => {
    const launch = data.launches[box.launch], [x, y, width, height] = box.at;
    const group = make("g", {class: "box " + (launch ? launch.kind : "tensor"), "data-launch": box.launch}, make("rect", {x, y, width, height}));
    box.lines.forEach((line, i) => group.append(make("text", {x: x + width / 2, y: y + 18 + 15 * i, class: i ? "" : "head"}, line)));
    if (launch) {
      group.append(make("title", {}, launch.what));
      boxOf.set(box.launch, {...box, index, group});
    }
    world.append(group);
  });
}
function handleGraph() {
  const picture = $("picture"), down = new Map();  // where the pointers are that are down
  let pressed = null, travelled = 0;               // what the first one came down on
  const point = (e) => { const at = picture.getBoundingClientRect(); return {x: e.clientX - at.left, y: e.clientY - at.top}; };
  /** The middle of the pointers, and how far apart two of them are. */
  const grip = () => {
    const [p, q = p] = down.values();
    return {x: (p.x + q.x) / 2, y: (p.y + q.y) / 2, spread: Math.max(1, Math.hypot(p.x - q.x, p.y - q.y))};
  };
  picture.addEventListener("wheel", (e) => {
    e.preventDefault();
    const at = point(e);
    zoom(Math.exp(-e.deltaY / 400), at.x, at.y);
  }, {passive: false});
  picture.addEventListener("pointerdown", (e) => {
    if (down.size === 2) return;
    pressed = down.size === 0 ? e.target : null;
    travelled = 0;
    down.set(e.pointerId, point(e));
    picture.setPointerCapture(e.pointerId);
  });
  picture.addEventListener("pointermove", (e) => {
    if (!down.has(e.pointerId)) return;
    const before = grip();
    down.set(e.pointerId, point(e));
    const after = grip();
    travelled += Math.hypot(after.x - before.x, after.y - before.y);
    if (down.size === 1 && travelled <= 4) return;
    pressed = null;
    view.x += after.x - before.x; view.y += after.y - before.y;
    zoom(after.spread / before.spread, after.x, after.y);
  });
  const lift = (e) => { down.delete(e.pointerId); };
  picture.addEventListener("pointercancel", lift);
  picture.addEventListener("pointerup", (e) => {
    const box = down.has(e.pointerId) && pressed?.closest(".box");
    lift(e);
    pressed = null;
    if (box && box.dataset.launch !== undefined) choose(+box.dataset.launch, false);
  });
  $("closer").onclick = () => zoom(1.4); $("further").onclick = () => zoom(1 / 1.4); $("whole").onclick = showAll;
}

// ---- The time line ----

/** Round numbers from 0 to `total`, at most nine. */
function ticks(total) {
  let step = 10 ** Math.floor(Math.log10(total / 4));
  for (const more of [2, 2.5, 2]) if (total / step > 8) step *= more;
  return Array.from({length: Math.floor(total / step) + 1}, (_, i) => i * step);
}
function drawTimeline() {
  const total = data.launches.reduce((sum, l) => sum + l.span, 0);
  if (!total) { $("timeline").hidden = true; return; }
  const svg = make("svg", {viewBox: `0 0 ${total} 10`, preserveAspectRatio: "none", role: "img", "aria-label": "Launches one after the other, as wide as they take time"});
  let at = 0;
  for (const launch of data.launches) {
    const slot = make("rect", {class: "slot " + launch.kind, x: at, y: 0, width: launch.span, height: 10, "data-launch": launch.index}, make("title", {}, `${launch.label}: ${launch.source_of_us} ${fixed(launch.span)} µs`));
    slot.onclick = () => choose(launch.index);
    slotOf.set(launch.index, slot);
    svg.append(slot);
    at += launch.span;
  }
  const sum = `${fixed(total)} µs one by one${data.run_ms ? `; a whole run takes ${fixed(1000 * data.run_ms)} µs (median of ${data.runs}), ${fixed(Math.abs(1000 * data.run_ms - total))} µs ${1000 * data.run_ms < total ? "less" : "between launches"}` : ""}`;
  const axis = make("div", {class: "axis muted"}, ...ticks(total).map((at) => make("span", {style: `left: ${100 * at / total}%`}, at.toLocaleString("en"))));
  $("timeline").append(svg, axis, make("p", {class: "muted"}, make("span", {}, "µs"), make("span", {}, sum)));
}

// ---- Tables ----

/** rows: objects; columns: {title, value, text?, number?}, of which those without a value are left out. A click on a title
 *  sorts by it, missing values last. */
function table(id, rows, all, attributes, onRow) {
  const columns = all.filter((c) => rows.length === 0 || rows.some((row) => (c.value(row) ?? "") !== ""));
  const body = make("tbody"), heads = make("tr");
  const made = rows.map((row) => {
    const tr = make("tr", attributes(row), ...columns.map((c) => make("td", {class: c.number ? "number" : ""}, ...[c.text ? c.text(row) : c.value(row) ?? ""].flat())));
    if (onRow) { tr.onclick = () => onRow(row); tr.onkeydown = (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); onRow(row); } }; }
    return {row, tr};
  });
  columns.forEach((column) => {
    const head = make("th", {class: column.number ? "number" : "", scope: "col", "aria-sort": "none", "data-column": column.title}, make("button", {type: "button"}, column.title));
    head.firstChild.onclick = () => {
      const up = head.getAttribute("aria-sort") === "none" ? !column.number || column.low === true : head.getAttribute("aria-sort") === "descending";
      for (const other of heads.children) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      made.sort((a, b) => {
        const x = column.value(a.row), y = column.value(b.row);
        if (x === null || x === undefined || y === null || y === undefined) return (x ?? null) === (y ?? null) ? 0 : (x ?? null) === null ? 1 : -1;
        return (up ? 1 : -1) * (column.number ? x - y : String(x).localeCompare(String(y), "en", {numeric: true}));
      });
      body.append(...made.map((m) => m.tr));
    };
    heads.append(head);
  });
  body.append(...made.map((m) => m.tr));
  $(id).append(make("thead", {}, heads), body);
  return made;
}
function drawTables() {
  const total = data.launches.reduce((sum, l) => sum + (l.us ?? 0), 0), number = true;
  const swatch = (kind) => make("span", {class: "swatch " + kind});
  const made = table("launches", data.launches, [
    {title: "#", value: (l) => l.index + 1, number, low: true}, {title: "kernel", value: (l) => l.kernel || null, number, low: true},
    {title: "what", value: (l) => l.what}, {title: "kind", value: (l) => l.kind, text: (l) => [swatch(l.kind), KINDS[l.kind]]},
    {title: "µs", value: (l) => l.us, text: (l) => fixed(l.us), number}, {title: "% of all", value: (l) => l.us, text: (l) => (l.us ? fixed(100 * l.us / total) : ""), number},
    {title: "% of roofline", value: (l) => l.roofline, text: (l) => fixed(l.roofline), number, low: true},
    {title: "µs above roofline", value: (l) => l.lost, text: (l) => fixed(l.lost), number},
    {title: "TFLOP/s", value: (l) => l.tflops, text: (l) => fixed(l.tflops), number}, {title: "GB/s", value: (l) => l.gbps, text: (l) => fixed(l.gbps, 0), number},
    {title: "registers", value: (l) => l.compiled?.registers, number}, {title: "spilled bytes", value: (l) => l.compiled?.spill_bytes, number},
  ], (l) => ({tabindex: 0, "data-launch": l.index, "data-kind": l.kind}), (l) => choose(l.index));
  for (const {row, tr} of made) rowOf.set(row.index, tr);
  const first = (region) => data.launches.find((l) => l.name === region.name);
  table("regions", data.regions, [
    {title: "kernel", value: (r) => r.kernel || null, number, low: true}, {title: "contraction or operator", value: (r) => r.contraction || "epilogue over " + r.name},
    {title: "operators", value: (r) => r.operators.join(" + ")}, {title: "why it ends there, or stands alone", value: (r) => r.note},
  ], (r) => ({tabindex: 0, "data-region": r.name, class: r.kind}), (r) => { const l = first(r); if (l) choose(l.index); });
  const kinds = Object.keys(KINDS).map((kind) => ({kind, all: data.launches.filter((l) => l.kind === kind)})).filter((k) => k.all.length);
  const sum = (list, key) => list.reduce((s, l) => s + (l[key] ?? 0), 0);
  table("totals", kinds, [
    {title: "kind", value: (k) => KINDS[k.kind], text: (k) => [swatch(k.kind), KINDS[k.kind]]}, {title: "launches", value: (k) => k.all.length, number},
    {title: "µs", value: (k) => sum(k.all, "us"), text: (k) => fixed(sum(k.all, "us")), number}, {title: "µs by the roofline", value: (k) => sum(k.all, "floor_us"), text: (k) => fixed(sum(k.all, "floor_us")), number},
    {title: "MB moved", value: (k) => sum(k.all, "bytes"), text: (k) => fixed(sum(k.all, "bytes") / 1e6), number}, {title: "GFLOP", value: (k) => sum(k.all, "flop"), text: (k) => fixed(sum(k.all, "flop") / 1e9), number},
  ], (k) => ({tabindex: 0, "data-kind": k.kind}), (k) => showKind(k.kind));
  for (const tab of document.querySelectorAll("[role=tab]")) tab.onclick = () => {
    for (const other of document.querySelectorAll("[role=tab]")) { other.setAttribute("aria-selected", other === tab); $(other.getAttribute("aria-controls")).hidden = other !== tab; }
  };
  for (const {kind, all} of kinds) {
    const button = make("button", {type: "button", class: kind, "data-kind": kind, "aria-pressed": "false"}, `${KINDS[kind]}: ${all.length}${sum(all, "us") ? `, ${fixed(sum(all, "us"))} µs` : ""}`);
    button.onclick = () => showKind(kind);
    $("kinds").append(button);
  }
}

/** Losses of a training by step, over a logarithmic axis if all are positive; validation has dots. */
function curves(lines) {
  const shown = lines.filter((l) => l.loss !== undefined || l.validation_loss !== undefined);
  const all = shown.flatMap((l) => [l.loss, l.validation_loss]).filter((x) => x !== undefined);
  const scale = all.every((x) => x > 0) ? Math.log10 : (x) => x, low = Math.min(...all.map(scale)), high = Math.max(...all.map(scale));
  const last = Math.max(1, ...shown.map((l) => l.step));
  const at = (l, value) => [1000 * l.step / last, 190 - 180 * (high > low ? (scale(value) - low) / (high - low) : 0.5)];
  const svg = make("svg", {viewBox: "0 0 1000 200", role: "img", "aria-label": "Losses by step"});
  for (const key of ["loss", "validation_loss"]) {
    const points = shown.filter((l) => l[key] !== undefined).map((l) => at(l, l[key]));
    svg.append(make("path", {class: "curve " + key, d: points.map(([x, y], i) => `${i ? "L" : "M"}${x} ${y}`).join("")}));
    if (key !== "loss") for (const [x, y] of points) svg.append(make("rect", {class: "dot", x: x - 3, y: y - 3, width: 6, height: 6}));
  }
  return [svg, make("p", {class: "muted"}, make("span", {}, `loss, and validation's with dots: ${fixed(Math.min(...all), 4)} to ${fixed(Math.max(...all), 4)}`), make("span", {}, `step ${last}`))];
}
function drawTraining() {
  const lines = data.training?.lines ?? [], number = true;
  if (!lines.length) return;
  $("tab-training").hidden = false;
  $("training").prepend(...curves(lines));
  const column = (title, key, digits) => ({title, value: (l) => l[key] ?? null, text: (l) => fixed(l[key], digits), number});
  table("steps", lines, [column("step", "step", 0), column("loss", "loss", 5), column("validation loss", "validation_loss", 5), column("learning rate", "learning_rate", 6),
    column("norm of gradients", "gradient_norm", 3), column("images/s", "images_per_second"),
    ...(lines.some((l) => l.loss_scale !== undefined) ? [column("scale", "loss_scale", 0), column("skipped", "skipped", 0)] : [])], () => ({}));
}

/** Dims the launches that `keep` refuses, and takes their rows away. */
function filter(keep) {
  for (const launch of data.launches) {
    const kept = keep(launch);
    boxOf.get(launch.index)?.group.classList.toggle("dim", !kept);
    slotOf.get(launch.index)?.classList.toggle("dim", !kept);
    rowOf.get(launch.index).hidden = !kept;
  }
}
function showKind(kind) {
  shown = shown === kind ? null : kind;
  for (const button of $("kinds").children) button.setAttribute("aria-pressed", button.dataset.kind === shown);
  filter((l) => !shown || l.kind === shown);
}
function search(text) {
  const words = text.toLowerCase();
  filter((l) => !words || `${l.label} ${l.name} ${l.how} ${(regionOf(l)?.operators ?? []).join(" ")}`.toLowerCase().includes(words));
}

// ---- The chosen launch ----

const regionOf = (launch) => data.regions.find((r) => r.name === launch.name);
function definitions(pairs) {
  return make("dl", {}, ...pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined).flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)]));
}
function folded(title, open, ...children) { return make("details", open ? {open: ""} : {}, make("summary", {}, title), ...children); }
const list = (items, name = "ul") => make(name, {}, ...items.map((item) => make("li", {}, item)));

/** The text after a pass; lines that the text before does not have are marked. */
function difference(before, after) {
  const old = new Set(before.split("\n"));
  return make("pre", {}, ...after.trimEnd().split("\n").map((line) => (old.has(line) ? line + "\n" : make("span", {class: "added"}, line + "\n"))));
}
function epilogueSection(epilogue) {
  const parts = [make("p", {class: "muted"}, "as written"), make("pre", {}, epilogue.written.trimEnd())];
  let before = epilogue.written, unchanged = 0;
  epilogue.passes.forEach((pass, i) => {
    if (!pass.changed) { unchanged += 1; return; }
    parts.push(make("p", {}, make("b", {}, `${i + 1}. ${pass.pass}`), `: ${pass.purpose}${pass.exact ? "" : " (may reassociate)"}`), difference(before, pass.text));
    before = pass.text;
  });
  parts.push(make("p", {class: "muted"}, `${unchanged} of ${epilogue.passes.length} passes change nothing: ${epilogue.passes.filter((p) => !p.changed).map((p) => p.pass).join(", ")}`));
  return folded("Epilogue, pass by pass", false, ...parts);
}
function sharedPicture(plan) {
  const svg = make("svg", {viewBox: `0 0 ${plan.shared_bytes} 46`, preserveAspectRatio: "none", role: "img", "aria-label": "Dynamic shared memory of a CTA"});
  const colours = ["contraction", "normalisation", "elementwise"];
  let at = 0;
  plan.shared.forEach((part, i) => {
    for (let piece = 0; piece < part.pieces; ++piece) {
      const width = part.bytes / part.pieces;
      svg.append(make("rect", {class: "slot " + colours[i % 3], x: at, y: 4, width, height: 38}, make("title", {}, `${part.name}: ${bytesText(width)}`)));
      at += width;
    }
  });
  return [svg, list(plan.shared.map((part) => `${part.name}: ${part.pieces > 1 ? `${part.pieces} × ${bytesText(part.bytes / part.pieces)} = ` : ""}${bytesText(part.bytes)}`))];
}
function planSection(plan) {
  const parts = [definitions([["plan", plan.plan], ["chosen by", plan.origin], ["fixed again by", plan.override], ["predicted", `${fixed(plan.predicted_us)} µs`],
                              ["CTAs", `${plan.ctas} of ${plan.threads} threads${plan.cluster > 1 ? `, clusters of ${plan.cluster}` : ""}`], ["workspace", bytesText(plan.workspace_bytes)]]),
                 make("pre", {}, plan.reasons.trimEnd())];
  if (plan.alternatives.length) {
    parts.push(make("h3", {}, `Next best of ${plan.legal} legal candidates`), make("table", {class: "candidates"}, ...plan.alternatives.map((a) => make("tr", {}, make("td", {class: "number"}, `${fixed(a.us)} µs`), make("td", {}, a.plan)))));
  }
  if (plan.refused) parts.push(make("h3", {}, `Refused: ${plan.refused} candidates`), list(plan.refusals));
  const sections = [folded("Plan", true, ...parts)];
  if (plan.shared.length) sections.push(folded(`Shared memory: ${bytesText(plan.shared_bytes)}`, true, ...sharedPicture(plan)));
  return sections;
}
function decisionsOf(launch) {
  if (!launch.kernel || !data.decisions) return null;
  const lines = data.decisions.split("\n"), at = lines.findIndex((line) => line.startsWith(`kernel ${launch.kernel} `));
  if (at < 0) return null;
  const end = lines.findIndex((line, i) => i > at && !line.startsWith(" "));
  return lines.slice(at + 1, end < 0 ? undefined : end).map((line) => line.trim()).filter((line) => line);
}
function sourceSection(launch) {
  const section = folded("Source", false), text = data.sources[launch.source];
  section.addEventListener("toggle", () => { if (section.open && section.children.length === 1) section.append(make("p", {class: "muted"}, `${text.split("\n").length} lines`), make("pre", {class: "source"}, text)); });
  return section;
}
function describe(launch) {
  const region = regionOf(launch), plan = data.plans?.[launch.plan], c = launch.compiled, decisions = decisionsOf(launch);
  const parts = [make("h2", {}, launch.label), make("p", {}, make("span", {class: "swatch " + launch.kind}), KINDS[launch.kind], ` · launch ${launch.index + 1} of ${data.launches.length}`),
    definitions([["makes", region ? region.outputs.join(", ") : launch.name], ["time", launch.us ? `${fixed(launch.us)} µs, ${launch.source_of_us}` : launch.floor_us ? `not known; at least ${fixed(launch.floor_us)} µs` : ""],
      ["measured, predicted", launch.measured_us !== undefined && launch.predicted_us ? `${fixed(launch.measured_us)} µs, ${fixed(launch.predicted_us)} µs` : ""],
      ["roofline", launch.floor_us ? `${fixed(launch.floor_us, 2)} µs${launch.roofline ? `: ${fixed(launch.roofline)} % of it is reached` : ""}` : ""],
      ["work", [launch.flop ? `${fixed(launch.flop / 1e9, 2)} GFLOP` : "", launch.bytes ? `${fixed(launch.bytes / 1e6, 2)} MB` : ""].filter((x) => x).join(", ")],
      ["kernel", launch.how], ["registers", c ? `${c.registers} a thread, ${c.spill_bytes} bytes spilled, ${c.stack_bytes} bytes of stack` : launch.source === undefined ? "" : "not known: not compiled on this machine"],
      ["binary", c ? `${bytesText(c.binary_bytes)}, ${c.compiler}` : ""]])];
  if (region) {
    parts.push(make("h3", {}, "Fused operators"), list(region.operators, "ol"));
    if (region.note) parts.push(make("h3", {}, "Why it ends here, or stands alone"), make("p", {id: "note"}, region.note));
  }
  if (decisions?.length) parts.push(make("h3", {}, "Decided"), list(decisions));
  if (plan) parts.push(...planSection(plan));
  if (region && region.epilogue !== null) parts.push(epilogueSection(data.epilogues[region.epilogue]));
  if (launch.source !== undefined) parts.push(sourceSection(launch));
  $("details").replaceChildren(...parts);
  $("details").scrollTop = 0;
}
function choose(index, move = true) {
  const mark = (i, on) => {
    for (const element of [boxOf.get(i)?.group, rowOf.get(i), slotOf.get(i)]) element?.classList.toggle("chosen", on);
    for (const edge of edgesOf.get(boxOf.get(i)?.index) ?? []) edge.classList.toggle("chosen", on);
  };
  if (chosen !== null) mark(chosen, false);
  chosen = index;
  mark(index, true);
  describe(data.launches[index]);
  if (move && boxOf.has(index)) centre(boxOf.get(index));
  rowOf.get(index)?.scrollIntoView({block: "nearest"});
  location.replace("#" + (index + 1));
}

// ---- Keys, and the beginning ----

function handleKeys() {
  document.addEventListener("keydown", (e) => {
    if (e.target.tagName === "INPUT") { if (e.key === "Escape") { e.target.value = ""; search(""); $("picture").focus(); } return; }
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    const by = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1}[e.key];
    if (by && !e.target.closest("#details")) {
      const next = Math.min(data.launches.length - 1, Math.max(0, chosen === null ? 0 : chosen + by));
      choose(next);
      if (e.target.closest("tr")) rowOf.get(next)?.focus();
    } else if (e.key === "+" || e.key === "=") zoom(1.4);
    else if (e.key === "-") zoom(1 / 1.4);
    else if (e.key === "0") showAll();
    else if (e.key === "/") $("search").focus();
    else return;
    e.preventDefault();
  });
  $("search").oninput = (e) => search(e.target.value);
}
const longest = () => data.launches.reduce((best, l) => ((l.us ?? 0) > (data.launches[best].us ?? 0) ? l.index : best), 0);
function summarise() {
  const host = data.launches.filter((l) => l.kind === "host").length, copies = data.launches.filter((l) => l.kind === "movement").length;
  const foreign = data.launches.filter((l) => l.kind === "foreign").length;
  const shapes = Object.entries(data.shapes ?? {}).map(([name, shape]) => `${name} (${shape.join(",")})`).join(", ");
  $("summary").textContent = [`${data.launches.length - host} launches, ${copies} of them copies`, host ? `${host} host steps` : "", foreign ? `${foreign} of them left to PyTorch` : "", `${data.device}${data.precision ? " in " + data.precision : ""}`,
    data.device_note, data.measured ? "times are measured" : data.launches.some((l) => l.us) ? "times are predicted" : data.kind === "network" ? "no times: unisono run --profile --html measures them" : "",
    data.note, data.training ? `${data.training.steps} of ${data.training.of} steps` : "", shapes, data.complete ? "" : "arrows are incomplete: this GPU's kernels have other regions"].filter((x) => x).join(" · ");
}
/** Operators of the file that are not supported, which explain leaves out. */
function listLeftOut() {
  const all = data.left_out ?? [], box = $("left-out");
  box.hidden = all.length === 0;
  box.querySelector("summary").textContent = `${all.length} operator${all.length === 1 ? "" : "s"} left out`;
  box.querySelector("ul").append(...all.map((l) => make("li", {}, `${l.operator} ${l.name}: ${l.reason}`)));
}
(async () => {
  data = await unpack($("data").textContent);
  data.launches.forEach(measure);
  summarise(); listLeftOut(); drawGraph(); drawTimeline(); drawTables(); drawTraining(); handleGraph(); handleKeys();
  if (data.kind === "epilogue") showAll(); else showStart();
  const wanted = parseInt(location.hash.slice(1), 10);
  if (data.launches.length) choose(wanted >= 1 && wanted <= data.launches.length ? wanted - 1 : longest(), wanted >= 1);
  document.body.dataset.ready = "true";
})();
