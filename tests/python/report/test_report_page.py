"""The page of a report in a real browser, and what is drawn on it."""

from __future__ import annotations

import itertools
import json
import re
import xml.etree.ElementTree as ET
from collections import defaultdict

import browser
import pytest
from report_documents import document, drawing, graph

from habana_frameworks.torch.report import ir_text, layout
from habana_frameworks.torch.report.document import Drawing, Node
from habana_frameworks.torch.report.page import to_frame, to_html, to_json
from habana_frameworks.torch.report.svg import to_svg

HOSTILE = (
    "</script><script>document.title='taken'</script>"
    "<img src=x onerror=\"document.title='taken'\"><!--&amp;'\u2028"
)

# Opens everything, then turns the wheel over the drawing.
OPEN_ALL = """
<script>
for (const part of document.querySelectorAll("details")) part.open = true;
setTimeout(() => {
  const svg = document.querySelector(".viewport svg");
  document.body.dataset.before = svg.getAttribute("viewBox");
  const box = svg.getBoundingClientRect();
  svg.dispatchEvent(new WheelEvent("wheel", {deltaY: -500, clientX: box.left + box.width / 2,
    clientY: box.top + box.height / 2, bubbles: true, cancelable: true}));
  document.body.dataset.after = svg.getAttribute("viewBox");
  const point = (x) => ({pointerId: 1, clientX: x, clientY: 10, bubbles: true});
  svg.setPointerCapture = () => {};
  svg.dispatchEvent(new PointerEvent("pointerdown", point(100)));
  svg.dispatchEvent(new PointerEvent("pointermove", point(40)));
  svg.dispatchEvent(new PointerEvent("pointerup", point(40)));
  document.body.dataset.moved = svg.getAttribute("viewBox");
}, 100);
</script>
"""


def opened(content: str, folder, opens_all: bool = True) -> browser.Page:
    path = folder / "page.html"
    # The page allows only inline scripts, and this is one.
    path.write_text(content + (OPEN_ALL if opens_all else ""))
    return browser.Page(browser.dom(path.as_uri()))


def test_figures_and_tables(tmp_path):
    page = opened(to_html(document()), tmp_path)
    assert page.figure("graphs") == "2"
    assert page.figure("hits") == "0"
    assert page.figure("misses") == "2"
    assert page.figure("breaks") == "1"
    assert page.figure("recompiles") == "1"
    assert page.figure("eager") == "3"
    assert page.figure("first-output") == "126 ms"
    assert page.figure("peak-share") == "13%"
    assert page.figure("memory") == "1.0 MiB"
    assert page.texts("b", **{"data-stage": "Dynamo"}) == ["100 ms"] * 3
    assert page.texts("b", **{"data-stage": "compile"}) == ["25.5 ms"] * 3
    cells = page.texts("td")
    assert cells.count("input 0") == 2  # in what the nearest key differs
    assert "25%" in cells and "150%" in cells  # shares of the peak and of the bandwidth
    assert "4.0 KiB" in cells and "1.00 M" in cells
    assert page.texts("pre", class_="stack") == ["demo:7 in demo\n    demo"]
    (told,) = [t for t in page.texts("title") if "25% of peak" in t]
    assert told.startswith("demo + add/1\n500 µs at 100 µs")


def test_bars_are_as_long_as_their_shares(tmp_path):
    text = browser.dom(_written(to_html(document()), tmp_path))
    widths = [
        float(w) for w in re.findall(r'<i style="width:([\d.]+)%;background:var\(--s0\)"', text)
    ]
    assert widths[0] == pytest.approx(100 * 100 / 125.5, abs=0.01)
    kernel = re.search(r'<rect class="mme" x="([\d.]+)" y="4" width="([\d.]+)"', text)
    assert kernel is not None
    assert (float(kernel[1]), float(kernel[2])) == (100.0, 500.0)  # in a launch of 1 ms


def test_drawing_is_zoomed_and_moved(tmp_path):
    text = browser.dom(_written(to_html(document()) + OPEN_ALL, tmp_path))
    boxes = {
        name: [float(v) for v in re.search(rf'data-{name}="([^"]*)"', text)[1].split()]
        for name in ("before", "after", "moved")
    }
    scale = boxes["after"][2] / boxes["before"][2]
    assert scale == pytest.approx(2.718281828**-0.75, rel=1e-3)
    middles = [b[0] + b[2] / 2 for b in (boxes["before"], boxes["after"])]
    assert middles[0] == pytest.approx(middles[1], rel=1e-2)
    assert boxes["moved"][0] > boxes["after"][0]
    assert boxes["moved"][2:] == boxes["after"][2:]


def test_users_text_is_never_markup(tmp_path):
    page = opened(to_html(document(HOSTILE)), tmp_path)
    assert page.texts("h1") == [HOSTILE]
    assert page.texts("title")[0] == HOSTILE  # the page's own title; a script would have changed it
    assert page.texts("img") == []
    assert page.figure("graphs") == "2"
    assert HOSTILE in page.texts("li")
    assert any(HOSTILE in text for text in page.texts("pre", class_="stack"))


def test_embedded_document_is_that_of_json():
    made = document(HOSTILE)
    (embedded,) = re.findall(
        r'<script type="application/json" id="document">(.*?)</script>', to_html(made), re.DOTALL
    )
    assert (
        json.loads(embedded) == json.loads(to_json(made)) == json.loads(json.dumps(made.as_dict()))
    )
    assert json.loads(embedded)["title"] == HOSTILE
    assert "<" not in embedded


def test_page_needs_nothing_else():
    text = to_html(document())
    assert "default-src 'none'" in text
    assert not re.search(r'(?:src|href)="|@import|url\(', text)


def test_notebook_shows_the_page_in_a_frame(tmp_path):
    frame = to_frame(document(HOSTILE))
    page = opened(f"<p>cell</p>{frame}", tmp_path, opens_all=False)
    (attributes,) = [has for tag, has, _ in page.elements if tag == "iframe"]
    assert attributes["srcdoc"] == to_html(document(HOSTILE))
    assert attributes["sandbox"] == "allow-scripts"


def test_large_graphs_are_cut_and_say_so(tmp_path):
    lines = "\n".join(f"  %{i} = relu %{i - 1 if i else 'x'} : f32[4]" for i in range(3000))
    text = f"graph @g(%x: f32[4]) -> f32[4] {{\n{lines}\n  return %2999\n}}\n"
    large = ir_text.parse(text, "after all passes", captured=False)
    assert len(large.nodes) == 1 + ir_text.MAX_DRAWN_NODES
    assert large.total_nodes == 3001
    page = opened(to_html(document(graphs=[graph(drawings=[large])])), tmp_path)
    # the template's drawing and the shown one
    assert len(page.texts("g", class_="node")) == 2 * 1501
    (told,) = [t for t in page.texts("span") if t.startswith("3001 nodes")]
    assert told == "3001 nodes, the first 1501 are drawn: a larger picture would be slow"


def test_empty_document(tmp_path):
    empty = document(
        graphs=[],
        breaks=[],
        recompiles=[],
        eager=[],
        operators=[],
        recipes=[],
        memory=None,
        peak=None,
        notes=[],
    )
    page = opened(to_html(empty), tmp_path, opens_all=False)
    assert page.figure("graphs") == "0"
    assert page.texts("summary") == [
        "Graphs0 hits, 0 misses",
        "Graph breaksnone",
        "Recompilationsnone",
        "Eager segmentsnone",
        "Graphs, drawnnone",
    ]


def test_svg_is_xml_whatever_is_written_on_it():
    tree = ET.fromstring(to_svg(drawing(2, 'a<b>&"\x01')))
    names = [
        e.text for e in tree.iter("{http://www.w3.org/2000/svg}text") if "class" not in e.attrib
    ]
    assert names == ['a<b>&"\ufffd'] * 2
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}path"))) == 1


def _diamonds(count: int) -> Drawing:
    """A residual network: chains beside long edges, and an input that all of them read."""
    nodes = [Node(0, "x", "f32[4]", "input")]
    edges = []
    last = 0
    for _ in range(count):
        first = len(nodes)
        nodes += [Node(first + i, f"op{i}", "f32[4,128,768]", "compute") for i in range(5)]
        edges += [(last, first), (last, first + 1), (first, first + 2), (first + 1, first + 2)]
        edges += [(first + 2, first + 3), (first + 3, first + 4), (last, first + 4)]
        if last:
            edges.append((0, first))
        last = first + 4
    return Drawing("residual", nodes, edges, len(nodes))


def test_layout_has_no_overlaps_and_edges_lead_down():
    drawn = _diamonds(12)
    placed = layout.arrange(drawn)
    rows = defaultdict(list)
    for node in drawn.nodes:
        box = placed.boxes[node.id]
        rows[box.y].append((box.x - box.width / 2, box.x + box.width / 2))
        assert box.x - box.width / 2 >= -1e-6
        assert box.x + box.width / 2 <= placed.width + 1e-6
    for row in rows.values():
        row.sort()
        assert all(a[1] < b[0] for a, b in itertools.pairwise(row))
    for points in placed.paths:
        heights = [y for _, y in points]
        assert heights == sorted(heights)
        assert len(set(heights)) == len(heights)
    # Twelve equal blocks of four rows below the input.
    assert placed.height == pytest.approx(48 * layout.ROW_HEIGHT + layout.NODE_HEIGHT)


def test_parts_of_the_text_form():
    weight = "%l_self_modules_layer_modules_0_parameters_weight_"
    text = f"""graph @g(
    %l_x_: f32[1,128]{{128,1}} cpu,
    %n: scalar,
    {weight}: f32[64,128]) -> f32[1,64], none {{
  const %const0 : i64[2] = 0x0100
  %0 = matmul %l_x_, {weight} {{transpose_b = true}} : f32[1,64]  // m.py:3 in f
  %1, %2 = topk %0 {{k = 1, dim = 1}} : f32[1,1], i64[1,1]
  %3 = aten "aten.div.Tensor"(self = %1, other = %0, mode = "a %9 : b  // c") : f32[1,64]  // m.py:4
  mutate %l_x_ as f32[8]{{64}} + 3 = %3
  return %2, none
}}
"""
    drawn = ir_text.parse(text, "s", captured=False)
    assert [(n.op, n.kind) for n in drawn.nodes] == [
        ("l_x_", "input"),
        ("matmul", "product"),
        ("topk", "compute"),
        ("aten.div.Tensor", "eager"),
        ("output", "output"),
    ]
    assert sorted(drawn.edges) == [(0, 1), (0, 4), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]
    matmul = drawn.nodes[1]
    assert (matmul.type, matmul.source) == ("f32[1,64]", "m.py:3 in f")
    assert matmul.detail == "transpose_b = true; layer.0.weight f32[64,128]"
    assert drawn.nodes[2].type == "f32[1,1], i64[1,1]"
    assert ir_text.parse(text, "s", captured=True).nodes[3].kind == "compute"


def _written(content: str, folder) -> str:
    path = folder / "page.html"
    path.write_text(content)
    return path.as_uri()
