"""torch.ops.hpu.convert_from_uint4 and convert_from_int4."""

from __future__ import annotations

import pytest
import torch
from kernel_case import assert_near, by_way, run
from training_case import matrix

ROWS, WORDS = 8, 3
COLUMNS = 8 * WORDS


def packed(rows, words, seed):
    """Words with random bits, the highest one too, and the eight numbers of each."""
    bits = torch.randint(0, 2**32, (rows, words), generator=torch.Generator().manual_seed(seed))
    numbers = torch.zeros(rows, 8 * words, dtype=torch.int64)
    for n in range(8 * words):
        numbers[:, n] = bits[:, n // 8] // 16 ** (n % 8) % 16
    return torch.where(bits >= 2**31, bits - 2**32, bits).to(torch.int32), numbers


@by_way
@pytest.mark.parametrize("has_sign", [False, True])
@pytest.mark.parametrize("zeros", ["none", "packed", "floats"])
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_numbers_of_groups_of_rows(groups, zeros, has_sign, way):
    words, numbers = packed(ROWS, WORDS, 1)
    assert (words < 0).any()
    scale = matrix(groups, COLUMNS, seed=2)
    zero_words, zero = packed(groups, WORDS, 3)
    given = {"none": None, "packed": zero_words, "floats": matrix(groups, COLUMNS, seed=4)}[zeros]
    if zeros == "floats":
        zero = given
    if has_sign:
        numbers = torch.where(numbers >= 8, numbers - 16, numbers)
        zero = torch.where(zero >= 8, zero - 16, zero) if zeros == "packed" else zero
    name = "convert_from_int4" if has_sign else "convert_from_uint4"

    def convert(words, scale, given):
        return getattr(torch.ops.hpu, name)(words, scale, given, torch.float32)

    y = run(way, name, convert, words, scale, given)
    rows = torch.arange(ROWS) // (ROWS // groups)
    subtracted = 0 if zeros == "none" else zero[rows]
    assert_near([y], [(numbers - subtracted) * scale[rows]], 1e-6, 1e-6)


@by_way
@pytest.mark.parametrize("sizes", [(6,), (2, 3, 1)])
def test_words_that_are_no_matrix(sizes, way):
    words, numbers = packed(2, 3, 1)
    wide = (*sizes[:-1], 8 * sizes[-1])
    words, numbers, scale = words.reshape(sizes), numbers.reshape(wide), matrix(wide[-1], seed=2)

    def convert(words, scale):
        return torch.ops.hpu.convert_from_uint4(words, scale, None, torch.float32)

    y = run(way, "convert_from_uint4", convert, words, scale)
    assert_near([y], [numbers * scale], 1e-6, 1e-6)


@by_way
def test_groups_by_index(way):
    """As GPTQ with act_order stores them."""
    words, numbers = packed(ROWS, WORDS, 1)
    zero_words, zero = packed(3, WORDS, 3)
    scale, index = matrix(3, COLUMNS, seed=2), torch.tensor([2, 0, 1, 1, 0, 2, 2, 0])

    def convert(*args):
        return torch.ops.hpu.convert_from_uint4(*args[:3], torch.bfloat16, args[3])

    y = run(way, "convert_from_uint4", convert, words, scale, zero_words, index)
    assert y.dtype == torch.bfloat16
    assert_near([y.float()], [(numbers - zero[index]) * scale[index]], 2**-8, 0)


@pytest.mark.parametrize("rows", [1, 40])
def test_product_with_such_weights(rows):
    words, numbers = packed(64, 4, 1)
    zero_words, zero = packed(2, 4, 3)
    scale, x = matrix(2, 32, seed=2), matrix(rows, 64, seed=5)

    def product(x, words, scale, zeros):
        return x @ torch.ops.hpu.convert_from_uint4(words, scale, zeros, torch.float32)

    y = run("compiled", "convert_from_uint4", product, x, words, scale, zero_words)
    groups = torch.arange(64) // 32
    want = x.double() @ ((numbers - zero[groups]) * scale[groups].double())
    assert_near([y.double()], [want], 1e-4, 1e-3)
