"""Functions that stand in Dynamo's graphs under private names."""

from __future__ import annotations

import torch
import torch.amp.autocast_mode
import torch.autograd.grad_mode

log_api_usage_once = torch._C._log_api_usage_once
set_grad_enabled = torch._C._set_grad_enabled
multilabel_margin_loss = torch._C._nn.multilabel_margin_loss
enter_autocast = torch.amp.autocast_mode._enter_autocast
exit_autocast = torch.amp.autocast_mode._exit_autocast
enter_inference_mode = torch.autograd.grad_mode._enter_inference_mode
weight_int4pack_mm_for_cpu = torch.ops.aten._weight_int4pack_mm_for_cpu
