"""The front end of eager ops: how one ATen call on hpu tensors gets its program.

backend/torch/record/ finds the programs of known calls; it asks here once per signature of a call.
"""
