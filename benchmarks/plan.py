"""The plan of a run: sections, and the steps (one process each) in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MODEL_CONTENDERS = (
    "CPU eager",
    "dynamo only",
    "aot_eager",
    "inductor",
    "inductor freezing",
    "inductor max-autotune",
    "inductor warm",
    "inductor mega-cache",
    "openvino",
    "openvino importer",
    "onnxruntime",
    "hpu cold",
    "hpu warm",
)
TRAINING_CONTENDERS = (
    "CPU eager",
    "dynamo only",
    "aot_eager",
    "inductor",
    "hpu cold",
    "hpu warm",
)
CONTAINER_CONTENDERS = (
    "dynamo only",
    "inductor mega-cache",
    "inductor mega-cache, no compiler",
    "hpu shared daemon",
    "hpu shared store",
)
# The time that a cache saves hardly depends on the element type; OpenVINO's backend takes no bf16
# graphs, and ONNX Runtime has few bf16 kernels for CPUs. Contenders that the command line names run
# anyway.
_F32_ONLY = ("inductor warm", "inductor mega-cache", "openvino", "onnxruntime")
_SERVED = ("bert-base", "gpt2", "llama prefill", "vit", "resnet50")
GEMM_BOUND_TRAINING = ("bert-base", "gpt2", "vit", "resnet50", "unet")
_TRAINED = ("bert-base", "gpt2", "vit", "resnet50", "unet", "lstm", "mlp")
# Models whose operations are nearly all in matrix products and convolutions.
PRODUCTS = ("bert-base", "bert-base b8", "bert-base s512", "gpt2", "llama prefill", "vit")
CONVOLUTIONS = ("resnet50", "resnet50 b8", "unet")


@dataclass(frozen=True)
class Section:
    """cases: None means all models. both_dtypes: True if the figures depend on the element type."""

    contenders: tuple[str, ...]
    cases: tuple[str, ...] | None
    rounds: int
    both_dtypes: bool = False


SECTIONS = {
    "models": Section(MODEL_CONTENDERS, None, 3, both_dtypes=True),
    "peak": Section(("hpu peak",), None, 1, both_dtypes=True),
    "training": Section(TRAINING_CONTENDERS, _TRAINED, 3, both_dtypes=True),
    "optimizer": Section(("CPU eager", "inductor", "hpu cold"), ("adamw 110M",), 3),
    "container": Section(CONTAINER_CONTENDERS, _SERVED, 3),
    "fetch": Section(("hpu fetch",), ("bert-base",), 3),
    "overhead": Section(("hpu overhead",), ("call of 1 tensor", "call of 200 tensors"), 3),
    "workspace": Section(("inductor memory", "hpu memory"), None, 1),
    "depth": Section(
        ("aot_eager", "hpu cold"),
        ("bert 12 layers", "bert 24 layers", "bert 48 layers"),
        3,
    ),
}
_QUICK = {
    "models": Section(
        ("CPU eager", "dynamo only", "aot_eager", "inductor", "hpu cold", "hpu warm"),
        ("bert-base", "llama prefill", "resnet50"),
        1,
    ),
    "peak": Section(("hpu peak",), ("bert-base",), 1),
    "training": Section(("CPU eager", "hpu cold"), ("mlp",), 1),
    "optimizer": Section(("hpu cold",), ("adamw 110M",), 1),
    "container": Section(("inductor mega-cache", "hpu shared daemon"), ("bert-base",), 1),
    "fetch": Section(("hpu fetch",), ("bert-base",), 1),
    "overhead": Section(("hpu overhead",), ("call of 200 tensors",), 1),
    "workspace": Section(("inductor memory", "hpu memory"), ("bert-base",), 1),
    "depth": Section(("hpu cold",), ("bert 12 layers", "bert 48 layers"), 1),
}

# The seconds that a step takes on two cores, including import and the construction of the model;
# only the first guess of the remaining time uses them.
_EXPECTED_S = {
    "CPU eager": 11.0,
    "dynamo only": 9.0,
    "aot_eager": 10.0,
    "inductor": 32.0,
    "inductor freezing": 25.0,
    "inductor max-autotune": 35.0,
    "inductor warm": 17.0,
    "inductor mega-cache": 25.0,
    "inductor mega-cache, no compiler": 25.0,
    "inductor memory": 20.0,
    "openvino": 17.0,
    "openvino importer": 25.0,
    "onnxruntime": 40.0,
    "hpu peak": 25.0,
}
_EXPECTED_OTHER_S = 12.0
# The seconds for a section whose steps take longer: several compilations in a process, steps of
# seconds.
_EXPECTED_TRAINING_S = {"inductor": 85.0}
_EXPECTED_OTHER_TRAINING_S = 22.0


@dataclass(frozen=True)
class Step:
    """One process: a contender on a case in one round of a section."""

    section: str
    case: str
    dtype: str
    contender: str
    round: int

    @property
    def row(self) -> str:
        return f"{self.case} {self.dtype}"

    @property
    def expected_s(self) -> float:
        if self.section == "training":
            return _EXPECTED_TRAINING_S.get(self.contender, _EXPECTED_OTHER_TRAINING_S)
        return _EXPECTED_S.get(self.contender, _EXPECTED_OTHER_S)


@dataclass(frozen=True)
class Choice:
    """The choice of the command line; empty tuples mean all."""

    sections: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    contenders: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("f32", "bf16")
    rounds: int = 0  # 0 means the section's own number
    quick: bool = False


def make_plan(choice: Choice, models: Sequence[str]) -> list[Step]:
    """The steps in order: rounds outermost, so that a run that is cut short still has all rows;
    contenders of a case next to each other, every second round backwards."""
    return list(_steps(choice, models))


def _steps(choice: Choice, models: Sequence[str]) -> Iterator[Step]:
    for name, whole in SECTIONS.items():
        if choice.sections and name not in choice.sections:
            continue
        section = _QUICK[name] if choice.quick else whole
        all_cases = models if whole.cases is None else whole.cases
        contenders: Sequence[str] = section.contenders
        cases: Sequence[str] = models if section.cases is None else section.cases
        if choice.contenders:
            contenders = [c for c in whole.contenders if c in choice.contenders]
        # A choice of models does not restrict sections whose cases are not models.
        if choice.cases and set(all_cases) & set(models):
            cases = [c for c in all_cases if c in choice.cases]
        for number in range(choice.rounds or section.rounds):
            order = contenders if number % 2 == 0 else contenders[::-1]
            for case in cases:
                for dtype in choice.dtypes if section.both_dtypes else ("f32",):
                    for contender in order:
                        if dtype != "f32" and contender in _F32_ONLY and not choice.contenders:
                            continue
                        yield Step(name, case, dtype, contender, number)
