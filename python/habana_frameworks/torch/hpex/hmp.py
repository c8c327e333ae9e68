"""Habana mixed precision is not available here: its import says what took its place."""

raise ImportError(
    "habana_frameworks.torch.hpex.hmp is not part of this package: use "
    'torch.autocast("hpu", dtype=torch.bfloat16) around forward and loss'
)
