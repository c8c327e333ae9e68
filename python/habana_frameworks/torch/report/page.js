"use strict";
// Helpers. Text from the document goes through createTextNode or attributes, never through markup.
const SVG = "http://www.w3.org/2000/svg";
const report = JSON.parse(document.getElementById("document").textContent);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) {
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
  }
  return node;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function time(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0";
  if (ms >= 1000) return (ms / 1000).toFixed(2) + " s";
  if (ms >= 1) return ms.toFixed(ms >= 100 ? 0 : 1) + " ms";
  return (ms * 1000).toFixed(ms >= 0.01 ? 0 : 2) + " µs";
}
function bytes(count) {
  for (const [unit, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (count >= unit) return (count / unit).toFixed(count >= 100 * unit ? 0 : 1) + " " + name;
  }
  return count + " B";
}
function amount(count) {
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (count >= unit) return (count / unit).toFixed(2) + " " + name;
  }
  return String(count);
}
const percent = (share) => share === null || share === undefined ? "" : (100 * share).toFixed(share < 0.1 ? 1 : 0) + "%";
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function shareBar(share) {
  if (share === null || share === undefined) return "";
  return h("span", {class: "tight"}, h("span", {class: "share"},
    h("i", {style: `width:${Math.min(100, 100 * share).toFixed(1)}%`})), percent(share));
}
function table(head, rows) {
  return h("table", {},
    h("thead", {}, h("tr", {}, head.map(([text, right]) => h("th", {class: right ? "right" : ""}, text)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) =>
      h("td", {class: head[i][1] ? "right" : ""}, cell))))));
}
// A folding row whose inside is made when it is first opened.
function folding(kind, summary, inside, open) {
  const body = h("div", {class: "inside"});
  const row = h("details", {class: "row " + kind}, h("summary", {}, summary), body);
  const show = () => { if (row.open && !body.hasChildNodes()) body.append(...inside()); };
  row.addEventListener("toggle", show);
  if (open) { row.open = true; show(); }
  return row;
}
function section(id, title, told, open, ...children) {
  return h("details", {class: "section", id, open: open ? "" : null},
    h("summary", {}, title, h("span", {}, told)), h("div", {class: "body"}, children));
}
