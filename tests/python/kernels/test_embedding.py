"""DLRM's embeddings: EmbeddingBag and EmbeddingBagPreproc; and the CTC loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from kernel_case import assert_near, by_way, on_device, run
from training_case import matrix

from habana_frameworks.torch.hpex.kernels import (
    CTCLoss,
    EmbeddingBag,
    EmbeddingBagPreProc,
    EmbeddingBagPreproc,
)

INDICES = torch.tensor([3, 1, 3, 0, 4, 3, 1], dtype=torch.int32)
OFFSETS = torch.tensor([0, 2, 2, 5, 7], dtype=torch.int32)


def counts(offsets, indices):
    return torch.tensor([offsets, indices], dtype=torch.int32)


@by_way
def test_sums_of_rows(way):
    """Guide DEV-8. The third of the bags is empty, and what is behind the counts is not read."""
    table = matrix(5, 3)
    padded = torch.cat((INDICES, torch.tensor([77, -5], dtype=torch.int32)))

    def forward(table, indices, offsets, valid):
        return EmbeddingBag.forward(table, indices, offsets, valid, 1)

    y = run(way, "embedding_bag_sum", forward, table, padded, OFFSETS, counts(5, 7))
    want = F.embedding_bag(INDICES, table, OFFSETS[:-1], mode="sum")
    assert_near([y], [want], 1e-6, 1e-6)


def test_preparation_and_gradient():
    """Guide DEV-8. The rows of the gradient are those of the unique indices, in rising order."""
    assert EmbeddingBagPreProc is EmbeddingBagPreproc
    count, unique, bags, offsets = EmbeddingBagPreproc.forward(INDICES, OFFSETS, 5)
    assert count.tolist() == [4]
    assert unique[:4].tolist() == [0, 1, 3, 4]
    assert offsets[:5].tolist() == [0, 1, 3, 6, 7]
    assert bags.tolist() == [2, 0, 3, 0, 2, 3, 2]
    assert all(t.dtype == torch.int32 for t in (unique, bags, offsets))

    table = matrix(5, 3).requires_grad_()
    grad = matrix(4, 3, seed=1)
    F.embedding_bag(INDICES, table, OFFSETS[:-1], mode="sum").backward(grad)
    found = torch.full((5, 3), 9.0).to("hpu")
    more = torch.zeros(6, dtype=torch.int32)  # as long as the table allows
    more[:5] = offsets[:5]
    result = EmbeddingBag.backward(found, *on_device((grad, bags, more, counts(5, 7))), 1)
    assert result is found
    assert_near([found[:4]], [table.grad[unique[:4].long()]], 1e-6, 1e-6)


def test_ctc_loss():
    log_probs = matrix(6, 2, 5).log_softmax(-1).detach().requires_grad_()
    targets, lengths = torch.tensor([[1, 2, 1], [3, 3, 0]]), torch.tensor([6, 5])
    sizes = torch.tensor([3, 2])
    want = F.ctc_loss(log_probs, targets, lengths, sizes, reduction="sum")
    placed = log_probs.detach().to("hpu").requires_grad_()
    loss = CTCLoss.apply(placed, targets.to("hpu"), lengths, sizes, 0, "sum")
    assert_near([loss], [want], 1e-5, 1e-5)
    gradients = [torch.autograd.grad(y, x)[0] for y, x in ((loss, placed), (want, log_probs))]
    assert_near(gradients[:1], gradients[1:], 1e-5, 1e-5)
