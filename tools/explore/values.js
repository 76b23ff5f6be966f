"use strict";
// Draws what the file holds: the layout of the graph was computed when it was written. No library, nothing is fetched.
// values.js, graph.js, tables.js, details.js and page.js are one script.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const KINDS = {
  contraction: "contractions",
  attention: "attention",
  normalisation: "normalisations",
  elementwise: "elementwise",
  movement: "copies and moves",
  reduction: "reductions, pools, resizes, updates",
  foreign: "left to PyTorch",
  host: "on the host"
};

/** An element with attributes, and children that are elements or text. */
function make(name, attributes = {}, ...children) {
  const element = ["svg", "g", "rect", "path", "text", "title"].includes(name) ? document.createElementNS(SVG, name) :
                                                                                 document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined) element.setAttribute(key, value);
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
  return x.toLocaleString(
    "en", {minimumFractionDigits: Math.min(few, digits), maximumFractionDigits: Math.max(few, digits)});
}
const bytesText = (n) => (n < 1024 ? `${n} B` : n < 1 << 20 ? `${fixed(n / 1024)} KiB` : `${fixed(n / (1 << 20))} MiB`);

/** Numbers of a launch that tables sort by; null where nothing is known. */
function measure(launch, index) {
  const us = launch.measured_us ?? (launch.predicted_us || null);
  launch.index = index;
  launch.us = us;
  launch.source_of_us = launch.measured_us !== undefined ? "measured" :
    us                                                   ? "predicted" :
    launch.floor_us                                      ? "at least" :
                                                           "";
  launch.span = us ?? launch.floor_us;
  launch.roofline = us && launch.floor_us ? 100 * launch.floor_us / us : null;
  launch.lost = us && launch.floor_us ? us - launch.floor_us : null;
  launch.flops = us && launch.flop ? 1e6 * launch.flop / us : null;
  launch.gbps = us && launch.bytes ? launch.bytes / us / 1e3 : null;
  launch.label = (launch.kernel ? launch.kernel + ". " : "") + launch.what;
}

let data, chosen = null, shown = null;  // shown: the only kind that is not dim
const boxOf = new Map(), rowOf = new Map(), slotOf = new Map(), edgesOf = new Map();
