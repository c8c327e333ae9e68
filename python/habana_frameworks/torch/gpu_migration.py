"""GPU migration is not available here: its import says what to do instead."""

raise ImportError(
    "habana_frameworks.torch.gpu_migration is not part of this package: write the device as "
    '"hpu" where the program says "cuda", and torch.hpu for torch.cuda'
)
