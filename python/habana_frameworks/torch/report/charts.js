"use strict";
function stageBar(stages, total, mini) {
  const whole = total || 1;
  return h("div", {class: mini ? "bar mini" : "bar"}, stages.map((stage, i) => stage.ms > 0 ? h("i", {
    style: `width:${(100 * stage.ms / whole).toFixed(3)}%;background:var(--s${i})`,
    title: `${stage.name}: ${time(stage.ms)}`,
  }) : null));
}
function stageLegend(stages) {
  return h("div", {class: "legend"}, stages.map((stage, i) => h("span", {title: stage.meaning},
    h("i", {style: `background:var(--s${i})`}), stage.name,
    h("b", {"data-stage": stage.name}, time(stage.ms)))));
}
// Wheel: zoom around the pointer. Drag: move. Double click: all of it.
function zoomable(svg, horizontalOnly) {
  const whole = svg.getAttribute("viewBox").split(" ").map(Number);
  // A box of the picture in the proportions of its place on the page, so that pointers can be mapped.
  const fitted = ([x, y, width, height]) => {
    const box = svg.getBoundingClientRect();
    if (horizontalOnly || !box.width || !box.height) return [x, y, width, height];
    const wide = Math.max(width, height * box.width / box.height);
    const high = wide * box.height / box.width;
    return [x - (wide - width) / 2, y - (high - height) / 2, wide, high];
  };
  let view = whole.slice();
  const show = (box) => { view = box; svg.setAttribute("viewBox", view.map((v) => v.toFixed(3)).join(" ")); };
  const reset = () => show(fitted(whole));
  const zoom = (factor, px, py) => {
    const all = fitted(whole)[2];
    const scale = Math.min(Math.max(view[2] * factor, all / 400), all * 1.5) / view[2];
    const [x, y, width, height] = view;
    show(horizontalOnly ? [x + px * width * (1 - scale), y, width * scale, height]
      : [x + px * width * (1 - scale), y + py * height * (1 - scale), width * scale, height * scale]);
  };
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    zoom(Math.exp(event.deltaY * 0.0015), (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  }, {passive: false});
  let from = null;
  svg.addEventListener("pointerdown", (event) => {
    from = {x: event.clientX, y: event.clientY, view};
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!from) return;
    const unit = view[2] / svg.getBoundingClientRect().width;
    const [x, y, width, height] = from.view;
    show([x - (event.clientX - from.x) * unit, horizontalOnly ? y : y - (event.clientY - from.y) * unit, width, height]);
  });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { from = null; });
  svg.addEventListener("dblclick", reset);
  return {zoom: (factor) => zoom(factor, 0.5, 0.5), reset, show: (box) => show(fitted(box))};
}
function kernelChart(recipe) {
  const lanes = ["mme", "tpc", "dma"].filter((engine) => recipe.kernels.some((k) => k.engine === engine));
  const whole = recipe.ms || 1;
  const svg = s("svg", {class: "chart", viewBox: `0 0 1000 ${30 * lanes.length}`, preserveAspectRatio: "none",
    height: 30 * lanes.length, role: "img", "aria-label": `kernels of ${recipe.recipe}`},
  recipe.kernels.map((k) => s("rect", {
    class: k.engine, x: (1000 * k.start_ms / whole).toFixed(3), y: 30 * lanes.indexOf(k.engine) + 4,
    width: Math.max(0.6, 1000 * k.ms / whole).toFixed(3), height: 22,
    opacity: (0.35 + 0.65 * Math.min(1, Math.max(k.peak_share || 0, k.bandwidth_share || 0))).toFixed(2),
  }, s("title", {}, [k.nodes.join(" + "), `${time(k.ms)} at ${time(k.start_ms)}`,
    k.peak_share === null ? "" : `${percent(k.peak_share)} of peak`,
    `${bytes(k.bytes)}, ${amount(k.flops)} operations`].filter(Boolean).join("\n")))));
  zoomable(svg, true);
  return h("div", {class: "lanes"},
    h("div", {class: "labels"}, lanes.map((lane) => h("span", {}, lane.toUpperCase()))), svg);
}
// Operations per second over operations per byte, both by powers of ten: a dot a kernel, its area by time.
function rooflineChart(recipe, peak) {
  const dots = recipe.kernels.filter((k) => k.flops && k.bytes && k.ms)
    .map((k) => ({k, intensity: k.flops / k.bytes, rate: k.flops / (k.ms / 1e3)}));
  if (!dots.length || !peak) return null;
  const roofs = [["f32", peak.flops_per_second], ["bf16", peak.bf16_flops_per_second]];
  const range = (values) => [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)) + 0.01)];
  const [left, right] = range([...dots.map((d) => d.intensity), peak.flops_per_second / peak.bytes_per_second]);
  const [low, high] = range([...dots.map((d) => d.rate), ...roofs.map((roof) => roof[1])]);
  const x = (v) => 1000 * (Math.log10(v) - left) / (right - left);
  const y = (v) => 300 - 300 * (Math.log10(v) - low) / (high - low);
  const roof = ([name, rate]) => {
    const ridge = rate / peak.bytes_per_second;
    const start = Math.max(10 ** left, 10 ** low / peak.bytes_per_second);
    return s("path", {class: "roof", fill: "none", stroke: "var(--soft)", d: `M${x(start).toFixed(1)} ${y(start * peak.bytes_per_second).toFixed(1)}` +
      `L${x(ridge).toFixed(1)} ${y(rate).toFixed(1)}H1000`}, s("title", {}, `peak ${name}: ${amount(rate)}FLOP/s`));
  };
  return h("div", {class: "roofline"}, s("svg", {class: "chart", viewBox: "0 0 1000 300", height: 300, role: "img",
    "aria-label": `roofline of ${recipe.recipe}`}, roofs.map(roof), dots.map((d) => s("circle", {
    class: d.k.engine, cx: x(d.intensity).toFixed(1), cy: y(d.rate).toFixed(1), opacity: 0.7,
    r: (3 + 17 * Math.sqrt(d.k.ms / (recipe.ms || 1))).toFixed(1),
  }, s("title", {}, [d.k.nodes.join(" + "), `${amount(d.rate)}FLOP/s, ${d.intensity.toFixed(1)} FLOP/byte`, time(d.k.ms)].join("\n"))))),
  h("p", {class: "soft small"}, `Roofline: operations a second (10^${low} to 10^${high}) over operations a byte (10^${left} to 10^${right}); lines: this host's ` +
    "bandwidth and peaks. A dot above the slope had its data in a cache."));
}
function memoryChart(memory) {
  const samples = memory.samples;
  const last = samples[samples.length - 1].at_ms || 1;
  const top = Math.max(memory.peak_in_use, ...samples.map((p) => p.reserved)) || 1;
  const x = (ms) => (1000 * ms / last).toFixed(2);
  const y = (count) => (196 - 188 * count / top).toFixed(2);
  const steps = (field) => samples.map((p, i) =>
    (i ? `H${x(p.at_ms)}V${y(p[field])}` : `M${x(p.at_ms)} ${y(p[field])}`)).join("");
  const told = h("span", {class: "soft small"}, `${time(last)}, sampled every ${time(memory.interval_ms)}`);
  const svg = s("svg", {class: "chart", viewBox: "0 0 1000 200", preserveAspectRatio: "none", height: 200,
    role: "img", "aria-label": "device memory over time"},
  s("path", {class: "in-use", d: `${steps("in_use")}V196H0Z`}), s("path", {class: "reserved", d: steps("reserved")}));
  svg.addEventListener("mousemove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = last * (event.clientX - box.left) / box.width;
    const sample = samples.filter((p) => p.at_ms <= at).pop() || samples[0];
    told.textContent = `at ${time(at)}: ${bytes(sample.in_use)} in use, ${bytes(sample.reserved)} reserved`;
  });
  return h("div", {}, h("div", {class: "tools"}, h("span", {}, `up to ${bytes(top)}`), told), svg,
    h("div", {class: "legend"}, h("span", {}, h("i", {style: "background:var(--accent)"}), "in use"),
      h("span", {}, h("i", {style: "background:var(--soft)"}), "reserved (cached blocks included)")));
}
