"""Group relative policy optimisation: answers are generated, scored and compared in groups.

One optimizer step takes ``global_batch / num_generations`` questions, generates all their answers
with the weights of that moment, and learns from them once.  So a step depends on nothing that a
checkpoint does not hold, and a resume on the same number of processes is exact.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.utils.data import Sampler
from trl import GRPOConfig, GRPOTrainer

from trainer import models
from trainer.config import Request, RequestError
from trainer.loop import Seams
from trainer.recipes.recipe import Materials, Recipe, keep_frozen_copy_out_of_files
from trainer.rewards import scorer
from trainer.rows import question_row
from trainer.sampling import StreamSampler
from trainer.tokens import encode_questions

if TYPE_CHECKING:
    from trainer.loop import Run


class AnswerTrainer(Seams, GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer with our seams."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        keep_frozen_copy_out_of_files(self.model)

    def _get_train_sampler(self, dataset: Any = None) -> Sampler[int]:  # noqa: ARG002
        run, request = self.run, self.run.request
        answers = request.train["num_generations"]
        questions = request.global_batch // answers
        return QuestionSampler(
            StreamSampler(
                samples=run.samples // answers,
                length=run.total_steps * questions,
                seed=request.seed,
            ),
            questions=questions,
            answers=answers,
            passes=request.accumulation,
        )

    def tokens_of(self, batch: Any) -> int:  # noqa: ARG002
        """Return 0: a batch is questions; their tokens are counted with the answers."""
        return 0

    def _places(self, batch: Any) -> int:  # noqa: ARG002
        return 0

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        made = super()._generate_and_score_completions(inputs)
        masks = (made["prompt_mask"], made["completion_mask"])
        self.run.facts.tokens += sum(int(mask.sum()) for mask in masks)
        self.run.facts.places += sum(int(mask.numel()) for mask in masks)
        return made


class QuestionSampler(Sampler[int]):  # type: ignore[misc]
    """Yields for each step its questions, each once an answer, and all of it once a pass.

    The library generates at a step's first pass and drops what the others read.
    """

    def __init__(self, stream: StreamSampler, *, questions: int, answers: int, passes: int) -> None:
        self.stream = stream
        self.questions = questions
        self.answers = answers
        self.passes = passes

    def __len__(self) -> int:
        return len(self.stream) * self.answers * self.passes

    def __iter__(self) -> Iterator[int]:
        step: list[int] = []
        for question in self.stream:
            step += [question] * self.answers
            if len(step) == self.questions * self.answers:
                for _ in range(self.passes):
                    yield from step
                step = []


def check(request: Request) -> None:
    """Raise RequestError where groups do not fill a step, or weights do not match rewards."""
    train = request.train
    if request.global_batch % train["num_generations"]:
        raise RequestError(
            f"train.num_generations: {train['num_generations']} does not divide the global batch "
            f"of {request.global_batch} answers; nearest: {_divisor(request)}"
        )
    weights, rewards = train["reward_weights"], _rewards(train)
    if weights is not None and len(weights) != len(rewards):
        raise RequestError(
            f"train.reward_weights: {len(weights)} weights for {len(rewards)} rewards "
            f"({', '.join(rewards)})"
        )


def _divisor(request: Request) -> str:
    asked, batch = request.train["num_generations"], request.global_batch
    fitting = [size for size in range(2, batch + 1) if batch % size == 0]
    if not fitting:
        return "a larger per_device_train_batch_size or gradient_accumulation_steps"
    return f"num_generations: {min(fitting, key=lambda size: abs(size - asked))}"


def _rewards(train: Mapping[str, Any]) -> list[str]:
    judged = [] if train["reward_model"] is None else [train["reward_model"]]
    return [*(train["reward_funcs"] or ()), *judged]


def build(materials: Materials, *, run: "Run") -> AnswerTrainer:
    """Return the trainer of this task."""
    train, request = materials.train, run.request
    functions: list[Any] = [scorer(name) for name in train["reward_funcs"] or ()]
    tokenizers: list[Any] = [None] * len(functions)
    if train["reward_model"] is not None:
        model, tokenizer = judge(train["reward_model"], root=request.data_root)
        functions.append(model)
        tokenizers.append(tokenizer)
    arguments = GRPOConfig(
        **materials.arguments,
        num_generations=train["num_generations"],
        steps_per_generation=request.accumulation,
        num_iterations=1,
        max_completion_length=train["max_completion_length"],
        temperature=train["temperature"],
        top_p=train["top_p"],
        beta=train["beta"],
        epsilon=train["epsilon"],
        loss_type=train["loss_type"],
        reward_weights=train["reward_weights"],
    )
    return AnswerTrainer(
        run=run,
        model=materials.model,
        peft_config=materials.adapter,
        reward_funcs=functions,
        reward_processing_classes=tokenizers,
        args=arguments,
        train_dataset=materials.dataset,
        processing_class=materials.tokenizer,
        callbacks=materials.callbacks,
    )


def judge(name: str, *, root: Path) -> tuple[Any, Any]:
    """Return a reward model and its tokenizer; an adapter is merged into its base.

    Raises RequestError where the model does not end in one number.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from trainer.quantised.adapters import base_of, with_saved_adapter
    from trainer.tuners import ADAPTER

    folder = root / Path(name).expanduser()
    has_adapter = (folder / ADAPTER).is_file()
    location = base_of(folder) if has_adapter else models.resolve(name, base=root)
    model = AutoModelForSequenceClassification.from_pretrained(
        location, trust_remote_code=False, **({"num_labels": 1} if has_adapter else {})
    )
    if model.config.num_labels != 1:
        raise RequestError(
            f"train.reward_model: {name} gives {model.config.num_labels} numbers for a text, not "
            "one; take a model of task: reward"
        )
    if has_adapter:
        model = with_saved_adapter(model, folder, trains=False).merge_and_unload()
    tokenizer = AutoTokenizer.from_pretrained(
        folder if has_adapter else location, trust_remote_code=False
    )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    return model.eval(), tokenizer


def answers(train: Mapping[str, Any]) -> int:
    """Return the answers to one question, each of them a sample of the global batch."""
    return int(train["num_generations"])


RECIPE = Recipe(
    encode=encode_questions, parse=question_row, build=build, repeats=answers, check=check
)
