"""The dispatcher's keys, and what is registered for operators."""

from __future__ import annotations

import torch
import torch.library
from torch._library.custom_ops import CustomOpDef as CustomOpDef
from torch._library.simple_registry import singleton as singleton
from torch._library.utils import Kernel as Kernel

DispatchKey = torch._C.DispatchKey
DispatchKeySet = torch._C.DispatchKeySet
ForceDispatchKeyGuard = torch._C._ForceDispatchKeyGuard
TensorBase = torch._C.TensorBase
VariableFunctions = torch._C._VariableFunctions
dispatch_dump = torch._C._dispatch_dump
dispatch_get_all_op_names = torch._C._dispatch_get_all_op_names
dispatch_keys = torch._C._dispatch_keys
dispatch_tls_local_exclude_set = torch._C._dispatch_tls_local_exclude_set
dispatch_tls_local_include_set = torch._C._dispatch_tls_local_include_set
impls = torch.library._impls  # "namespace/operator/key" of each Python registration
