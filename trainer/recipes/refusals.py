"""What a task can not go with, as rows of ``trainer.rules``: the arguments of its ``Rule``.

Plain data that loads nothing but the standard library.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from trainer.recipes.keys import LOSSES

SEARCHING = ["embedding", "reranker"]


def _losses() -> Iterator[Mapping[str, Any]]:
    for task, losses in LOSSES.items():
        yield {
            "id": f"loss_of_{task}",
            "when": {"task": {"in": [task]}, "loss_type": {"set": True, "not_in": list(losses)}},
            "refuse": "loss_type",
            "reason": f"it is not a loss of task: {task}",
            "nearest": f"loss_type: {' or '.join(losses)}",
        }


REFUSALS: tuple[Mapping[str, Any], ...] = (
    *_losses(),
    {
        "id": "smoothing_with_other_loss",
        "when": {"label_smoothing": {"above": 0}, "loss_type": {"in": ["hinge", "ipo"]}},
        "refuse": "label_smoothing",
        "reason": "label smoothing is defined for the sigmoid loss only, it would be ignored",
        "nearest": "loss_type: sigmoid, or label_smoothing: 0",
    },
    {
        "id": "temperature_with_other_loss",
        "when": {"infonce_temperature": {"set": True}, "loss_type": {"in": ["cosine_similarity"]}},
        "refuse": "infonce_temperature",
        "reason": "only the infonce loss has a temperature, it would be ignored",
        "nearest": "loss_type: infonce, or remove infonce_temperature",
    },
    {
        "id": "gptq_of_another_end",
        "when": {"quant_method": {"in": ["gptq"]}, "task": {"in": [*SEARCHING, "reward"]}},
        "refuse": "quant_method",
        "reason": "GPTQ weights are read into a language model that ends in a word, and the model "
        "of this task ends otherwise",
        "nearest": "quant_method: bnb, which quantises any model while it is loaded",
    },
    {
        "id": "dpo_without_a_hold",
        "when": {"task": {"in": ["dpo"]}, "beta": {"in": [0, 0.0]}},
        "refuse": "beta",
        "reason": "with beta: 0 the preference loss does not depend on the model",
        "nearest": "beta: 0.1",
    },
    {
        "id": "grpo_without_a_reward",
        "when": {
            "task": {"in": ["grpo"]},
            "reward_funcs": {"set": False},
            "reward_model": {"set": False},
        },
        "refuse": "reward_funcs",
        "reason": "grpo needs something that scores its answers",
        "nearest": "reward_funcs: [overlap], or reward_model",
    },
    {
        "id": "grpo_cuts_nothing",
        "when": {"task": {"in": ["grpo"]}, "truncation_strategy": {"not_in": ["delete"]}},
        "refuse": "truncation_strategy",
        "reason": "half a question is another question; longer ones are left out and counted",
        "nearest": "truncation_strategy: delete",
    },
    {
        "id": "split_outside_pretrain",
        "when": {"truncation_strategy": {"in": ["split"]}, "task": {"not_in": ["pretrain"]}},
        "refuse": "truncation_strategy",
        "reason": "only texts without a question can be cut into pieces that each make sense",
        "nearest": "truncation_strategy: delete or right",
    },
    {
        "id": "reward_cuts_its_end",
        "when": {"truncation_strategy": {"in": ["left"]}, "task": {"in": ["reward"]}},
        "refuse": "truncation_strategy",
        "reason": "an answer is scored with its question, which a cut on the left would take",
        "nearest": "truncation_strategy: delete or right",
    },
    {
        "id": "searches_are_cut_on_the_right",
        "when": {"truncation_strategy": {"in": ["left"]}, "task": {"in": SEARCHING}},
        "refuse": "truncation_strategy",
        "reason": "sentence-transformers cuts texts on the right",
        "nearest": "truncation_strategy: right or delete",
    },
    {
        "id": "evaluating_generated_answers",
        "when": {"task": {"in": ["grpo"]}, "val_dataset": {"set": True}},
        "refuse": "val_dataset",
        "reason": "grpo reports the mean reward of fresh answers at each step; nothing is held out",
        "nearest": "remove val_dataset",
    },
    {
        "id": "holding_out_questions",
        "when": {"task": {"in": ["grpo"]}, "split_dataset_ratio": {"above": 0}},
        "refuse": "split_dataset_ratio",
        "reason": "grpo reports the mean reward of fresh answers at each step; nothing is held out",
        "nearest": "remove split_dataset_ratio",
    },
)
