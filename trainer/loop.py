"""The seams between the library's training loop and this trainer.

``Seams`` is mixed in front of a TRL trainer.  The loop stays the library's; replaced are the
order of samples, where and how a checkpoint is written, what a gradient that is not finite does,
and how an evaluation gives way to a stop.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, set_seed

from trainer import processes
from trainer.callbacks.checkpoint import Saver
from trainer.config import Request
from trainer.lengths import of_samples
from trainer.optimizers import building
from trainer.packing import packing_length
from trainer.parallel import pipeline, plan, sequence, split
from trainer.parallel.pipeline import Pipeline
from trainer.parallel.sequence import Group
from trainer.quantised.adapters import widen_adapters
from trainer.record import Record
from trainer.samples import Prepared
from trainer.sampling import SharedEvaluation, StreamSampler
from trainer.snapshot import Deferring
from trainer.stop import StopFlag
from trainer.walks import shorten


@dataclass(slots=True, kw_only=True)
class StepFacts:
    """What the callbacks need of the step that is running, in this process."""

    tokens: int = 0
    """Tokens read, padding not counted."""
    places: int = 0
    """Tokens there was room for: padding, or the empty end of a packed row, counted."""
    data_wait_s: float = 0.0
    losses: list[torch.Tensor] = field(default_factory=list)
    """Of each forward pass; read only at the step's end, so that a GPU is not waited for."""
    gradient_is_finite: bool = True

    def are_finite(self) -> bool:
        """Return whether every loss and the gradient of this step were numbers."""
        return self.gradient_is_finite and all(bool(torch.isfinite(loss)) for loss in self.losses)

    def begin_step(self) -> None:
        """Forget the losses of the step that has ended."""
        self.losses.clear()
        self.gradient_is_finite = True


@dataclass(slots=True, kw_only=True)
class Run:
    """One training in the making, shared by loop and callbacks."""

    request: Request
    record: Record
    stop: StopFlag
    saver: Saver
    total_steps: int
    samples: int
    data: Prepared
    facts: StepFacts = field(default_factory=StepFacts)
    group: Group | None = None
    """The processes that share this one's rows; None where it reads its own."""
    pipeline: Pipeline | None = None
    """This process's stage; None where it has all layers."""
    outcome: str | None = None
    """Set where training ends before its last step: stopped, diverged or checkpoint_failed."""
    last_finite_loss: float | None = None

    def __post_init__(self) -> None:
        self.record.progress.total_steps = self.total_steps


class EvaluationInterruptedError(Exception):
    """A stop was asked for in the middle of an evaluation."""


class Seams(Deferring):
    """See the module."""

    run: Run
    optimizer: Any
    is_checked = False
    """Whether the wrapped model has been looked at."""

    def __init__(self, *args: Any, run: Run, **kwargs: Any) -> None:
        self.run = run
        super().__init__(*args, **kwargs)
        if run.group is not None:
            self.data_collator = sequence.collator(run.group, pad_token=self._pad_token())
        if run.request.layout.tensor > 1:
            split.start_adapters(self.model, run.request.seed)
        if run.pipeline is not None:  # do not copy this stage's weights to the others, as DDP would
            self.is_distributed_loading_by_transformers = True
        if run.request.train["quant_method"] is not None:
            widen_adapters(self.model)

    def create_accelerator_and_postprocess(self) -> None:
        """Start accelerate on the way that was asked for."""
        # after the arguments, which make accelerate's state anew
        plan.allow(self.run.request.layout, on_cpu=self.run.request.on_cpu)
        super().create_accelerator_and_postprocess()

    # samples

    def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset  # TRL would tokenise; trainer.tokens has

    def _get_train_sampler(self, train_dataset: Any = None) -> StreamSampler:  # noqa: ARG002
        request = self.run.request
        return StreamSampler(
            samples=self.run.samples,
            length=self.run.total_steps * request.global_batch,
            seed=request.seed,
            batch=request.per_device_batch,
            sharers=request.layout.sharers,
            step=request.global_batch,
            lengths=of_samples(self.train_dataset) if request.train["group_by_length"] else None,
        )

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        if self.run.group is None:
            return super()._get_eval_sampler(eval_dataset)
        return SharedEvaluation(
            samples=len(eval_dataset),
            batch=self.args.per_device_eval_batch_size,
            sharers=self.run.group.size,
        )

    def _pad_token(self) -> int:
        return int(self.processing_class.pad_token_id or 0)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> Any:
        """Return the batches of the next step; their tokens and the wait for them are noted."""
        started = time.perf_counter()
        batches, items = super().get_batch_samples(epoch_iterator, num_batches, device)
        self.run.facts.data_wait_s += time.perf_counter() - started
        self.run.facts.tokens += sum(self.tokens_of(batch) for batch in batches)
        self.run.facts.places += sum(self._places(batch) for batch in batches)
        if self.run.pipeline is not None:
            self.run.pipeline.waiting.extend(batches)
        return batches, items

    def _places(self, batch: dict[str, Any]) -> int:
        request = self.run.request
        if request.train["packing"]:  # its rows come as one, without their empty ends
            whole = packing_length(request.train) * request.per_device_batch
            return -(-whole // request.layout.sequence)
        return int(batch["input_ids"].numel())

    def tokens_of(self, batch: Any) -> int:
        """Return the tokens of one batch, padding not counted."""
        if "attention_mask" in batch:
            return int(batch["attention_mask"].sum())
        return int(batch["input_ids"].numel())

    def floating_point_ops(self, inputs: Any) -> int:  # noqa: ARG002
        """Return 0: the library's count walks over all weights in every forward pass."""
        return 0

    # steps

    def training_step(self, model: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Return the loss of one forward and backward pass, and note it."""
        if not self.is_checked:
            stage = self.run.pipeline
            layout = self.run.request.layout
            runs = (
                plan.check_model(model, layout)
                if stage is None
                else pipeline.check_model(stage, layout)
            )
            self.run.record.event("phase", phase="training", runs=runs)
            shorten(model)
            self.is_checked = True
        loss: torch.Tensor
        if self.run.pipeline is None:
            loss = super().training_step(model, *args, **kwargs)
        else:
            loss = self._pipeline_step(model, *args, **kwargs)
        self.run.facts.losses.append(loss)
        return loss

    def _pipeline_step(self, model: Any, inputs: Any, num_items_in_batch: Any) -> torch.Tensor:
        """Run all micro-batches when the first one's turn comes; the others' losses are zero."""
        stages = self.run.pipeline
        assert stages is not None
        model.train()
        if not stages.waiting:
            return torch.zeros((), device=inputs["input_ids"].device)
        # the library has counted the rows of every stage
        return stages.run(num_items_in_batch / stages.size)

    def _sync_replicated_trainable_parameters(self, model: Any) -> None:
        if self.run.pipeline is None:  # else every stage has weights of its own
            super()._sync_replicated_trainable_parameters(model)

    def create_optimizer(self, model: Any = None) -> Any:
        """Return this trainer's own optimizer where the job wants one, else the library's."""
        if self.optimizer is None:
            whole = self.model if model is None else model
            self.optimizer = building.build(
                whole,
                self.run.request.train,
                decaying=frozenset(self.get_decay_parameter_names(whole)),
                seed=self.run.request.seed,
            )
        return super().create_optimizer(model)

    def _clip_grad_norm(self, model: Any) -> Any:
        if self.run.pipeline is not None:
            return self._finite_or_forgotten(
                model, pipeline.clip(list(model.parameters()), self.args.max_grad_norm)
            )
        norm = building.norm_in_backward(self.optimizer)
        norm = super()._clip_grad_norm(model) if norm is None else norm
        return self._finite_or_forgotten(model, norm)

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        if grad_norm is None and self.run.pipeline is not None:
            grad_norm = pipeline.clip(list(model.parameters()), 0.0)
        return super()._get_grad_norm(model, grad_norm)

    def _finite_or_forgotten(self, model: Any, norm: Any) -> Any:
        if not bool(torch.isfinite(torch.as_tensor(norm))):
            # the weights must survive one bad batch: without gradients the optimizer does nothing
            self.run.facts.gradient_is_finite = False
            for parameter in model.parameters():
                parameter.grad = None
        return norm

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> None:
        super()._maybe_log_save_evaluate(*args, **kwargs)
        if self._globalstep_last_logged == self.state.global_step:
            # the library subtracts what it has logged, which leaves NaN once a loss was infinite
            self._tr_loss.zero_()

    # checkpoints

    def _get_output_dir(self, trial: Any) -> str:  # noqa: ARG002
        return str(self.run.saver.temporary)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        run = self.run
        # a save before leaving is waited for: the process ends with it
        self.deferred = [] if run.saver.puts_off and run.outcome is None else None
        saved = run.saver.save(
            step=self.state.global_step,
            write=lambda: self._write_checkpoint(model, trial),
            deferred=self.deferred,
        )
        self.deferred = None
        if run.outcome == "stopped" and not saved:
            run.outcome = "checkpoint_failed"

    def _write_checkpoint(self, model: Any, trial: Any) -> None:
        Trainer._save_checkpoint(self, model, trial)  # TRL's adds a model card
        if self.run.request.layout.copies > 1:
            folder = self.run.saver.temporary / f"checkpoint-{self.state.global_step}"
            split.save_states(
                self.optimizer,
                self.lr_scheduler,
                self.model,
                folder,
                stages=self.run.pipeline is not None,
                writes=self.args.should_save,
            )
            self._save_rng_state(str(folder))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if self.run.request.layout.copies > 1:
            split.load_weights(
                self.model, Path(resume_from_checkpoint), stages=self.run.pipeline is not None
            )
        else:
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None and self.run.request.layout.copies > 1:
            split.load_states(self.optimizer, self.lr_scheduler, self.model, Path(checkpoint))
        else:
            super()._load_optimizer_and_scheduler(checkpoint)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if self.run.pipeline is not None:
            state_dict = pipeline.whole_weights(self.model)
            if not self.args.should_save:
                return
        super()._save(output_dir, state_dict)
        if self.run.pipeline is not None and output_dir is not None:
            pipeline.complete_adapter(Path(output_dir), state_dict)

    def whole_weights(self) -> dict[str, Any]:
        """Return all weights, in rank 0; every process must call this."""
        weights: dict[str, Any] = self.accelerator.get_state_dict(self.model_wrapped)
        return weights

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        world_size, rank = self.args.world_size, self.args.process_index
        name = "rng_state.pth" if world_size == 1 else f"rng_state_{rank}.pth"
        if (Path(checkpoint) / name).is_file():
            super()._load_rng_state(checkpoint)
        else:  # saved by another number of processes: still the same on every resume
            set_seed(self.run.request.seed + 7919 * self.state.global_step + rank)

    # evaluation

    def prediction_step(self, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of one evaluation batch; raise where a stop has been asked for."""
        if processes.any_of(self.run.stop.is_set):
            raise EvaluationInterruptedError
        return super().prediction_step(*args, **kwargs)

    def _evaluate(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super()._evaluate(*args, **kwargs)
        except EvaluationInterruptedError:
            self.run.outcome = "stopped"
            self.control.should_evaluate = False
            self.control.should_save = True
            self.control.should_training_stop = True
            return {}
