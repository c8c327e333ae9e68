"""The public name of settings/config.py: importing it gives that module."""

import sys

from ..settings import config

sys.modules[__name__] = config
