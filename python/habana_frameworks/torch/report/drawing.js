"use strict";
// The picture of a graph, before or after the passes: SVG from an inert template of the page.
function drawingViewer(graphs) {
  const viewport = h("div", {class: "viewport"});
  const told = h("span", {class: "soft small"});
  const stages = h("span", {});
  let control = null;
  let shown = {graph: graphs[0], stage: graphs[0].drawings.length - 1};
  function show(graph, stage) {
    shown = {graph, stage};
    const drawing = graph.drawings[stage];
    const template = document.getElementById(`drawing-${report.graphs.indexOf(graph)}-${stage}`);
    const svg = template.content.querySelector("svg").cloneNode(true);
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    svg.removeAttribute("width");
    svg.removeAttribute("height");
    viewport.replaceChildren(svg);
    control = zoomable(svg, false);
    // Graphs are tall: begin at the top, at a size that can be read.
    if (height > 900) control.show([width / 2 - 112, -12, 200, 900]);
    else control.reset();
    const left = drawing.total_nodes - drawing.nodes.length;
    told.textContent = plural(drawing.total_nodes, "node") +
      (left ? `, the first ${drawing.nodes.length} are drawn: a larger picture would be slow` : "");
    stages.replaceChildren(...graph.drawings.map((d, i) =>
      h("button", {class: i === stage ? "on" : "", onclick: () => show(graph, i)}, d.stage)));
  }
  const choice = h("select", {"aria-label": "graph", onchange: (event) => {
    const graph = graphs[event.target.selectedIndex];
    show(graph, Math.min(shown.stage, graph.drawings.length - 1));
  }}, graphs.map((graph) => h("option", {}, `${graph.name}  ${graph.source}`)));
  const kinds = [["product", "products"], ["compute", "other arithmetic"], ["movement", "moves data"],
    ["eager", "runs eagerly"], ["io", "inputs and outputs"]];
  const legend = h("div", {class: "small soft"}, kinds.map(([kind, text]) => {
    const name = kind === "compute" ? "node" : kind;
    return h("span", {}, h("span", {class: "swatch",
      style: `background:var(--${name});border-color:var(--${name}-line)`}), text);
  }), "   wheel: zoom, drag: move, double click: all of it");
  const node = h("div", {}, h("div", {class: "tools"}, graphs.length > 1 ? choice : h("b", {}, graphs[0].name), stages,
    h("button", {onclick: () => control.zoom(0.7), "aria-label": "larger"}, "+"),
    h("button", {onclick: () => control.zoom(1.4), "aria-label": "smaller"}, "−"),
    h("button", {onclick: () => control.reset()}, "all of it"), told), viewport, legend);
  return {node, show: () => show(shown.graph, shown.stage)};
}
