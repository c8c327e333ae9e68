"""Names of Dynamo for guarding, tracing and installing code.

Starting without tracing does the same by itself. Importing this module imports Dynamo.
"""

from __future__ import annotations

import torch
import torch.utils._device
from torch._dynamo import convert_frame, guards
from torch._dynamo import disable as disable
from torch._dynamo.bytecode_transformation import get_code_keys as get_code_keys
from torch._dynamo.bytecode_transformation import unique_id as unique_id
from torch._dynamo.convert_frame import DynamoOutput as DynamoOutput
from torch._dynamo.convert_frame import input_codes as input_codes
from torch._dynamo.convert_frame import output_codes as output_codes
from torch._dynamo.eval_frame import innermost_backend as innermost_backend
from torch._dynamo.exc import RestartAnalysis as RestartAnalysis
from torch._dynamo.guards import CheckFunctionManager as CheckFunctionManager
from torch._dynamo.guards import GuardBuilder as GuardBuilder
from torch._dynamo.guards import GuardManagerType as GuardManagerType
from torch._dynamo.guards import GuardManagerWrapper as GuardManagerWrapper
from torch._dynamo.guards import build_guard_function as build_guard_function
from torch._dynamo.output_graph import OutputGraph as OutputGraph
from torch._dynamo.output_graph import OutputGraphCommon as OutputGraphCommon
from torch._dynamo.output_graph import OutputGraphGuardsState as OutputGraphGuardsState
from torch._dynamo.output_graph import get_builtins_dict as get_builtins_dict
from torch._dynamo.source import AttrSource as AttrSource
from torch._dynamo.source import ConstDictKeySource as ConstDictKeySource
from torch._dynamo.source import DictGetItemSource as DictGetItemSource
from torch._dynamo.source import GlobalSource as GlobalSource
from torch._dynamo.source import LocalSource as LocalSource
from torch._dynamo.source import ShapeEnvSource as ShapeEnvSource
from torch._dynamo.source import (
    UnspecializedBuiltinNNModuleSource as UnspecializedBuiltinNNModuleSource,
)
from torch._dynamo.source import UnspecializedNNModuleSource as UnspecializedNNModuleSource
from torch._dynamo.source import UnspecializedParamBufferSource as UnspecializedParamBufferSource
from torch._dynamo.symbolic_convert import (
    InliningInstructionTranslator as InliningInstructionTranslator,
)
from torch._dynamo.symbolic_convert import compare_op_handlers as compare_op_handlers
from torch._dynamo.types import ConvertFrameReturn as ConvertFrameReturn
from torch._dynamo.types import GuardedCode as GuardedCode
from torch._dynamo.types import wrap_guarded_code as wrap_guarded_code
from torch._dynamo.utils import CleanupHook as CleanupHook
from torch._dynamo.utils import CleanupManager as CleanupManager
from torch._dynamo.utils import normalize_range_iter as normalize_range_iter
from torch._dynamo.utils import orig_code_map as orig_code_map
from torch._dynamo.utils import tuple_iterator_len as tuple_iterator_len
from torch._dynamo.variables import ConstantVariable as ConstantVariable
from torch._dynamo.variables.builtin import BuiltinVariable as BuiltinVariable
from torch._dynamo.variables.hashable import HashableTracker as HashableTracker
from torch._dynamo.variables.lazy import LazyVariableTracker as LazyVariableTracker
from torch._dynamo.variables.lists import BaseListVariable as BaseListVariable
from torch._dynamo.variables.lists import ListVariable as ListVariable
from torch._dynamo.variables.sets import FrozensetVariable as FrozensetVariable
from torch._dynamo.variables.sets import SetVariable as SetVariable
from torch._functorch._aot_autograd.utils import top_saved_tensors_hooks as top_saved_tensors_hooks
from torch._guards import CompileId as CompileId
from torch._guards import Guard as Guard
from torch._guards import Source as Source

DictGuardManager = torch._C._dynamo.guards.DictGuardManager
GlobalStateGuard = torch._C._dynamo.guards.GlobalStateGuard
GuardManager = torch._C._dynamo.guards.GuardManager
PyInterpreterFrame = torch._C._dynamo.eval_frame._PyInterpreterFrame
guard_same_object = torch._C._dynamo.guards.install_object_aliasing_guard
TorchCompileWrapper = torch._TorchCompileWrapper
get_cublas_allow_tf32 = torch._C._get_cublas_allow_tf32
get_closure_vars = guards._get_closure_vars
bytecode_hooks = convert_frame._bytecode_hooks


def current_device() -> torch.device | None:
    """The device that torch.set_default_device set."""
    return torch.utils._device.CURRENT_DEVICE


current_device()  # as transforms.dual_level()
