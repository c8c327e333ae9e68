"""The options of hpu_backend (docs/options.md) as a torch config module.

from habana_frameworks.torch.dynamo.compile_backend import config

config.use_eager_fallback = False
with config.patch(keep_input_mutations=False): ...
config.configuration_flags["use_compiled_recipes"] = False

The environment's values are read at the import. As with torch's own config modules, a graph is
compiled under the values of that moment and of the thread that calls it; options={...} of
torch.compile takes precedence over them.
"""

# There is no `from __future__` here and no class before the last lines, because every name that
# exists when the config module is installed becomes an option.
import sys

from ...torch_compat.config_module import install_config_module
from ..settings import options

globals().update(options.from_environment())

install_config_module(sys.modules[__name__])


class _ConfigurationFlags:
    """The older spelling: configuration_flags["name"] reads and sets the option."""

    def __getitem__(self, name: str) -> object:
        return getattr(sys.modules[__name__], name)

    def __setitem__(self, name: str, value: object) -> None:
        setattr(sys.modules[__name__], name, value)


configuration_flags = _ConfigurationFlags()
