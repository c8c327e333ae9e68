"""Programs written for CUDA run on hpu: this import replaces functions of PyTorch.

    import habana_frameworks.torch.gpu_migration        or PT_HPU_GPU_MIGRATION=1

Each function that takes a device takes "cuda" for "hpu", and torch.cuda is torch.hpu by another
name. docs/gpu_migration.md says what is mapped, what is not, and how it is logged. Without this
import nothing of it is loaded.
"""

from . import classes, cuda_module, functions

functions.install()
cuda_module.install()
classes.install()
