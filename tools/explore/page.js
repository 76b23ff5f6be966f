// Keys, and the beginning.

function handleKeys() {
  document.addEventListener("keydown", (e) => {
    if (e.target.tagName === "INPUT") {
      if (e.key === "Escape") {
        e.target.value = "";
        search("");
        $("picture").focus();
      }
      return;
    }
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    const by = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1}[e.key];
    if (by && !e.target.closest("#details")) {
      const next = Math.min(data.launches.length - 1, Math.max(0, chosen === null ? 0 : chosen + by));
      choose(next);
      if (e.target.closest("tr")) rowOf.get(next)?.focus();
    } else if (e.key === "+" || e.key === "=")
      zoom(1.4);
    else if (e.key === "-")
      zoom(1 / 1.4);
    else if (e.key === "0")
      showAll();
    else if (e.key === "/")
      $("search").focus();
    else
      return;
    e.preventDefault();
  });
  $("search").oninput = (e) => search(e.target.value);
}
const longest = () =>
  data.launches.reduce((best, l) => ((l.us ?? 0) > (data.launches[best].us ?? 0) ? l.index : best), 0);
function summarise() {
  const host = data.launches.filter((l) => l.kind === "host").length,
        copies = data.launches.filter((l) => l.kind === "movement").length;
  const foreign = data.launches.filter((l) => l.kind === "foreign").length;
  const shapes = Object.entries(data.shapes ?? {}).map(([name, shape]) => `${name} (${shape.join(",")})`).join(", ");
  $("summary").textContent = [
    `${data.launches.length - host} launches, ${copies} of them copies`, host ? `${host} host steps` : "",
    foreign ? `${foreign} of them left to PyTorch` : "",
    `${data.device}${data.precision ? " in " + data.precision : ""}`, data.device_note,
    data.measured                     ? "times are measured" :
      data.launches.some((l) => l.us) ? "times are predicted" :
      data.kind === "network"         ? "no times: unisono run --profile --html measures them" :
                                        "",
    data.note, data.training ? `${data.training.steps} of ${data.training.of} steps` : "", shapes,
    data.complete ? "" : "arrows are incomplete: this GPU's kernels have other regions"
  ].filter((x) => x).join(" · ");
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
  summarise();
  listLeftOut();
  drawGraph();
  drawTimeline();
  drawTables();
  drawTraining();
  handleGraph();
  handleKeys();
  if (data.kind === "epilogue")
    showAll();
  else
    showStart();
  const wanted = parseInt(location.hash.slice(1), 10);
  if (data.launches.length) choose(wanted >= 1 && wanted <= data.launches.length ? wanted - 1 : longest(), wanted >= 1);
  document.body.dataset.ready = "true";
})();
