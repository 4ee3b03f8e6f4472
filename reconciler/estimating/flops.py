"""How many floating-point operations a token costs.

Source: Kaplan et al., 2001.08361 (6 N a token: 2 forward, 4 backward), PaLM (2204.02311)
appendix B for attention, halved because causal masks skip half; frozen weights save the 2 N of
their gradients; full checkpointing repeats the forward pass.
"""

from dataclasses import dataclass

from reconciler.estimating import counting
from reconciler.estimating.training import NO_LOGITS, Checkpointing, Training


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFlops:
    """Operations a token of one forward pass, by what runs them."""

    dense: float
    """Matrix products of the layers that every token goes through."""
    routed: float
    """Matrix products of the experts a token visits."""
    attention: float
    head: float

    @property
    def layers(self) -> float:
        """Return everything but the head."""
        return self.dense + self.routed + self.attention


def forward(training: Training) -> TokenFlops:
    """Return the operations one token costs in the forward pass of the whole model."""
    model = training.model
    routed = 0.0
    if model.experts is not None:
        one = counting.expert(model, model.experts)
        routed = 2.0 * model.moe_layers * model.experts.active * one
    vocabulary = 2.0 * model.vocab * model.hidden
    dense = 2.0 * counting.active(model) - routed - vocabulary
    width = model.query_width
    if model.latent is not None:
        m = model.latent
        width = model.heads * (m.nope_dim + m.rope_dim + m.value_dim) // 2
    full = model.layers - (model.linear.layers if model.linear else 0)
    if model.vision is not None and training.image_tokens:
        patches = 4 * training.image_tokens / training.seq_len
        dense += 2.0 * model.vision.parameters * patches
    return TokenFlops(
        dense=dense,
        routed=routed,
        attention=2.0 * full * width * training.seq_len,
        head=0.0 if training.task in NO_LOGITS else vocabulary,
    )


def passes(training: Training) -> tuple[float, float]:
    """Return how many forward passes a step is worth, for weights and for attention.

    Forward 1, backward 2 (frozen weights 1: only the gradient of the input), recomputation 1.
    Preference tasks add one forward pass of the reference.
    """
    backward = 1.0 if training.is_adapter else 2.0
    again = 1.0 if training.checkpointing is Checkpointing.FULL else 0.0
    if training.checkpointing is Checkpointing.SELECTIVE_OP:
        again = 0.5
    reference = 1.0 if training.has_reference or training.task in REFERENCED else 0.0
    return 1 + backward + again + reference, 3 + again + reference


REFERENCED = frozenset({"dpo", "grpo"})


def model_flops(training: Training) -> float:
    """Return operations a token of a training step, recomputation not counted (for MFU)."""
    one = forward(training)
    weights = 2.0 if training.is_adapter else 3.0
    return weights * (one.dense + one.routed + one.head) + 3.0 * one.attention
