"""Bridge interfaces (usual alias htcore). Importing this package registers the device."""

from __future__ import annotations

from habana_frameworks.torch import hpu as hpu
from habana_frameworks.torch.internal.lazy_mode import is_on as is_lazy  # noqa: F401
from habana_frameworks.torch.internal.submodules import on_demand

from .quantization import hpu_inference_initialize as hpu_inference_initialize
from .quantization import hpu_inference_set_env as hpu_inference_set_env
from .quantization import hpu_initialize as hpu_initialize
from .quantization import hpu_reset_env as hpu_reset_env
from .quantization import hpu_set_env as hpu_set_env
from .quantization import hpu_set_inference_env as hpu_set_inference_env
from .quantization import hpu_teardown_inference_env as hpu_teardown_inference_env
from .step_closure import add_step_closure as add_step_closure
from .step_closure import iter_mark_step as iter_mark_step
from .step_closure import mark_step as mark_step

__getattr__ = on_demand(__name__, "observer", "quantize_pt2e", "quantizer", "weight_sharing")
