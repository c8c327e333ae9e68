"""GRAPH_VISUALIZATION: the files that it writes, and that dot and Netron can read them."""

from __future__ import annotations

import html
import importlib.util
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import browser
import pytest
from processes import output_of

from habana_frameworks.torch.report.document import Drawing, Node
from habana_frameworks.torch.report.onnx_file import to_onnx

PROGRAM = """
import torch, habana_frameworks.torch

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 4)
    def forward(self, x):
        return torch.lgamma(self.linear(x).relu() + 1.5).softmax(-1)

torch.manual_seed(0)
model = Scaled().to("hpu")
with torch.no_grad():
    torch.compile(model, backend="hpu_backend")(torch.randn(8, 16).to("hpu"))
"""


def run(folder: Path, value: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(PROGRAM)
    return output_of(script, folder=folder, GRAPH_VISUALIZATION=value)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    """The folder of the graph's files from the second run, whose program comes from the store."""
    folder = tmp_path_factory.mktemp("dump")
    run(folder, "0")
    assert not (folder / ".graph_dumps").exists()
    told = run(folder, "True").stderr
    (made,) = (folder / ".graph_dumps").iterdir()
    assert f"graph_0: its stages are in .graph_dumps/{made.name}" in told
    return made


def test_text_of_every_stage(dumped):
    first, *_, last = sorted(dumped.glob("*.hir"))
    assert first.name == "graph_0.00-import.hir"
    assert 'aten "aten.linear.default"' in first.read_text()
    text = last.read_text()
    assert " = matmul " in text
    assert "script.py:9 in forward" in text
    recipes = sorted(dumped.glob("recipe_*/*-recipe.txt"))
    assert len(recipes) == 2  # lgamma is between them
    assert "kernel 0 entry" in recipes[0].read_text()


def test_dot_reads_the_dot_files(dumped):
    files = sorted(dumped.rglob("*.dot"))
    assert len(files) >= 4
    dot = shutil.which("dot")
    if dot is None:
        pytest.skip("no dot (./dev test installs it: dependencies/debian-test.txt)")
    for path in files:
        done = subprocess.run(
            [dot, "-Tplain", str(path)], capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        drawn = sum(line.startswith("node ") for line in done.stdout.splitlines())
        if path.name == "graph_0.00-import.dot":
            # x, weight, bias; linear, relu, add, lgamma, softmax; the buffer.
            assert drawn == 9


def test_svg_shows_the_nodes(dumped):
    first, last = sorted(dumped.glob("*.svg"))
    for path, op in ((first, "aten.linear"), (last, "matmul")):
        tree = ET.parse(path)
        names = [e.text for e in tree.iter("{http://www.w3.org/2000/svg}text")]
        assert op in names


def opened_by_netron(data: bytes) -> str:
    """Netron's page with the file in it. Netron calculates its layout in a worker, and then gives
    its body the class "default". The page around it has not loaded until then: it has an image for
    which the server waits."""
    found = importlib.util.find_spec("netron")
    if found is None or found.origin is None:
        pytest.skip("netron is not installed (dependencies/requirements-dev.txt)")
    folder = Path(found.origin).parent
    meta = (
        '<meta name="file" content="/data/graph.onnx"><meta name="identifier" content="graph.onnx">'
    )
    viewer = (folder / "index.html").read_text().replace("<head>", f"<head>{meta}", 1)
    frame = (
        '<iframe id="viewer" src="/viewer.html" width="1200" height="900"></iframe>'
        "<script>const shown = setInterval(() => {"
        ' if (!viewer.contentDocument.querySelector("body.default")) return;'
        ' clearInterval(shown); fetch("/shown"); }, 20)</script>'
        '<pre id="copy"></pre><img src="/wait" '
        'onerror="copy.textContent = viewer.contentDocument.body.outerHTML">'
    )
    files = {"/": frame.encode(), "/viewer.html": viewer.encode(), "/data/graph.onnx": data}
    with browser.served(
        files, folder, {"Set-Cookie": "consent=1; Path=/"}, {"/wait": "/shown"}
    ) as url:
        return html.unescape(browser.dom(url + "/", own_clock=False))


def test_netron_opens_the_onnx_files(dumped):
    first, last = sorted(dumped.glob("*.onnx"))
    page = opened_by_netron(first.read_bytes())
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", page)
    assert [t for t in shown if t in ("linear", "relu", "add_Tensor", "lgamma")] == [
        "linear",
        "relu",
        "add_Tensor",
        "lgamma",
    ]
    assert page.count(">8×4<") == 5  # along the edges from the five nodes
    assert "l_x_" in shown
    assert "matmul" in re.findall(r">([^<]*)</text>", opened_by_netron(last.read_bytes()))


def fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of a protobuf message, by the wire format."""

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    at = 0
    found: list[tuple[int, int | bytes]] = []
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
            continue
        assert key & 7 == 2
        size = varint()
        found.append((key >> 3, data[at : at + size]))
        at += size
    assert at == len(data)
    return found


def test_onnx_has_types_and_edges():
    nodes = [
        Node(0, "x", "bf16[300,2]", "input"),
        Node(1, "relu", "bf16[300,2]", "compute", "axis = 1", "m.py:2 in f"),
        Node(2, "output", "", "output"),
    ]
    model = dict(fields(to_onnx(Drawing("s", nodes, [(0, 1), (1, 2)], 3), "g")))
    assert model[1] == 8
    graph = fields(model[7])
    (node,) = [dict(fields(value)) for number, value in graph if number == 1]
    assert (node[1], node[2], node[4], node[7]) == (b"x", b"v1", b"relu", b"hpu")
    attributes = [dict(fields(v)) for n, v in fields(next(v for n, v in graph if n == 1)) if n == 5]
    assert [(a[1], a[4], a[20]) for a in attributes] == [
        (b"detail", b"axis = 1", 3),
        (b"source", b"m.py:2 in f", 3),
    ]
    (output,) = [dict(fields(value)) for number, value in graph if number == 12]
    assert output[1] == b"v1"
    tensor = dict(fields(dict(fields(output[2]))[1]))
    assert tensor[1] == 16  # BFLOAT16
    sizes = [dict(fields(value))[1] for _, value in fields(tensor[2])]
    assert sizes == [300, 2]


def test_folder_that_cannot_be_written_costs_only_the_files(tmp_path):
    (tmp_path / ".graph_dumps").write_text("a file")
    done = run(tmp_path, "1")
    assert "graph_0 is not drawn: " in done.stderr


def test_without_the_tool_the_program_runs(tmp_path, monkeypatch):
    """Imitates a container without a compiler."""
    server = tmp_path / "hpu_compile_server"
    server.write_text("")
    from habana_frameworks.torch.dynamo.records.graph_watch import CapturedGraph
    from habana_frameworks.torch.report import graph_dump

    monkeypatch.setenv("HPU_COMPILE_SERVER_BINARY", str(server))
    with pytest.raises(graph_dump.NoDrawing, match="hpu_recipe is not installed"):
        graph_dump.drawings(CapturedGraph(b"", {}, "gaudi2", ""))
    (tmp_path / "hpu_recipe").symlink_to("/bin/false")
    with pytest.raises(graph_dump.NoDrawing, match="ended with 1"):
        graph_dump.drawings(CapturedGraph(b"", {}, "gaudi2", ""))
