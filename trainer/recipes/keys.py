"""The ``train:`` keys that belong to single tasks, and what an absent one means to each.

Names and defaults are ms-swift 4's where it has the name.  Loads nothing but the standard library.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from trainer.key import Key

TASKS: Mapping[str, str] = MappingProxyType(
    {
        "pretrain": "texts to continue",
        "sft": "answers to imitate",
        "dpo": "preference pairs",
        "grpo": "questions whose generated answers are scored",
        "embedding": "searches, for vectors of texts",
        "reranker": "searches, for a score of query and text together",
        "reward": "preference pairs, for a score of an answer",
    }
)
"""Every task, and what it learns from."""

TEXTS = {"task": ("pretrain", "sft")}
TOKENISED = {"task": ("pretrain", "sft", "dpo", "reward")}
"""Their samples are tokens before training begins; the others' texts are tokenised as it runs."""
CONVERSING = {"task": ("sft", "dpo", "grpo", "reward")}
DPO = {"task": ("dpo",)}
GRPO = {"task": ("grpo",)}
EMBEDDING = {"task": ("embedding",)}
REWARD = {"task": ("reward",)}
LOSSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "dpo": ("sigmoid", "hinge", "ipo"),
        "grpo": ("grpo", "bnpo", "dr_grpo", "dapo"),
        "embedding": ("infonce", "cosine_similarity"),
        "reranker": ("pointwise_reranker", "listwise_reranker"),
    }
)
"""What ``loss_type`` may be for each task that has a choice; the first is the default."""
BY_TASK: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "beta": {"dpo": 0.1, "grpo": 0.04},
        "loss_type": {task: losses[0] for task, losses in LOSSES.items()},
    }
)
"""Keys whose absence means something else to each task."""
REWARD_FUNCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "accuracy": "1 where the answer, or what stands between <answer> and </answer>, is the "
        "reference, numbers compared as numbers",
        "overlap": "how many words answer and reference share (F1)",
        "format": "1 where the answer is <think>...</think><answer>...</answer> and nothing else",
        "brevity": "1 for an answer of at most 20 words, falling to 0 at 100",
        "variety": "the share of the answer's three-word runs that are not repeated",
    }
)
"""Every value of ``reward_funcs``: a name in ``trainer.rewards``, and what it gives, 0 to 1."""

TASK_KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "beta": Key(
            type="number",
            minimum=0,
            only={"task": ("dpo", "grpo")},
            text="How strongly the trained model is held to the reference. Default: 0.1 with dpo, "
            "0.04 with grpo; 0 with grpo: not at all, and no reference is kept.",
        ),
        "loss_type": Key(
            type="string",
            choices=tuple(loss for losses in LOSSES.values() for loss in losses),
            only={"task": tuple(LOSSES)},
            text="Which loss. Default: the first of its task: "
            + "; ".join(f"{task}: {', '.join(losses)}" for task, losses in LOSSES.items())
            + ".",
        ),
        "label_smoothing": Key(
            type="number",
            default=0.0,
            minimum=0,
            below=0.5,
            only=DPO,
            text="Assumed share of pairs with the two answers swapped.",
        ),
        "pooling": Key(
            type="string",
            choices=("mean", "lasttoken", "cls"),
            only=EMBEDDING,
            text="How the vectors of a text's tokens become one. Default: the model's own where it "
            "says so, else lasttoken for language models and mean for encoders.",
        ),
        "infonce_temperature": Key(
            type="number",
            default=0.05,
            above=0,
            only=EMBEDDING,
            text="Divides the cosines in the infonce loss (ms-swift: 0.1).",
        ),
        "center_rewards_coefficient": Key(
            type="number",
            default=0.0,
            minimum=0,
            only=REWARD,
            text="Weight of a term that keeps the mean of the rewards near 0; 0.01 is usual.",
        ),
        "reward_funcs": Key(
            type="strings",
            choices=tuple(REWARD_FUNCTIONS),
            only=GRPO,
            text="What an answer is scored by: "
            + "; ".join(f"{name}: {text}" for name, text in REWARD_FUNCTIONS.items())
            + ".",
        ),
        "reward_model": Key(
            type="string",
            only=GRPO,
            text="A model of task: reward that scores answers too: a folder or any name that model "
            "takes.",
        ),
        "reward_weights": Key(
            type="numbers",
            only=GRPO,
            text="Weight of each of reward_funcs, then of reward_model. Default: 1 each.",
        ),
        "num_generations": Key(
            type="integer",
            default=8,
            minimum=2,
            only=GRPO,
            text="Answers to each question, compared with each other; divides the global batch, "
            "which counts answers.",
        ),
        "max_completion_length": Key(
            type="integer", default=512, minimum=1, only=GRPO, text="Tokens an answer may have."
        ),
        "temperature": Key(
            type="number",
            default=1.0,
            above=0,
            only=GRPO,
            text="Temperature that answers are drawn at (ms-swift: 0.9).",
        ),
        "top_p": Key(
            type="number",
            default=1.0,
            above=0,
            maximum=1,
            only=GRPO,
            text="Share of the likeliest tokens that answers are drawn from (ms-swift: 0.9).",
        ),
        "epsilon": Key(
            type="number",
            default=0.2,
            above=0,
            below=1,
            only=GRPO,
            text="How far one step may move the probability of an answer before it is clipped.",
        ),
    }
)
