// The chosen launch.

const regionOf = (launch) => data.regions.find((r) => r.name === launch.name);
function definitions(pairs) {
  return make(
    "dl", {},
    ...pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined)
      .flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)]));
}
function folded(title, open, ...children) {
  return make("details", open ? {open: ""} : {}, make("summary", {}, title), ...children);
}
const list = (items, name = "ul") => make(name, {}, ...items.map((item) => make("li", {}, item)));

/** The text after a pass; lines that the text before does not have are marked. */
function difference(before, after) {
  const old = new Set(before.split("\n"));
  return make(
    "pre", {},
    ...after.trimEnd().split("\n").map(
      (line) => (old.has(line) ? line + "\n" : make("span", {class: "added"}, line + "\n"))));
}
function epilogueSection(epilogue) {
  const parts = [make("p", {class: "muted"}, "as written"), make("pre", {}, epilogue.written.trimEnd())];
  let before = epilogue.written, unchanged = 0;
  epilogue.passes.forEach((pass, i) => {
    if (!pass.changed) {
      unchanged += 1;
      return;
    }
    parts.push(
      make(
        "p", {}, make("b", {}, `${i + 1}. ${pass.pass}`), `: ${pass.purpose}${pass.exact ? "" : " (may reassociate)"}`),
      difference(before, pass.text));
    before = pass.text;
  });
  parts.push(make(
    "p", {class: "muted"},
    `${unchanged} of ${epilogue.passes.length} passes change nothing: ${
      epilogue.passes.filter((p) => !p.changed).map((p) => p.pass).join(", ")}`));
  return folded("Epilogue, pass by pass", false, ...parts);
}
function sharedPicture(plan) {
  const svg = make("svg", {
    viewBox: `0 0 ${plan.shared_bytes} 46`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": "Dynamic shared memory of a CTA"
  });
  const colours = ["contraction", "normalisation", "elementwise"];
  let at = 0;
  plan.shared.forEach((part, i) => {
    for (let piece = 0; piece < part.pieces; ++piece) {
      const width = part.bytes / part.pieces;
      svg.append(make(
        "rect", {class: "slot " + colours[i % 3], x: at, y: 4, width, height: 38},
        make("title", {}, `${part.name}: ${bytesText(width)}`)));
      at += width;
    }
  });
  return [
    svg,
    list(plan.shared.map(
      (part) => `${part.name}: ${part.pieces > 1 ? `${part.pieces} × ${bytesText(part.bytes / part.pieces)} = ` : ""}${
        bytesText(part.bytes)}`))
  ];
}
function planSection(plan) {
  const parts = [
    definitions([
      ["plan", plan.plan], ["chosen by", plan.origin], ["fixed by", plan.override && `--plan '${plan.override}'`],
      ["predicted", `${fixed(plan.predicted_us)} µs`],
      ["CTAs", `${plan.ctas} of ${plan.threads} threads${plan.cluster > 1 ? `, clusters of ${plan.cluster}` : ""}`],
      ["workspace", bytesText(plan.workspace_bytes)]
    ]),
    make("pre", {}, plan.reasons.trimEnd())
  ];
  if (plan.alternatives.length) {
    parts.push(
      make("h3", {}, `Next best of ${plan.legal} legal candidates`),
      make(
        "table", {class: "candidates"},
        ...plan.alternatives.map(
          (a) => make("tr", {}, make("td", {class: "number"}, `${fixed(a.us)} µs`), make("td", {}, a.plan)))));
  }
  if (plan.refused) parts.push(make("h3", {}, `Refused: ${plan.refused} candidates`), list(plan.refusals));
  const sections = [folded("Plan", true, ...parts)];
  if (plan.shared.length)
    sections.push(folded(`Shared memory: ${bytesText(plan.shared_bytes)}`, true, ...sharedPicture(plan)));
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
  section.addEventListener("toggle", () => {
    if (section.open && section.children.length === 1)
      section.append(
        make("p", {class: "muted"}, `${text.split("\n").length} lines`), make("pre", {class: "source"}, text));
  });
  return section;
}
function describe(launch) {
  const region = regionOf(launch), plan = data.plans?.[launch.plan], c = launch.compiled,
        decisions = decisionsOf(launch);
  const parts = [
    make("h2", {}, launch.label),
    make(
      "p", {}, make("span", {class: "swatch " + launch.kind}), KINDS[launch.kind],
      ` · launch ${launch.index + 1} of ${data.launches.length}`),
    definitions([
      ["makes", region ? region.outputs.join(", ") : launch.name],
      [
        "time",
        launch.us ? `${fixed(launch.us)} µs, ${launch.source_of_us}` :
          launch.floor_us ? `not known; at least ${fixed(launch.floor_us)} µs` :
                            ""
      ],
      [
        "measured, predicted",
        launch.measured_us !== undefined && launch.predicted_us ?
          `${fixed(launch.measured_us)} µs, ${fixed(launch.predicted_us)} µs` :
          ""
      ],
      ["fastest, p90, p99", launch.spread_us ? `${launch.spread_us.map((us) => fixed(us)).join(", ")} µs` : ""],
      [
        "roofline",
        launch.floor_us ?
          `${fixed(launch.floor_us, 2)} µs${launch.roofline ? `: ${fixed(launch.roofline)} % of it is reached` : ""}` :
                                                              ""
      ],
      [
        "work",
        [
          launch.flop ? `${fixed(launch.flop / 1e9, 2)} GFLOP` : "",
          launch.bytes ? `${fixed(launch.bytes / 1e6, 2)} MB` : ""
        ].filter((x) => x)
          .join(", ")
      ],
      ["kernel", launch.how],
      [
        "registers",
        c ? `${c.registers} a thread, ${c.spill_bytes} bytes spilled, ${c.stack_bytes} bytes of stack` :
          launch.source === undefined ? "" :
                                        "not known: not compiled on this machine"
      ],
      ["binary", c ? `${bytesText(c.binary_bytes)}, ${c.compiler}` : ""]
    ])
  ];
  if (region) {
    parts.push(make("h3", {}, "Fused operators"), list(region.operators, "ol"));
    if (region.note)
      parts.push(make("h3", {}, "Why it ends here, or stands alone"), make("p", {id: "note"}, region.note));
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
