// The graph of launches, and the time line.

const view = {
  x: 0,
  y: 0,
  scale: 1
};
function place() { $("world").setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`); }
function zoom(factor, x, y) {
  const size = $("picture").getBoundingClientRect();
  const at = {x: x ?? size.width / 2, y: y ?? size.height / 2};
  const scale = Math.min(4, Math.max(0.01, view.scale * factor)), by = scale / view.scale;
  view.x = at.x - (at.x - view.x) * by;
  view.y = at.y - (at.y - view.y) * by;
  view.scale = scale;
  place();
}
function showAll() {
  const size = $("picture").getBoundingClientRect();
  view.scale = Math.min(1.5, (size.width - 30) / data.width, (size.height - 30) / data.height);
  view.x = (size.width - data.width * view.scale) / 2;
  view.y = (size.height - data.height * view.scale) / 2;
  place();
}
function showStart() {
  const size = $("picture").getBoundingClientRect();
  view.scale = Math.max(0.35, Math.min(1, (size.width - 30) / data.width));
  const first = data.boxes.length ? data.boxes[0].at : [0, 0, 0, 0];
  view.x = size.width / 2 - (first[0] + first[2] / 2) * view.scale;
  view.y = 15;
  place();
}
function centre(box) {
  const size = $("picture").getBoundingClientRect();
  view.scale = Math.max(view.scale, 0.6);
  view.x = size.width / 2 - (box.at[0] + box.at[2] / 2) * view.scale;
  view.y = size.height / 2 - (box.at[1] + box.at[3] / 2) * view.scale;
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
    const group = make(
      "g", {class: "box " + (launch ? launch.kind : "tensor"), "data-launch": box.launch},
      make("rect", {x, y, width, height}));
    box.lines.forEach(
      (line, i) => group.append(make("text", {x: x + width / 2, y: y + 18 + 15 * i, class: i ? "" : "head"}, line)));
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
  const point = (e) => {
    const at = picture.getBoundingClientRect();
    return {x: e.clientX - at.left, y: e.clientY - at.top};
  };
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
    view.x += after.x - before.x;
    view.y += after.y - before.y;
    zoom(after.spread / before.spread, after.x, after.y);
  });
  const lift = (e) => {
    down.delete(e.pointerId);
  };
  picture.addEventListener("pointercancel", lift);
  picture.addEventListener("pointerup", (e) => {
    const box = down.has(e.pointerId) && pressed?.closest(".box");
    lift(e);
    pressed = null;
    if (box && box.dataset.launch !== undefined) choose(+box.dataset.launch, false);
  });
  $("closer").onclick = () => zoom(1.4);
  $("further").onclick = () => zoom(1 / 1.4);
  $("whole").onclick = showAll;
}

/** Round numbers from 0 to `total`, at most nine. */
function ticks(total) {
  let step = 10 ** Math.floor(Math.log10(total / 4));
  for (const more of [2, 2.5, 2])
    if (total / step > 8) step *= more;
  return Array.from({length: Math.floor(total / step) + 1}, (_, i) => i * step);
}
function drawTimeline() {
  const total = data.launches.reduce((sum, l) => sum + l.span, 0);
  if (!total) {
    $("timeline").hidden = true;
    return;
  }
  const svg = make("svg", {
    viewBox: `0 0 ${total} 10`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": "Launches one after the other, as wide as they take time"
  });
  let at = 0;
  for (const launch of data.launches) {
    const slot = make(
      "rect", {class: "slot " + launch.kind, x: at, y: 0, width: launch.span, height: 10, "data-launch": launch.index},
      make("title", {}, `${launch.label}: ${launch.source_of_us} ${fixed(launch.span)} µs`));
    slot.onclick = () => choose(launch.index);
    slotOf.set(launch.index, slot);
    svg.append(slot);
    at += launch.span;
  }
  const sum = `${fixed(total)} µs one by one${
    data.run_ms ?
      `; a whole run takes ${fixed(1000 * data.run_ms)} µs (median of ${data.runs}), ${
        fixed(Math.abs(1000 * data.run_ms - total))} µs ${1000 * data.run_ms < total ? "less" : "between launches"}` :
      ""}`;
  const axis = make(
    "div", {class: "axis muted"},
    ...ticks(total).map((at) => make("span", {style: `left: ${100 * at / total}%`}, at.toLocaleString("en"))));
  $("timeline").append(svg, axis, make("p", {class: "muted"}, make("span", {}, "µs"), make("span", {}, sum)));
}
