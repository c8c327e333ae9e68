"""The interface by which Dynamo asks a device; importing it imports Dynamo."""

from __future__ import annotations

from torch._dynamo.device_interface import DeviceInterface as DeviceInterface
from torch._dynamo.device_interface import (
    caching_worker_current_devices as caching_worker_current_devices,
)
from torch._dynamo.device_interface import (
    caching_worker_device_properties as caching_worker_device_properties,
)
from torch._dynamo.device_interface import (
    register_interface_for_device as register_interface_for_device,
)
