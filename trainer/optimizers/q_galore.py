"""Q-GaLore: GaLore on 8-bit weights, with 4-bit bases, 8-bit moments and lazy bases.

Zhang et al. 2024, "Q-GaLore", algorithm 1.  A layer whose subspace has settled needs no new basis
so often: each new one is compared with the last, and while the mean of the latest comparisons
stays at the threshold or above, the gap of that layer grows.

Compared is the subspace (mean squared cosine of the principal angles), not the cosine of single
columns as in the paper: columns turn and change sign while the subspace stays the same.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from trainer.optimizers.galore import GaLoreAdamW, State
from trainer.optimizers.galore_projector import overlap
from trainer.optimizers.int8_linear import Int8Linear
from trainer.optimizers.quantised_states import decode_4bit, encode_4bit

LONGEST_GAP = 100_000


class QGaLoreAdamW(GaLoreAdamW):
    """See the module.

    ``layers`` are the 8-bit layers by name; their weights must be among ``groups``, in projected
    ones with ``overlap_threshold``, ``gap_growth`` and ``overlaps_kept`` as well.
    """

    def __init__(
        self,
        groups: Iterable[Mapping[str, Any]],
        *,
        layers: Mapping[str, Int8Linear],
        **kwargs: Any,
    ) -> None:
        self.layers = {layer.weight: layer for layer in layers.values()}
        super().__init__(groups, bits=8, **kwargs)
        missing = [name for name, layer in layers.items() if layer.weight not in self.places]
        if missing:
            raise ValueError(f"no parameter group holds the weights of {', '.join(missing)}")

    def is_due(self, parameter: torch.Tensor, state: State, group: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Return whether this layer's own gap has passed."""
        return bool(state["step"] >= state["next_basis"])

    def read_basis(
        self, parameter: torch.Tensor, state: State, group: Mapping[str, Any]
    ) -> torch.Tensor | None:
        """Return the basis decoded; None before the first."""
        if "basis_codes" not in state:
            return None
        shape = torch.Size((min(parameter.shape), group["rank"]))
        return decode_4bit(state["basis_codes"], state["basis_ranges"], shape).to(parameter.dtype)

    def write_basis(
        self,
        parameter: torch.Tensor,
        state: State,
        group: Mapping[str, Any],
        basis: torch.Tensor,
        old: torch.Tensor | None,
    ) -> None:
        """Keep a basis in 4 bits, and set when the next one is due."""
        state["basis_codes"], state["basis_ranges"] = encode_4bit(basis)
        if old is None:
            state["overlaps"], state["gap"] = [], group["update_gap"]
            # parameters take turns, so that no single step pays for the bases of all
            turn = self.places[parameter] % group["update_gap"]
            state["next_basis"] = state["step"] + (turn or group["update_gap"])
            return
        overlaps = [*state["overlaps"], overlap(basis, old)][-group["overlaps_kept"] :]
        settled = sum(overlaps) / len(overlaps) >= group["overlap_threshold"]
        if len(overlaps) == group["overlaps_kept"] and settled:
            state["gap"] = min(round(state["gap"] * group["gap_growth"]), LONGEST_GAP)
            overlaps = []
        state["overlaps"] = overlaps
        state["next_basis"] = state["step"] + state["gap"]

    def apply(
        self, parameter: torch.Tensor, direction: torch.Tensor, group: Mapping[str, Any]
    ) -> None:
        """Move a parameter; the weights of an 8-bit layer by way of their codes."""
        layer = self.layers.get(parameter)
        if layer is None:
            super().apply(parameter, direction, group)
            return
        state = self.state[parameter]
        kept = 1 - group["lr"] * group["weight_decay"]
        layer.change(
            lambda weights: weights.mul_(kept).sub_(direction.float(), alpha=group["lr"]),
            self.generator(parameter, state, group),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the codes of the weights, which a saved model does not have."""
        packed: dict[str, Any] = super().state_dict()
        for parameter, layer in self.layers.items():
            place = self.places[parameter]
            packed["state"][place] = {
                **packed["state"].get(place, {}),
                "weight_codes": layer.codes,
                "weight_scales": layer.scales,
            }
        return packed

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the state over, and put the codes of the weights back into their layers."""
        super().load_state_dict(state_dict)
        for parameter, layer in self.layers.items():
            state = self.state[parameter]
            layer.codes.copy_(state.pop("weight_codes"))
            layer.scales.copy_(state.pop("weight_scales"))
            if not state:
                del self.state[parameter]
