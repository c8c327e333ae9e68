"""How a device becomes one of PyTorch's."""

from __future__ import annotations

import torch

DeviceType = torch._C._autograd.DeviceType
register_device_module = torch._register_device_module
