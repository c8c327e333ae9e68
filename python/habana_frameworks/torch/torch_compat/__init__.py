"""All that this package takes from PyTorch without PyTorch promising to keep it.

A name of PyTorch is private if a part of it begins with an underscore: torch._dynamo,
torch.utils._pytree, torch._C. No other folder of the package uses one; tools/private_names.py
checks that and lists them in docs/pytorch_private_names.md. docs/pytorch_versions.md says which
versions of PyTorch were tested.

Each module holds what one part of the package needs, so that a name that a version of PyTorch lacks
fails the import of that module alone. features.py says what is lost then; replaced.py holds the
functions of PyTorch that this package replaces.
"""

# Minor versions of PyTorch with which the tests pass.
TESTED = ("2.13", "2.14", "2.15")


def minor_version(version: str) -> str:
    """ "2.13" of "2.13.0+cpu"."""
    return ".".join(version.partition("+")[0].split(".")[:2])
