"""Pipeline parallelism: each process has some of the layers, and rows go through all of them.

torch's schedule 1F1B (Narayanan et al. 2021) runs over the micro-batches of one optimizer step:
after a start-up each process alternates one forward and one backward pass, so that it holds
activations of at most as many micro-batches as there are stages.  Every process reads the same
rows; the first one needs the tokens, the last one the labels.

Rules kept: every weight of the model lies in exactly one stage, which is compared before the first
step; the loss is divided by the tokens of the whole step, as without a pipeline; a checkpoint holds
the whole model, so that the number of stages may be another one after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, pad

from trainer.config import RequestError
from trainer.parallel.layout import Layout
from trainer.parallel.sequence import IGNORED
from trainer.parallel.split import gathered, whole


class Elsewhere(nn.Module):  # type: ignore[misc]
    """A layer that another process has."""

    def forward(self, given: Any, *_: Any, **__: Any) -> Any:
        """Return what it was given."""
        return given


class Stage(nn.Module):  # type: ignore[misc]
    """This process's part of a causal language model, as a pipeline calls it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, given: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Return hidden states, or the logits where this is the last stage."""
        name = "inputs_embeds" if given.is_floating_point() else "input_ids"
        hidden: torch.Tensor = self.model.model(
            **{name: given}, position_ids=position_ids, use_cache=False
        ).last_hidden_state
        logits: torch.Tensor = self.model.lm_head(hidden)
        return logits


@dataclass(slots=True)
class Pipeline:
    """The stage of this process and the micro-batches of the step it is at."""

    stage: Stage
    rank: int
    size: int
    layers: range
    waiting: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def is_last(self) -> bool:
        """Whether the loss is computed here."""
        return self.rank == self.size - 1

    def run(self, tokens: Any) -> torch.Tensor:
        """Run all waiting micro-batches forward and backward; return the loss of the step.

        ``tokens``: how many have a label in the whole step.  Every process must call this.
        """
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        device = next(self.stage.parameters()).device
        rows = _joined(self.waiting)
        rows = {name: each.to(device) for name, each in rows.items()}
        count = len(self.waiting)
        self.waiting.clear()
        shape = (rows["input_ids"].shape[0] // count, rows["input_ids"].shape[1])
        takes, gives = self._examples(shape)

        def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            loss: torch.Tensor = cross_entropy(
                logits.float().flatten(0, 1),
                labels.flatten(),
                ignore_index=IGNORED,
                reduction="sum",
            )
            return loss / tokens

        schedule = Schedule1F1B(
            PipelineStage(
                self.stage, self.rank, self.size, device, input_args=takes, output_args=gives
            ),
            n_microbatches=count,
            loss_fn=loss_of,
            scale_grads=False,
        )
        losses: list[torch.Tensor] = []
        first = (rows["input_ids"],) if self.rank == 0 else ()
        last = {"target": rows["labels"], "losses": losses} if self.is_last else {}
        schedule.step(*first, position_ids=rows["position_ids"], return_outputs=False, **last)
        loss = torch.stack(losses).sum().detach() if losses else torch.zeros((), device=device)
        dist.broadcast(loss, src=self.size - 1)
        return loss

    def _examples(self, shape: tuple[int, int]) -> tuple[Any, Any]:
        """Return what this stage takes and gives for one micro-batch, without data."""
        config = self.stage.model.config
        hidden = torch.empty(
            *shape, config.hidden_size, dtype=self.stage.model.dtype, device="meta"
        ).requires_grad_()
        ids = torch.empty(shape, dtype=torch.int64, device="meta")
        logits = torch.empty(
            *shape, config.vocab_size, dtype=self.stage.model.dtype, device="meta"
        ).requires_grad_()
        return (ids if self.rank == 0 else hidden), (logits if self.is_last else hidden)


def _joined(batches: list[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """Return micro-batches as one, all rows as long as the longest, labels shifted.

    What a row is filled with comes after its last token, which no token sees.
    """
    longest = max(batch["input_ids"].shape[1] for batch in batches)
    parts: dict[str, list[torch.Tensor]] = {"input_ids": [], "position_ids": [], "labels": []}
    for batch in batches:
        ids = batch["input_ids"]
        missing = longest - ids.shape[1]
        positions = torch.arange(longest, device=ids.device).expand(ids.shape[0], -1)
        shifted = pad(batch["labels"][:, 1:], (0, 1 + missing), value=IGNORED)
        parts["input_ids"].append(pad(ids, (0, missing)))
        parts["position_ids"].append(positions)
        parts["labels"].append(shifted)
    return {name: torch.cat(each) for name, each in parts.items()}


def start(model: Any, adapter: Any, *, size: int) -> tuple[Any, Pipeline]:
    """Return the model, with its new adapter if any, cut to this process's stage."""
    if adapter is not None:  # before the cut, so that it starts as it would in one process
        from peft import get_peft_model

        model = get_peft_model(model, adapter)
    return model, install(model, size=size)


def install(model: Any, *, size: int) -> Pipeline:
    """Leave in ``model`` what this process's stage has of it; every process must call this.

    Raises RequestError where the model can not be cut.
    """
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    _check(inner, size)
    base, rank = inner.model, dist.get_rank()
    count = len(base.layers)
    mine = range(rank * count // size, (rank + 1) * count // size)
    for number in range(count):
        if number not in mine:
            base.layers[number] = Elsewhere()
    if rank > 0:
        base.embed_tokens = Elsewhere()
    if rank < size - 1:
        base.norm = Elsewhere()
        inner.lm_head = Elsewhere()
    return Pipeline(stage=Stage(inner), rank=rank, size=size, layers=mine)


def _check(model: Any, size: int) -> None:
    config = model.config
    key = "train.pipeline_model_parallel_size"
    base: Any = getattr(model, "model", None)
    parts = ("layers", "embed_tokens", "norm")
    if not all(hasattr(base, part) for part in parts) or not hasattr(model, "lm_head"):
        raise RequestError(
            f"{key}: {config.model_type} models are not built of tokens, layers, a norm and a "
            "head, so it is not known where to cut them; nearest: fsdp: fsdp2"
        )
    if getattr(config, "tie_word_embeddings", False):
        raise RequestError(
            f"{key}: this model reads and writes words with the same weights, which would lie in "
            "two stages; nearest: fsdp: fsdp2"
        )
    if getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None):
        raise RequestError(
            f"{key}: models with experts are not cut into stages; nearest: fsdp: fsdp2"
        )
    if len(base.layers) < size:
        raise RequestError(f"{key}: {len(base.layers)} layers can not be dealt to {size} stages")


def check_model(pipeline: Pipeline, layout: Layout) -> str:
    """Return how the model is cut; raise RequestError unless each weight is in one stage."""
    found: list[Any] = [None] * pipeline.size
    mine = (list(pipeline.layers), [name for name, _ in pipeline.stage.named_parameters()])
    dist.all_gather_object(found, mine)
    layers = [number for numbers, _ in found for number in numbers]
    names = [name for _, each in found for name in each]
    is_whole = layers == list(range(pipeline.stage.model.config.num_hidden_layers))
    if not is_whole or len(set(names)) != len(names) or pipeline.size != layout.pipeline:
        raise RequestError(
            f"asked for {layout.pipeline} stages, but {pipeline.size} have the layers {layers}"
        )
    sizes = "+".join(str(len(numbers)) for numbers, _ in found)
    return f"pipeline 1F1B, {sizes} layers"


def whole_weights(model: Any) -> dict[str, Any]:
    """Return the weights of all stages, in rank 0; every process must call this."""
    return gathered({name: whole(each) for name, each in model.state_dict().items()})


def complete_adapter(folder: Path, weights: Mapping[str, Any]) -> None:
    """Write all of an adapter into ``folder``; peft leaves out what is not in this stage."""
    path = folder / "adapter_model.safetensors"
    if not path.is_file():
        return
    from safetensors.torch import save_file

    adapter = {
        name.replace(".default.", "."): each.contiguous()
        for name, each in weights.items()
        if ".lora_" in name
    }
    save_file(adapter, path, metadata={"format": "pt"})


def clip(parameters: list[Any], largest: float) -> torch.Tensor:
    """Scale this process's gradients so that all stages' together have at most this norm.

    Returns the norm before; every process must call this.
    """
    gradients = [each.grad for each in parameters if each.grad is not None]
    squares = torch.stack([each.detach().float().square().sum() for each in gradients]).sum()
    dist.all_reduce(squares)
    norm = squares.sqrt()
    if largest > 0:
        scale = (largest / (norm + 1e-6)).clamp(max=1.0)
        for each in gradients:
            each.mul_(scale)
    return norm
