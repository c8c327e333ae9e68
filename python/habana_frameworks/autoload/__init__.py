"""Entry point of PyTorch's device autoload, by which `import torch` alone registers the hpu device.

PT_HPU_AUTOLOAD=0 (or TORCH_DEVICE_BACKEND_AUTOLOAD=0) switches it off. An incomplete installation
must not make `import torch` fail: it is reported when habana_frameworks.torch itself is imported.
"""

from __future__ import annotations

import logging
import os


def load() -> None:
    """Imports habana_frameworks.torch unless that is switched off."""
    if os.environ.get("PT_HPU_AUTOLOAD", "1") == "0":
        return
    try:
        import habana_frameworks.torch  # noqa: F401
    except ImportError as error:
        logging.getLogger(__name__).debug("no hpu device: %s", error)
