"""Modules whose names are settings."""

from __future__ import annotations

from torch.utils._config_module import install_config_module as install_config_module
