// Tables, losses of a training, and which launches are shown.

/**
 * rows: objects; columns: {title, value, text?, number?}, of which those without a value are left out. A click on a
 * title sorts by it, missing values last.
 */
function table(id, rows, all, attributes, onRow) {
  const columns = all.filter((c) => rows.length === 0 || rows.some((row) => (c.value(row) ?? "") !== ""));
  const body = make("tbody"), heads = make("tr");
  const made = rows.map((row) => {
    const tr = make(
      "tr", attributes(row),
      ...columns.map(
        (c) => make("td", {class: c.number ? "number" : ""}, ...[c.text ? c.text(row) : c.value(row) ?? ""].flat())));
    if (onRow) {
      tr.onclick = () => onRow(row);
      tr.onkeydown = (e) => {
        if (e.key === "Enter" || e.key === " ") {
          e.preventDefault();
          onRow(row);
        }
      };
    }
    return {row, tr};
  });
  columns.forEach((column) => {
    const head = make(
      "th", {class: column.number ? "number" : "", scope: "col", "aria-sort": "none", "data-column": column.title},
      make("button", {type: "button"}, column.title));
    head.firstChild.onclick = () => {
      const up = head.getAttribute("aria-sort") === "none" ? !column.number || column.low === true :
                                                             head.getAttribute("aria-sort") === "descending";
      for (const other of heads.children) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      made.sort((a, b) => {
        const x = column.value(a.row), y = column.value(b.row);
        if (x === null || x === undefined || y === null || y === undefined)
          return (x ?? null) === (y ?? null) ? 0 : (x ?? null) === null ? 1 : -1;
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
  const [unit, perSecond] = data.launches.some((l) => l.flops >= 1e12) ? [1e12, "T"] : [1e9, "G"];
  const swatch = (kind) => make("span", {class: "swatch " + kind});
  const made = table(
    "launches", data.launches,
    [
      {title: "#", value: (l) => l.index + 1, number, low: true},
      {title: "kernel", value: (l) => l.kernel || null, number, low: true},
      {title: "what", value: (l) => l.what},
      {title: "kind", value: (l) => l.kind, text: (l) => [swatch(l.kind), l.kind]},
      {title: "µs", value: (l) => l.us, text: (l) => fixed(l.us), number},
      {title: "fastest", value: (l) => l.spread_us?.[0], text: (l) => fixed(l.spread_us?.[0]), number},
      {title: "p90", value: (l) => l.spread_us?.[1], text: (l) => fixed(l.spread_us?.[1]), number},
      {title: "p99", value: (l) => l.spread_us?.[2], text: (l) => fixed(l.spread_us?.[2]), number},
      {title: "% of all", value: (l) => l.us, text: (l) => (l.us ? fixed(100 * l.us / total) : ""), number},
      {title: "% of roofline", value: (l) => l.roofline, text: (l) => fixed(l.roofline), number, low: true},
      {title: "µs above roofline", value: (l) => l.lost, text: (l) => fixed(l.lost), number},
      {title: perSecond + "FLOP/s", value: (l) => l.flops, text: (l) => fixed(l.flops && l.flops / unit), number},
      {title: "GB/s", value: (l) => l.gbps, text: (l) => fixed(l.gbps, 0), number},
      {title: "registers", value: (l) => l.compiled?.registers, number},
      {title: "spilled bytes", value: (l) => l.compiled?.spill_bytes, number},
    ],
    (l) => ({tabindex: 0, "data-launch": l.index, "data-kind": l.kind}), (l) => choose(l.index));
  for (const {row, tr} of made) rowOf.set(row.index, tr);
  const first = (region) => data.launches.find((l) => l.name === region.name);
  table(
    "regions", data.regions,
    [
      {title: "kernel", value: (r) => r.kernel || null, number, low: true},
      {title: "contraction or operator", value: (r) => r.contraction || "epilogue over " + r.name},
      {title: "operators", value: (r) => r.operators.join(" + ")},
      {title: "why it ends there, or stands alone", value: (r) => r.note},
    ],
    (r) => ({tabindex: 0, "data-region": r.name, class: r.kind}), (r) => {
      const l = first(r);
      if (l) choose(l.index);
    });
  const kinds = Object.keys(KINDS)
                  .map((kind) => ({kind, all: data.launches.filter((l) => l.kind === kind)}))
                  .filter((k) => k.all.length);
  const sum = (list, key) => list.reduce((s, l) => s + (l[key] ?? 0), 0);
  table(
    "totals", kinds,
    [
      {title: "kind", value: (k) => KINDS[k.kind], text: (k) => [swatch(k.kind), KINDS[k.kind]]},
      {title: "launches", value: (k) => k.all.length, number},
      {title: "µs", value: (k) => sum(k.all, "us"), text: (k) => fixed(sum(k.all, "us")), number},
      {
        title: "µs by the roofline",
        value: (k) => sum(k.all, "floor_us"),
        text: (k) => fixed(sum(k.all, "floor_us")),
        number
      },
      {title: "MB moved", value: (k) => sum(k.all, "bytes"), text: (k) => fixed(sum(k.all, "bytes") / 1e6), number},
      {title: "GFLOP", value: (k) => sum(k.all, "flop"), text: (k) => fixed(sum(k.all, "flop") / 1e9), number},
    ],
    (k) => ({tabindex: 0, "data-kind": k.kind}), (k) => showKind(k.kind));
  for (const tab of document.querySelectorAll("[role=tab]"))
    tab.onclick = () => {
      for (const other of document.querySelectorAll("[role=tab]")) {
        other.setAttribute("aria-selected", other === tab);
        $(other.getAttribute("aria-controls")).hidden = other !== tab;
      }
    };
  for (const {kind, all} of kinds) {
    const button = make(
      "button", {type: "button", class: kind, "data-kind": kind, "aria-pressed": "false"},
      `${KINDS[kind]}: ${all.length}${sum(all, "us") ? `, ${fixed(sum(all, "us"))} µs` : ""}`);
    button.onclick = () => showKind(kind);
    $("kinds").append(button);
  }
}

/** Losses of a training by step, over a logarithmic axis if all are positive; validation has dots. */
function curves(lines) {
  const shown = lines.filter((l) => l.loss !== undefined || l.validation_loss !== undefined);
  const all = shown.flatMap((l) => [l.loss, l.validation_loss]).filter((x) => x !== undefined);
  const scale = all.every((x) => x > 0) ? Math.log10 : (x) => x, low = Math.min(...all.map(scale)),
        high = Math.max(...all.map(scale));
  const last = Math.max(1, ...shown.map((l) => l.step));
  const at = (l, value) => [1000 * l.step / last, 190 - 180 * (high > low ? (scale(value) - low) / (high - low) : 0.5)];
  const svg = make("svg", {viewBox: "0 0 1000 200", role: "img", "aria-label": "Losses by step"});
  for (const key of ["loss", "validation_loss"]) {
    const points = shown.filter((l) => l[key] !== undefined).map((l) => at(l, l[key]));
    svg.append(
      make("path", {class: "curve " + key, d: points.map(([x, y], i) => `${i ? "L" : "M"}${x} ${y}`).join("")}));
    if (key !== "loss")
      for (const [x, y] of points) svg.append(make("rect", {class: "dot", x: x - 3, y: y - 3, width: 6, height: 6}));
  }
  return [
    svg,
    make(
      "p", {class: "muted"},
      make(
        "span", {}, `loss, and validation's with dots: ${fixed(Math.min(...all), 4)} to ${fixed(Math.max(...all), 4)}`),
      make("span", {}, `step ${last}`))
  ];
}
function drawTraining() {
  const lines = data.training?.lines ?? [], number = true;
  if (!lines.length) return;
  $("tab-training").hidden = false;
  $("training").prepend(...curves(lines));
  const column = (title, key, digits) =>
    ({title, value: (l) => l[key] ?? null, text: (l) => fixed(l[key], digits), number});
  table(
    "steps", lines,
    [
      column("step", "step", 0), column("loss", "loss", 5), column("validation loss", "validation_loss", 5),
      column("learning rate", "learning_rate", 6), column("norm of gradients", "gradient_norm", 3),
      column("images/s", "images_per_second"),
      ...(
        lines.some((l) => l.loss_scale !== undefined) ?
          [column("scale", "loss_scale", 0), column("skipped", "skipped", 0)] :
          [])
    ],
    () => ({}));
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
  filter(
    (l) => !words ||
      `${l.label} ${l.name} ${l.how} ${(regionOf(l)?.operators ?? []).join(" ")}`.toLowerCase().includes(words));
}
