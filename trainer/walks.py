"""Two calls that a training loop makes of a model at every step, without their walk.

``Module.train`` and ``Module.zero_grad`` visit every module by name: ten milliseconds a step on a
model with adapters, 1 % of a step of 100 tokens at 135 M parameters on one core.  A training does
not change its modules, so both are listed once.
"""

from typing import Any


def shorten(model: Any) -> None:
    """Let ``model``, ready to be trained, answer both calls from lists made now."""
    modules, parameters = list(model.modules()), list(model.parameters())
    whole_train, whole_zero_grad = model.train, model.zero_grad

    def train(mode: bool = True) -> Any:
        if all(module.training is mode for module in modules):
            return model
        return whole_train(mode)

    def zero_grad(set_to_none: bool = True) -> None:
        if not set_to_none:
            whole_zero_grad(set_to_none=False)
            return
        for parameter in parameters:
            parameter.grad = None

    model.train, model.zero_grad = train, zero_grad
