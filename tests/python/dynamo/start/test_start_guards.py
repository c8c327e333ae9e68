"""The guards of a start are those that Dynamo makes for the frame when it traces it."""

from __future__ import annotations

import json

from processes import output_of

BOTH_BUILDERS = """
import json, torch
from torch._dynamo.guards import CheckFunctionManager, GuardManagerWrapper
from torch._dynamo.output_graph import OutputGraphCommon
import habana_frameworks.torch.dynamo.compile_backend.backends
from habana_frameworks.torch.dynamo.start import dynamo_guards, guard_tree, journal, pickles, trace

pickles._CLASSES["__main__"] = {"Tree"}

class Tree(guard_tree.StoredTree):
    "With the guards that it was made of, by which Dynamo's builder can make it."

write_tree = trace.write_tree

def keep(f_code, scopes, stored, key_order, *others):
    tree, guards = write_tree(f_code, scopes, stored, key_order, *others)
    kept = Tree(**vars(tree))
    vars(kept)["made_of"] = stored, key_order
    return kept, guards

def aliasing(manager):
    "Names in PyTorch 2.13 and 2.14, sources since 2.15."
    return list(map(str, manager.no_tensor_aliasing_sources))

class Both(dynamo_guards._Check):
    def __init__(self, frame, state, values):
        super().__init__(frame, state, values)
        scopes, (stored, key_order) = (frame.f_locals, frame.f_globals), values.tree.made_of
        state = dynamo_guards._state(scopes, stored, key_order, None, values)
        theirs = CheckFunctionManager(frame.f_code, OutputGraphCommon(state)).guard_manager
        texts.extend([str(self.guard_manager), str(theirs)])
        sources.extend([sorted(m.diff_guard_sources) for m in (self.guard_manager, theirs)])
        for manager in (self.guard_manager, theirs):
            texts.append(str(GuardManagerWrapper(manager.diff_guard_root)))
        others.extend(
            [m.args, aliasing(m), sorted(m.id_matched_objs), m.code_parts]
            for m in (self.guard_manager, theirs)
        )

texts, sources, others = [], [], []
trace.write_tree = keep
dynamo_guards._Check = Both

class Model(torch.nn.Module):
    "With an order of keys, objects that are one, defaults, closures and parts in containers."

    def __init__(self):
        super().__init__()
        self.transformer = torch.nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
        self.scales = {"b": 2.0, "a": 1.0}
        self.shared = [self.scales, self.scales]
        self.steps = (lambda x, by=0.5: x * by, torch.nn.Linear(8, 8))
        self.parts = torch.nn.ModuleDict({"c": torch.nn.Linear(8, 8), "d": self.steps[1]})

    def forward(self, x, y=None, *, flags=frozenset({3})):
        for name, scale in self.scales.items():
            x = x * scale if name != "c" else x
        for part in self.parts.values():
            x = part(x)
        if self.shared[0] is self.shared[1] and 3 in flags:
            x = self.steps[1](self.steps[0](x))
        return self.transformer(x, x if y is None else y)

model = Model().to("hpu").eval()
x = torch.ones(1, 4, 8, device="hpu")
with torch.no_grad():
    torch.compile(model, backend="hpu_backend")(x, x + 1).cpu()
told = [outcome.reason for outcome in journal.outcomes()]
print(json.dumps([texts, sources, others, told]))
"""


def test_a_start_has_the_guards_that_dynamos_own_builder_makes(private_cache):
    """The guards are the same word for word, including the values that they compare with."""
    environment = {"HPU_CACHE_DIR": str(private_cache), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    output_of(BOTH_BUILDERS, **environment)
    printed = output_of(BOTH_BUILDERS, **environment).stdout.splitlines()[-1]
    texts, sources, others, reasons = json.loads(printed)
    assert set(reasons) == {""} and len(texts) == 4 * len(reasons)
    assert texts[::2] == texts[1::2]
    assert sources[::2] == sources[1::2] and others[::2] == others[1::2]
    assert sum(text.count("TENSOR_MATCH") for text in texts) >= 20


UNWRITTEN_TREE = """
import torch
import habana_frameworks.torch.dynamo.compile_backend.backends
from habana_frameworks.torch.dynamo.start import guard_tree, journal, trace

def refuse(*_):
    raise guard_tree.Unwritable("as if it had a lambda")

trace.write_tree = refuse
model = torch.nn.Bilinear(8, 8, 8, device="hpu")
compiled = torch.compile(model, backend="hpu_backend")
x, y = (torch.full((2, 8), value, device="hpu") for value in (1.0, 2.0))
with torch.no_grad():
    right = torch.allclose(compiled(x, y).cpu(), model(x, y).cpu(), atol=1e-5)
    torch._dynamo.config.error_on_recompile = True
    right &= torch.allclose(compiled(x + 1, y).cpu(), model(x + 1, y).cpu(), atol=1e-5)
print(right, [outcome.reason for outcome in journal.outcomes()])
"""


def test_a_tree_that_cannot_be_written_is_left_to_dynamos_builder(private_cache):
    environment = {"HPU_CACHE_DIR": str(private_cache), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    output_of(UNWRITTEN_TREE, **environment)
    assert output_of(UNWRITTEN_TREE, **environment).stdout.splitlines()[-1] == "True ['']"


ORDERED = """
import builtins

import torch
import habana_frameworks.torch
from habana_frameworks.torch.dynamo.start import journal

PLACES = {name: place for place, name in enumerate(builtins.ORDER)}

def function(x):
    for _ in list(PLACES):
        x = x + 0
    return x + PLACES["cat"]

with torch.no_grad():
    x = torch.compile(function, backend="hpu_backend")(torch.zeros(1, device="hpu"))
print(x.item(), not journal.outcomes()[0].reason)
"""


def test_a_dictionary_in_another_order_is_another_program(tmp_path):
    """The keys of the dictionary are guarded by their positions."""
    (tmp_path / "ordered.py").write_text(ORDERED)
    path = f"import builtins, sys; sys.path.insert(0, {str(tmp_path)!r})"
    answers = [
        output_of(f"{path}; builtins.ORDER = {names}; import ordered").stdout.split()
        for names in (["cat", "dog"], ["cat", "dog"], ["dog", "cat"])
    ]
    assert answers == [["0.0", "False"], ["0.0", "True"], ["1.0", "False"]]
