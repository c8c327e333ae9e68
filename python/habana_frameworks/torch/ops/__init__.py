"""The operators of the namespace `torch.ops.hpu`: what Gaudi has kernels for and PyTorch has no
operator for. `torch.ops.hpu.<name>` imports them when it is first asked for one."""
