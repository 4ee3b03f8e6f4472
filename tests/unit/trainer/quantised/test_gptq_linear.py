"""A GPTQ layer computes what its files mean, whatever the width, form and order."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from tests.unit.trainer.quantised.gptq_writer import layer_tensors  # noqa: E402
from trainer.quantised.gptq_linear import GPTQLinear, pack, unpack  # noqa: E402


def _weight(outputs: int = 32, inputs: int = 64) -> "torch.Tensor":
    return torch.randn((outputs, inputs), generator=torch.Generator().manual_seed(0))


def _layer(weight: "torch.Tensor", *, bias: bool = False, **how: object) -> GPTQLinear:
    form, bits = str(how.get("form", "gptq")), int(str(how.get("bits", 4)))
    size = int(str(how.get("group_size", 32)))
    outputs, inputs = weight.shape
    layer = GPTQLinear(inputs, outputs, bits=bits, group_size=size, form=form, bias=bias)
    layer.load_state_dict(layer_tensors(weight, **how), strict=False)  # type: ignore[arg-type]
    return layer


def test_a_word_written_by_hand_is_read_as_the_format_says() -> None:
    # eight codes of four bits to a word, the first input in the lowest bits
    layer = GPTQLinear(8, 8, bits=4, group_size=8, form="gptq", bias=False)
    layer.qweight.copy_(torch.full((1, 8), 0x76543210))
    layer.qzeros.fill_(0x21032103)  # zero points 3 0 1 2 3 0 1 2, kept minus one
    layer.scales.fill_(0.5)

    decoded = layer.decoded(torch.float32)

    zeros = torch.tensor([4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0])
    expected = (torch.arange(8.0).unsqueeze(1) - zeros) * 0.5
    assert torch.equal(decoded, expected)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("axis", [0, 1])
def test_packing_and_unpacking_are_inverse_up_to_the_sign_bit(bits: int, axis: int) -> None:
    codes = torch.randint(0, 2**bits, (64, 32), generator=torch.Generator().manual_seed(bits))
    codes[:, -1] = codes[-1] = 2**bits - 1

    packed = pack(codes, bits, axis=axis)

    assert packed.dtype == torch.int32
    assert packed.numel() * 32 == codes.numel() * bits
    assert torch.equal(unpack(packed, bits, axis=axis), codes.int())


@pytest.mark.parametrize("form", ["gptq", "gptq_v2"])
@pytest.mark.parametrize("act_order", [False, True])
@pytest.mark.parametrize(("bits", "error"), [(2, 0.45), (4, 0.11), (8, 0.008)])
def test_the_decoded_weights_are_the_rounded_ones(
    form: str, act_order: bool, bits: int, error: float
) -> None:
    weight = _weight()

    layer = _layer(weight, bits=bits, form=form, act_order=act_order)

    lost = (layer.decoded(torch.float32).T - weight).norm() / weight.norm()
    assert float(lost) < error


@pytest.mark.parametrize("how", [{"group_size": -1}, {"group_size": 16}, {"symmetric": True}])
def test_groups_of_any_size_and_even_scales_are_read(how: dict[str, object]) -> None:
    weight = _weight()

    layer = _layer(weight, bits=8, **how)

    assert float((layer.decoded(torch.float32).T - weight).norm() / weight.norm()) < 0.012


def test_the_order_of_act_order_matters() -> None:
    weight = _weight()
    layer = _layer(weight, act_order=True)

    layer.g_idx.copy_(torch.arange(64) // 32)

    assert float((layer.decoded(torch.float32).T - weight).norm() / weight.norm()) > 0.15


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_outputs_and_gradients_are_those_of_the_decoded_matrix(dtype: str) -> None:
    kind = getattr(torch, dtype)
    layer = _layer(_weight(), bias=True)
    torch.nn.init.normal_(layer.bias)
    ours = torch.randn((3, 5, 64), dtype=kind, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()

    output = layer(ours)
    expected = theirs @ layer.decoded(kind) + layer.bias.to(kind)
    output.square().sum().backward()
    expected.square().sum().backward()

    assert torch.equal(output, expected)
    assert torch.equal(ours.grad, theirs.grad)


def test_the_layer_is_frozen_and_as_small_as_its_files() -> None:
    layer = _layer(_weight(256, 256), group_size=128)

    held = sum(tensor.numel() * tensor.element_size() for tensor in layer.buffers())

    assert not [parameter for parameter in layer.parameters() if parameter.requires_grad]
    assert held < 0.2 * 256 * 256 * 4


def test_no_decoded_matrix_is_kept_for_the_backward_pass() -> None:
    layer = _layer(_weight(256, 256), group_size=128)
    kept: list[int] = []

    def note(tensor: "torch.Tensor") -> "torch.Tensor":
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        layer(torch.randn((2, 256), requires_grad=True)).sum()

    assert max(kept, default=0) < 256 * 256


@pytest.mark.parametrize(
    ("shape", "how", "words"),
    [
        ((64, 32), {"bits": 3}, "3 bits in form gptq are not read"),
        ((64, 32), {"form": "marlin"}, "4 bits in form marlin are not read"),
        ((60, 32), {}, "does not fill words of 8 codes"),
    ],
)
def test_what_can_not_be_read_is_refused(
    shape: tuple[int, int], how: dict[str, object], words: str
) -> None:
    settings = {"bits": 4, "group_size": 32, "form": "gptq", "bias": False} | how

    with pytest.raises(ValueError, match=words):
        GPTQLinear(*shape, **settings)  # type: ignore[arg-type]
