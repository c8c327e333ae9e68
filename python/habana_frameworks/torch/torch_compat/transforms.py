"""The state of torch.func's transforms, forward-mode differentiation and hooks of saved tensors."""

from __future__ import annotations

import torch
import torch.autograd.forward_ad as forward_ad
from torch._functorch import predispatch

functorch = torch._C._functorch
is_functorch_wrapped_tensor = torch._C._functorch.is_functorch_wrapped_tensor
peek_interpreter_stack = torch._C._functorch.peek_interpreter_stack
vmap_increment_nesting = predispatch._vmap_increment_nesting

exit_dual_level = torch._C._exit_dual_level
is_fwd_grad_enabled = torch._C._is_fwd_grad_enabled
set_fwd_grad_enabled = torch._C._set_fwd_grad_enabled

saved_tensors_hooks_disable = torch._C._autograd._saved_tensors_hooks_disable
saved_tensors_hooks_enable = torch._C._autograd._saved_tensors_hooks_enable
saved_tensors_hooks_message = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message


def dual_level() -> int:
    """The level of forward-mode differentiation; -1 outside of it."""
    return forward_ad._current_level


dual_level()  # where PyTorch lacks the level, the import of this module fails and no call of it
