"""Few bits keep what the optimizer needs of its states."""

import pytest

torch = pytest.importorskip("torch")

from trainer.optimizers.quantised_states import (  # noqa: E402
    BLOCK,
    LEAST_ELEMENTS,
    EightBitMoments,
    codebook,
    decode_4bit,
    decode_8bit,
    encode_4bit,
    encode_8bit,
)


def _values(count: int = 10_000, seed: int = 0) -> "torch.Tensor":
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("signed", [True, False])
def test_the_codebook_is_that_of_bitsandbytes(signed: bool) -> None:
    functional = pytest.importorskip("bitsandbytes.functional")

    theirs = functional.create_dynamic_map(signed=signed)

    torch.testing.assert_close(codebook(signed=signed), theirs, atol=1e-6, rtol=0)


@pytest.mark.parametrize("signed", [True, False])
def test_eight_bits_keep_values_within_two_percent(signed: bool) -> None:
    values = _values() if signed else _values().abs()

    codes, largest = encode_8bit(values, signed=signed)
    back = decode_8bit(codes, largest, values.shape, signed=signed)

    assert codes.dtype == torch.uint8
    assert float((back - values).norm() / values.norm()) < 0.02


def test_small_values_keep_their_size_beside_large_ones() -> None:
    values = torch.tensor([1.0, 1e-2, -1e-3, 1e-5] * 64)

    back = decode_8bit(*encode_8bit(values, signed=True), values.shape, signed=True)

    assert bool(((back / values - 1).abs() < 0.3).all())


def test_a_scale_reaches_only_its_own_block() -> None:
    values = torch.cat((torch.full((BLOCK,), 1e-4), torch.full((BLOCK,), 1e4)))

    back = decode_8bit(*encode_8bit(values, signed=True), values.shape, signed=True)

    torch.testing.assert_close(back, values)


def test_four_bits_keep_values_within_half_a_step_and_eight_times_smaller() -> None:
    values = _values(64 * BLOCK).view(128, -1)

    packed, ranges = encode_4bit(values)
    back = decode_4bit(packed, ranges, values.shape)

    worst = (back - values).abs().view(-1, BLOCK).amax(dim=1)
    assert bool((worst <= ranges[:, 1] / 2 + 1e-6).all())
    assert packed.numel() + 4 * ranges.numel() < 0.54 * values.numel()


@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK + 1])
def test_a_broken_block_is_cut_to_its_shape(count: int) -> None:
    values = _values(count)

    assert decode_4bit(*encode_4bit(values), values.shape).shape == values.shape
    back = decode_8bit(*encode_8bit(values, signed=True), values.shape, signed=True)
    assert back.shape == values.shape


def test_constants_and_zeros_come_back() -> None:
    for values in (torch.zeros(BLOCK), torch.full((BLOCK,), 3.0)):
        torch.testing.assert_close(decode_4bit(*encode_4bit(values), values.shape), values)
        eight = decode_8bit(*encode_8bit(values, signed=True), values.shape, signed=True)
        torch.testing.assert_close(eight, values)


def test_a_second_moment_below_all_codes_never_reads_as_zero() -> None:
    moments, state = EightBitMoments(), {}
    first = torch.full((LEAST_ELEMENTS,), 1e-9)
    second = torch.full((LEAST_ELEMENTS,), 1e-18)
    first[0], second[0] = 1.0, 1.0

    moments.write(state, first, second)
    read_first, read_second = moments.read(state, first)

    assert float((read_first / read_second.sqrt()).abs().max()) < 10


def test_small_tensors_stay_in_floating_point() -> None:
    moments, state = EightBitMoments(), {}
    values = _values(100)

    moments.write(state, values, values.square())

    assert torch.equal(moments.read(state, values)[0], values)
    assert {tensor.dtype for tensor in state.values()} == {torch.float32}
