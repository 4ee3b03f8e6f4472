"""Sequence parallelism: the processes of a group share each row, a stretch of tokens each.

Everything in a model but attention looks at one token at a time, so only attention talks:

``ulysses``     heads are exchanged for tokens and back (Jacobs et al. 2023): each process computes
                some heads over the whole row
``all_gather``  keys and values of the whole row are gathered, each process keeps its own queries
                (Llama 3's way); any number of heads, more memory

Rules kept: samples of a packed row stay apart, because attention runs over one sample after another
and never over a border; every process of a group has the same rows; what this computes is compared
with the model's own attention before step 0, so that a model with another kind of attention (soft
caps, windows, sinks) is refused instead of trained on something else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.functional import pad, scaled_dot_product_attention

from trainer.config import RequestError
from trainer.isolation import DRIFT, DRIFT_SHARE, Read, reader

IGNORED = -100
QUERIES = 1024
"""Queries that attend at once with all_gather: bounds the mask, which is queries x keys."""
BORDERS = "borders"


@dataclass(slots=True)
class Group:
    """The processes that share rows, and the row they are at."""

    processes: Any
    rank: int
    size: int
    borders: list[int] = field(default_factory=list)
    """Where samples of the whole row begin, and its length."""


_current: list[Group] = []
"""Attention functions are called by the library, which passes them nothing of ours."""


def join(size: int) -> Group:
    """Return this process's group of ``size`` neighbours; every process must call this."""
    mine = None
    for first in range(0, dist.get_world_size(), size):
        members = list(range(first, first + size))
        group = dist.new_group(members)  # all processes make all groups, in the same order
        if dist.get_rank() in members:
            mine = Group(processes=group, rank=dist.get_rank() - first, size=size)
    assert mine is not None
    _current[:] = [mine]
    return mine


class Exchange(torch.autograd.Function):  # type: ignore[misc]
    """Cut dimension ``cut`` among the processes and join dimension ``join``; back is its mirror."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, cut: int, joined: int) -> torch.Tensor:
        """Return the joined parts."""
        group = _current[0]
        ctx.dimensions = (cut, joined)
        given = torch.stack([part.contiguous() for part in tensor.chunk(group.size, cut)])
        taken = torch.empty_like(given)
        dist.all_to_all_single(taken, given, group=group.processes)
        return torch.cat(list(taken), joined)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Return the gradient of the parts this process gave."""
        cut, joined = ctx.dimensions
        return Exchange.apply(gradient, joined, cut), None, None


class Gather(torch.autograd.Function):  # type: ignore[misc]
    """Join the processes' tensors along a dimension; back, sum the gradients of one's own part."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, dimension: int) -> torch.Tensor:
        """Return the whole."""
        group = _current[0]
        ctx.dimension = dimension
        parts = [torch.empty_like(tensor) for _ in range(group.size)]
        dist.all_gather(parts, tensor.contiguous(), group=group.processes)
        return torch.cat(parts, dimension)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient of this process's part."""
        group = _current[0]
        whole = gradient.contiguous()
        dist.all_reduce(whole, group=group.processes)
        return whole.chunk(group.size, ctx.dimension)[group.rank].contiguous(), None


def ulysses(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,  # noqa: ARG001  (borders say what it would)
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attend over whole samples with this process's share of the heads."""
    group = _current[0]
    if key.shape[1] % group.size:  # fewer heads of keys than processes
        repeats = query.shape[1] // key.shape[1]
        key, value = (each.repeat_interleave(repeats, 1) for each in (key, value))
    query, key, value = (Exchange.apply(each, 1, 2) for each in (query, key, value))
    grouped = query.shape[1] != key.shape[1]
    parts = [
        scaled_dot_product_attention(
            query[:, :, start:end],
            key[:, :, start:end],
            value[:, :, start:end],
            is_causal=True,
            scale=scaling,
            dropout_p=dropout if module.training else 0.0,
            enable_gqa=grouped,
        )
        for start, end in pairwise(group.borders)
    ]
    out: torch.Tensor = Exchange.apply(torch.cat(parts, 2), 2, 1)
    return out.transpose(1, 2).contiguous(), None


def all_gather(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,  # noqa: ARG001  (borders say what it would)
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attend from this process's tokens to all that come before them in their samples."""
    group = _current[0]
    key, value = Gather.apply(key, 2), Gather.apply(value, 2)
    first = group.rank * query.shape[2]
    last = first + query.shape[2]
    parts = []
    for start, end in pairwise(group.borders):
        for low in range(max(start, first), min(end, last), QUERIES):
            high = min(low + QUERIES, end, last)
            parts.append(
                scaled_dot_product_attention(
                    query[:, :, low - first : high - first],
                    key[:, :, start:high],
                    value[:, :, start:high],
                    attn_mask=_earlier(low - start, high - low, query.device),
                    scale=scaling,
                    dropout_p=dropout if module.training else 0.0,
                    enable_gqa=query.shape[1] != key.shape[1],
                )
            )
    return torch.cat(parts, 2).transpose(1, 2).contiguous(), None


def _earlier(before: int, count: int, device: Any) -> torch.Tensor:
    """Return which keys the next ``count`` tokens see, ``before`` of them already there."""
    keys = torch.arange(before + count, device=device)
    return keys[None] <= keys[before:, None]


ATTENTIONS = {"ulysses": ulysses, "all_gather": all_gather}


def install(model: Any, *, size: int, attention: str) -> Group:
    """Make ``model`` share its rows among ``size`` processes; every process must call this.

    Raises RequestError where the model cannot, or where the result is not the model's own.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    _check(model.config.get_text_config(), size=size, attention=attention)
    group = join(size)
    own = model.config.get_text_config()._attn_implementation
    name = f"sequence_{attention}"
    AttentionInterface.register(name, ATTENTIONS[attention])
    AttentionMaskInterface.register(name, lambda *_, **__: None)
    plain = _try(reader(model), model)
    model.set_attn_implementation(name)
    found = _try(shared_reader(model), model)
    drift = float((found - plain).abs().max())
    allowed = max(DRIFT, DRIFT_SHARE * float(plain.abs().max())) if _is_16_bit(model) else DRIFT
    if not drift <= allowed:
        raise RequestError(
            f"train.sequence_parallel_size: on this {model.config.model_type} model {attention} "
            f"differs from its own attention ({own}) by {drift:.2g} in log probabilities; nearest: "
            "sequence_parallel_size: 1"
        )
    return group


def _is_16_bit(model: Any) -> bool:
    return bool(next(model.parameters()).element_size() == 2)


def _check(config: Any, *, size: int, attention: str) -> None:
    heads = getattr(config, "num_attention_heads", 0)
    if attention == "ulysses" and heads % size:
        raise RequestError(
            f"train.sequence_parallel_size: {heads} attention heads can not be dealt to {size} "
            "processes; nearest: sequence_parallel_attention: all_gather"
        )
    kinds = set(getattr(config, "layer_types", None) or ("full_attention",))
    window = getattr(config, "sliding_window", None)
    if kinds != {"full_attention"} or (window and getattr(config, "use_sliding_window", True)):
        raise RequestError(
            "train.sequence_parallel_size: this model does not look at the whole of a sample in "
            f"every layer ({', '.join(sorted(kinds))}); nearest: sequence_parallel_size: 1"
        )


def _try(read: Read, model: Any) -> torch.Tensor:
    """Return log probabilities of a row of three samples."""
    device = next(model.parameters()).device
    vocabulary = model.config.get_text_config().vocab_size
    ids = torch.randint(vocabulary, (29,), generator=torch.Generator().manual_seed(4))
    positions = torch.cat([torch.arange(length) for length in (11, 5, 13)])
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return read(ids.to(device), positions.to(device)).log_softmax(-1)
    finally:
        model.train(was_training)


def shared_reader(model: Any) -> Read:
    """Return how a row is read by all processes together; each gets the logits of all of it."""

    def read(ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        group = _current[0]
        batch = {"input_ids": ids[None], "position_ids": positions[None], "labels": ids[None]}
        mine = enter(split(batch, rank=group.rank, size=group.size))
        logits = model(
            input_ids=mine["input_ids"], position_ids=mine["position_ids"], use_cache=False
        ).logits
        whole: torch.Tensor = Gather.apply(logits.detach(), 1)[0, : len(ids)].float()
        return whole

    return read


def split(batch: Mapping[str, torch.Tensor], *, rank: int, size: int) -> dict[str, Any]:
    """Return one process's stretch of a row without padding, and the borders of its samples.

    Labels come shifted, because the next token may lie in the next process's stretch.  A row that
    does not divide gets a few tokens more, a sample of their own without a label.
    """
    ids, positions, labels = (batch[name] for name in ("input_ids", "position_ids", "labels"))
    if ids.shape[0] != 1:
        raise ValueError(f"a batch of one row is shared, not of {ids.shape[0]}")
    length = ids.shape[1]
    borders = [*(positions[0] == 0).nonzero().flatten().tolist(), length]
    extra = -length % size
    if extra:
        ids = pad(ids, (0, extra))
        labels = pad(labels, (0, extra), value=IGNORED)
        positions = torch.cat([positions, torch.arange(extra, device=ids.device)[None]], 1)
        borders.append(length + extra)
    shifted = pad(labels[:, 1:], (0, 1), value=IGNORED)
    share = ids.shape[1] // size
    mine = slice(rank * share, (rank + 1) * share)
    return {
        "input_ids": ids[:, mine],
        "position_ids": positions[:, mine],
        "labels": labels[:, mine],
        "shift_labels": shifted[:, mine].contiguous(),
        BORDERS: torch.tensor(borders),
    }


def enter(batch: dict[str, Any]) -> dict[str, Any]:
    """Return the batch without its borders, which the attention of this step will keep."""
    _current[0].borders = batch.pop(BORDERS).tolist()
    return batch


def collator(group: Group, *, pad_token: int) -> "Collator":
    """Return the collator of a process of this group."""
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    return Collator(
        DataCollatorForLanguageModeling(pad_token_id=pad_token, padding_free=True),
        rank=group.rank,
        size=group.size,
    )


@dataclass(frozen=True, slots=True)
class Collator:
    """Makes one row of some samples and returns this process's stretch of it."""

    inner: Any
    """TRL's collator, padding-free."""
    rank: int
    size: int

    def __call__(self, samples: list[Any]) -> dict[str, Any]:
        """Return the stretch."""
        return split(self.inner(samples), rank=self.rank, size=self.size)
