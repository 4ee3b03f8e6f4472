"""AdamW whose states of chosen matrices live in a projection of low rank (GaLore).

Parameters of a group with a ``rank`` are projected: r x (m + 2n) numbers of state instead of
2 x m x n for a matrix of m x n, m <= n (Zhao et al. 2024, "GaLore", algorithm 2).  All others
get the plain AdamW of torch.

Rules kept: equal seeds and gradients give equal weights, bit for bit, also across a resume: the
random numbers of a basis depend on the seed, the parameter and its step, and on nothing that a
checkpoint could lose.  The state is plain tensors and numbers, which
``torch.load(weights_only=True)`` reads.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import torch

from trainer.optimizers.galore_projector import dominant_basis, project, project_back
from trainer.optimizers.quantised_states import EightBitMoments, PlainMoments

if TYPE_CHECKING:
    from trainer.optimizers.layerwise import BackwardUpdates

State = MutableMapping[str, Any]


class GaLoreAdamW(torch.optim.Optimizer):  # type: ignore[misc]
    """See the module.

    ``groups`` are torch's parameter groups; a projected one has ``rank``, ``update_gap`` (steps
    between two bases) and ``scale`` (of the update) as well.  ``bits`` 8 keeps the moments in 8
    bits.
    """

    def __init__(
        self,
        groups: Iterable[Mapping[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        seed: int = 0,
        bits: int = 32,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "seed": seed,
            "rank": None,
        }
        self.moments = EightBitMoments() if bits == 8 else PlainMoments()
        self.places: dict[torch.Tensor, int] = {}
        self.in_backward: BackwardUpdates | None = None
        super().__init__([dict(group) for group in groups], defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take a group in; raise ValueError where its matrices can not be projected."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in group["params"]:
            self.places[parameter] = len(self.places)
            if group["rank"] is not None:
                _check(parameter, group["rank"])

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient, unless the backward pass already has."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups if self.in_backward is None else ():
            for parameter in group["params"]:
                self.update(parameter, group)
        return loss

    def update(self, parameter: torch.Tensor, group: Mapping[str, Any]) -> None:
        """Update one parameter from its gradient, if it has one."""
        if parameter.grad is None:
            return
        with torch.no_grad():
            state = self.state[parameter]
            state["step"] = state.get("step", 0) + 1
            if group["rank"] is None:
                direction = self._direction(state, group, parameter.grad)
            else:
                basis = self._basis(parameter, state, group)
                inside = self._direction(state, group, project(parameter.grad, basis))
                direction = project_back(inside.to(basis.dtype), basis, parameter.shape)
                direction.mul_(group["scale"])
            self.apply(parameter, direction, group)

    def _direction(
        self, state: State, group: Mapping[str, Any], gradient: torch.Tensor
    ) -> torch.Tensor:
        """Return Adam's direction, before the learning rate, and move the moments on."""
        beta1, beta2 = group["betas"]
        first, second = self.moments.read(state, gradient)
        gradient = gradient.to(first.dtype)
        first.lerp_(gradient, 1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        self.moments.write(state, first, second)
        divisor = second.sqrt().div_((1 - beta2 ** state["step"]) ** 0.5).add_(group["eps"])
        return first.div(divisor).div_(1 - beta1 ** state["step"])

    def _basis(
        self, parameter: torch.Tensor, state: State, group: Mapping[str, Any]
    ) -> torch.Tensor:
        """Return the basis of this step, a new one where one is due."""
        basis = self.read_basis(parameter, state, group)
        if basis is None or self.is_due(parameter, state, group):
            gradient = parameter.grad
            assert gradient is not None
            random = self.generator(parameter, state, group)
            fresh = dominant_basis(gradient, group["rank"], generator=random)
            self.write_basis(parameter, state, group, fresh.to(gradient.dtype), basis)
            basis = self.read_basis(parameter, state, group)
            assert basis is not None
        return basis

    def is_due(self, parameter: torch.Tensor, state: State, group: Mapping[str, Any]) -> bool:
        """Return whether this step takes a new basis."""
        # parameters take turns, so that no single step pays for the bases of all
        turn = self.places[parameter] % group["update_gap"]
        return bool((state["step"] - 1) % group["update_gap"] == turn)

    def read_basis(
        self,
        parameter: torch.Tensor,  # noqa: ARG002
        state: State,
        group: Mapping[str, Any],  # noqa: ARG002
    ) -> torch.Tensor | None:
        """Return the basis kept in ``state``; None before the first."""
        basis: torch.Tensor | None = state.get("basis")
        return basis

    def write_basis(
        self,
        parameter: torch.Tensor,  # noqa: ARG002
        state: State,
        group: Mapping[str, Any],  # noqa: ARG002
        basis: torch.Tensor,
        old: torch.Tensor | None,  # noqa: ARG002
    ) -> None:
        """Keep a basis in ``state`` in place of the ``old`` one, if any."""
        state["basis"] = basis

    def apply(
        self, parameter: torch.Tensor, direction: torch.Tensor, group: Mapping[str, Any]
    ) -> None:
        """Move a parameter: decay, then a step of the learning rate."""
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(direction.to(parameter.dtype), alpha=-group["lr"])

    def generator(
        self, parameter: torch.Tensor, state: State, group: Mapping[str, Any]
    ) -> torch.Generator:
        """Return random numbers that depend on seed, parameter and step alone."""
        mixed = (group["seed"] * 1_000_003 + self.places[parameter]) * 1_000_003 + state["step"]
        return torch.Generator(device=parameter.device).manual_seed(mixed % 2**63)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the state over as it was saved; torch's own would cast codes to the weights' type.

        Raises ValueError where it was saved for other parameters.
        """
        saved, own = state_dict["param_groups"], self.param_groups
        if [len(group["params"]) for group in saved] != [len(group["params"]) for group in own]:
            raise ValueError("the saved optimizer state belongs to other parameter groups")
        parameters = [parameter for group in own for parameter in group["params"]]
        names = [name for group in saved for name in group["params"]]
        for group, before in zip(own, saved, strict=True):
            group.update({key: value for key, value in before.items() if key != "params"})
        self.state.clear()
        for name, parameter in zip(names, parameters, strict=True):
            if name in state_dict["state"]:
                self.state[parameter] = {
                    key: value.to(parameter.device, copy=True)
                    if isinstance(value, torch.Tensor)
                    else value
                    for key, value in state_dict["state"][name].items()
                }


def _check(parameter: torch.Tensor, rank: int) -> None:
    if type(parameter.data).__name__ == "DTensor":
        raise ValueError("GaLore projects whole matrices; this one is split over several devices")
    if parameter.dim() != 2:
        raise ValueError(f"GaLore projects matrices, not a tensor of {tuple(parameter.shape)}")
    if rank > min(parameter.shape):
        raise ValueError(
            f"a rank of {rank} is above the smaller side of a matrix of {tuple(parameter.shape)}"
        )


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Return the bytes of all tensors an optimizer keeps."""
    return sum(
        value.numel() * value.element_size()
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    )
