"""The data loader of programs for Gaudi, which takes the place of PyTorch's own.

    import habana_dataloader
    loader = habana_dataloader.HabanaDataLoader(dataset, batch_size=256, sampler=sampler,
                                                num_workers=8, pin_memory=True, drop_last=True)

docs/data_loader.md says when photographs are decoded in threads of C++, and what differs then.
"""

from .loader import HabanaDataLoader as HabanaDataLoader
