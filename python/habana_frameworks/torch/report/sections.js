"use strict";
const MAX_ROWS = 500;
const more = (count, shown) => count > shown ? [h("p", {class: "soft small"}, `and ${count - shown} more, in the JSON`)] : [];

function figures() {
  const figure = (id, value, text, tone, title) => h("div", {class: "figure " + (tone || ""), title},
    h("b", {"data-figure": id}, value), h("span", {class: "soft small"}, text));
  const best = report.recipes.length ? report.recipes[0] : null;
  const eager = report.eager.reduce((sum, e) => sum + e.count, 0);
  return h("div", {class: "figures"},
    figure("graphs", report.graphs.length, "graphs"),
    figure("first-output", time(report.first_output_ms), "to first output"),
    figure("hits", report.hits, "hits", report.hits ? "good" : ""),
    figure("misses", report.misses, "misses"),
    figure("breaks", report.breaks.length, "graph breaks", report.breaks.length ? "warn" : "good"),
    figure("recompiles", report.recompiles.length, "recompilations", report.recompiles.length ? "warn" : "good"),
    figure("eager", eager, "eager segments", eager ? "bad" : "good"),
    best && best.peak_share !== null ? figure("peak-share", percent(best.peak_share), "of peak, longest recipe", "",
      "operations of its best launch over this host's measured peak") : null,
    report.memory ? figure("memory", bytes(report.memory.peak_in_use), "device memory, peak") : null);
}
function graphRow(graph, open) {
  const inside = () => [
    h("p", {}, graph.lookup.sentence),
    graph.lookup.nearest ? h("p", {class: "soft small"}, `Nearest known graph: ${graph.lookup.nearest}` +
      (graph.lookup.differences.length ? " differs in" : "")) : null,
    graph.lookup.differences.length ? table([["factor"], ["here"], ["there"]], graph.lookup.differences.map((d) =>
      [d.factor, h("code", {}, d.ours || "–"), h("code", {}, d.theirs || "–")])) : null,
    stageLegend(graph.stages),
    graph.inputs.length ? h("p", {class: "soft small mono"}, `inputs ${graph.inputs.join("  ")}`, graph.more_inputs ? `  and ${graph.more_inputs} more` : "") : null,
    h("p", {class: "soft small mono"}, `front-end key ${graph.front_end_key || "none"}`, h("br"),
      `program ${graph.content_key || "none"}`),
  ].filter(Boolean);
  return folding("graphs", [
    h("span", {class: "name"}, h("b", {}, graph.name), " ", h("span", {class: "soft"}, graph.source)),
    h("span", {}, h("span", {class: "tag " + graph.origin}, graph.origin)),
    h("span", {class: "soft small"}, plural(graph.nodes, "node")),
    stageBar(graph.stages, graph.first_output_ms, true),
    h("span", {class: "right"}, time(graph.first_output_ms)),
  ], inside, open);
}
function breakCard(found) {
  const last = found.stack.length - 1;
  return h("div", {class: "card"}, h("h3", {}, found.title, found.count > 1 ? ` (${found.count} times)` : ""),
    found.explanation ? h("p", {class: "soft small"}, found.explanation) : null,
    h("pre", {class: "stack"}, found.stack.map((frame, i) => h("div", {class: i === last ? "here" : ""},
      `${frame.file}:${frame.line} in ${frame.function}\n    ${frame.code}`))),
    found.hints.map((hint) => h("p", {class: "small cure"}, hint)));
}
function recompileCard(found) {
  return h("div", {class: "card"}, h("h3", {}, found.function, " ", h("span", {class: "soft"}, `${found.place}, compilation ${found.compile_id}, ${time(found.ms)}`)),
    found.guards.map((guard) => h("p", {}, h("code", {}, guard))), h("p", {class: "small cure"}, found.cure));
}
function eagerParts() {
  const parts = [];
  if (report.eager.length) {
    parts.push(table([["what"], ["where"], ["reason"], ["what would cure it"], ["times", true]], report.eager.map((e) => [
      h("code", {class: "tight"}, e.what), h("span", {}, e.graph, " ", h("span", {class: "soft"}, e.source)),
      e.reason, h("span", {class: "cure"}, e.cure), e.count])));
  }
  return parts;
}
function operatorParts() {
  const shown = report.operators.slice(0, MAX_ROWS);
  return [h("p", {class: "soft small"}, "A recipe runs on the device. A direct call is the CPU's kernel on device memory; a fallback is the CPU's kernel, inside graphs too, because no recipe can hold the call."),
    table([["operator"], ["recipe calls", true], ["direct calls", true], ["fallback calls", true], ["programs", true], ["time to make them", true], ["lines that needed one"]],
      shown.map((op) => [h("code", {}, op.operator), op.recipes, op.direct, op.fallbacks, op.programs, time(op.program_ms), op.lines.join(", ")])),
    ...more(report.operators.length, shown.length)];
}
function recipeRow(recipe, open) {
  const inside = () => {
    const order = recipe.kernels.slice().sort((a, b) => b.ms - a.ms);
    const whole = recipe.ms || 1;
    return [kernelChart(recipe),
      h("p", {class: "soft small"}, "Stronger colour: nearer to the peak or to the bandwidth. Wheel: zoom in time."),
      rooflineChart(recipe, report.peak),
      table([["kernel"], ["engine"], ["time", true], ["of launch"], ["bytes", true], ["operations", true], ["of peak"], ["of bandwidth"]],
        order.slice(0, MAX_ROWS).map((k) => [h("code", {}, k.nodes.join(" + ")), k.engine.toUpperCase(), time(k.ms), shareBar(k.ms / whole),
          bytes(k.bytes), amount(k.flops), shareBar(k.peak_share), shareBar(k.bandwidth_share)])),
      ...more(order.length + recipe.more_kernels, Math.min(order.length, MAX_ROWS))];
  };
  return folding("recipes", [
    h("span", {class: "name"}, h("b", {}, recipe.recipe), " ", h("span", {class: "soft"}, recipe.graph)),
    h("span", {class: "right soft"}, plural(recipe.launches, "launch").replace("launchs", "launches")),
    h("span", {class: "right"}, `best ${time(recipe.ms)}`),
    h("span", {class: "right soft"}, bytes(recipe.bytes)),
    h("span", {class: "right"}, recipe.peak_share === null ? "" : `${percent(recipe.peak_share)} of peak`),
  ], inside, open);
}
function drawingSection() {
  const graphs = report.graphs.filter((graph) => graph.drawings.length);
  const missing = report.graphs.filter((graph) => !graph.drawings.length && graph.origin !== "eager");
  const reasons = [...new Set(missing.map((graph) => graph.no_drawing))].map((reason) =>
    h("p", {class: "soft small"}, `${plural(missing.filter((g) => g.no_drawing === reason).length, "graph")} not drawn: ${reason}`));
  if (!graphs.length) return section("drawings", "Graphs, drawn", "none", false, reasons);
  const viewer = drawingViewer(graphs);
  const node = section("drawings", "Graphs, drawn", "before and after the compiler's passes", false, viewer.node, reasons);
  let fresh = true;
  node.addEventListener("toggle", () => { if (node.open && fresh) { fresh = false; viewer.show(); } });
  return node;
}
function build() {
  const fitting = (count) => count > 0 && count <= 12;
  const peak = report.peak ? `measured peak of this host: ${amount(report.peak.flops_per_second)}FLOP/s f32, ${amount(report.peak.bf16_flops_per_second)}FLOP/s bf16, ${amount(report.peak.bytes_per_second)}B/s` : "";
  const nodes = [
    h("h1", {}, report.title),
    h("div", {class: "soft small"}, [report.created, report.device, ...Object.entries(report.versions).map((v) => v.join(" ")),
      report.duration_ms === null ? "" : `${time(report.duration_ms)} recorded`].filter(Boolean).join(" · ")),
    figures(),
    h("div", {class: "panel"}, h("h2", {}, "Time to first output, by stage, all graphs", h("span", {}, time(report.first_output_ms))),
      stageBar(report.stages, report.first_output_ms, false), stageLegend(report.stages)),
    report.notes.length ? h("ul", {class: "notes"}, report.notes.map((note) => h("li", {}, note))) : null,
    section("graphs", "Graphs", `${report.hits} hits, ${report.misses} misses`, true,
      report.graphs.slice(0, MAX_ROWS).map((graph) => graphRow(graph, report.graphs.length === 1)), more(report.graphs.length, MAX_ROWS)),
    section("breaks", "Graph breaks", report.breaks.length || "none", fitting(report.breaks.length),
      report.breaks.slice(0, MAX_ROWS).map(breakCard), more(report.breaks.length, MAX_ROWS)),
    section("recompiles", "Recompilations", report.recompiles.length || "none", fitting(report.recompiles.length),
      report.recompiles.slice(0, MAX_ROWS).map(recompileCard), more(report.recompiles.length, MAX_ROWS)),
    section("eager", "Eager segments", report.eager.length || "none", fitting(report.eager.length), eagerParts()),
    report.operators.length ? section("operators", "Operators outside of graphs", plural(report.operators.length, "operator"), fitting(report.operators.length), operatorParts()) : null,
    report.recipes.length ? section("recipes", "Recipes, kernel by kernel", peak, true,
      report.recipes.map((recipe, i) => recipeRow(recipe, i === 0))) : null,
    report.memory ? section("memory", "Device memory over time", `peak ${bytes(report.memory.peak_in_use)} of ${bytes(report.memory.limit)}`, true, memoryChart(report.memory)) : null,
    drawingSection(),
  ];
  document.getElementById("page").append(...nodes.filter(Boolean));
}
build();
