"""The training of one attempt, in every process: load, train or resume, keep the weights.

Returns how it ended as the fields of the result; nothing here decides an exit code.
"""

import logging
import warnings
from functools import partial
from typing import Any

from trainer import models, processes, resume
from trainer.arguments import shared_arguments
from trainer.config import Request, RequestError
from trainer.record import Record
from trainer.stop import StopFlag


def train(request: Request, record: Record, stop: StopFlag) -> dict[str, Any]:
    """Train until the last step, a stop or a divergence; return outcome, reason, message...

    Raises RequestError for what only shows with data and model at hand.
    """
    record.enter("loading")
    if request.world_size > 1 or not stop.is_set:  # a single process may leave at once
        quieten()
        processes.meet(request)
        record.sample_gpus = processes.gpu_samples
    if request.train["report_to"] and record.rank == 0:
        from trainer.boards import board

        record.listener = board(request)
    start = resume.choose(request, record)
    if processes.any_of(stop.is_set):
        return _stopped(record, stop)
    run, trainer, metrics = _prepare(request, record, stop)
    if processes.any_of(stop.is_set):
        return _stopped(record, stop)
    record.enter("training")
    folder = None if start is None else str(start.folder)
    if start is not None and start.step >= run.total_steps:
        if request.layout.sharding is None:
            trainer._load_from_checkpoint(folder)
        else:  # weights are read into their parts, so the model must be split first
            trainer.train(resume_from_checkpoint=folder)
        return _succeeded(run, trainer, metrics, reason="already_complete")
    try:
        trainer.train(resume_from_checkpoint=folder)
    except Exception:
        run.saver.settle()  # what has been begun is good, whatever has happened since
        raise
    run.saver.settle()
    return _ended(run, trainer, metrics)


def _prepare(request: Request, record: Record, stop: StopFlag) -> tuple[Any, Any, Any]:
    """Return the run, its library trainer and its metrics, with model and data loaded."""
    from trainer.callbacks.checkpoint import Saver
    from trainer.loop import Run
    from trainer.optimizers import building
    from trainer.recipes.table import recipe_of
    from trainer.samples import prepare
    from trainer.sampling import total_steps

    location = models.resolve(request.train["model"], base=request.data_root)
    recipe = recipe_of(request, location)
    building.check(location, request)
    tokenizer = models.load_tokenizer(
        location, revision=request.train["model_revision"], converses=recipe.converses
    )
    prepared = prepare(recipe, request, tokenizer)
    for warning in prepared.warnings:
        record.warn(warning)
    samples = len(prepared.dataset) * recipe.repeats(request.train)
    total = total_steps(
        samples=samples,
        global_batch=request.global_batch,
        epochs=request.train["num_train_epochs"],
        max_steps=request.train["max_steps"],
    )
    run = Run(
        request=request,
        record=record,
        stop=stop,
        saver=Saver(request, record),
        total_steps=total,
        samples=samples,
        data=prepared,
    )
    trainer, metrics = _build(
        run,
        recipe,
        location=location,
        tokenizer=tokenizer,
        dataset=prepared.dataset,
        eval_dataset=prepared.eval_dataset,
    )
    return run, trainer, metrics


def quieten() -> None:
    """Leave standard error to this trainer's own words."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    import transformers
    from datasets.utils.logging import disable_progress_bar, set_verbosity_error

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    set_verbosity_error()
    disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=UserWarning, module="torch|peft|transformers")


def _build(run: Any, recipe: Any, *, location: str, eval_dataset: Any, **parts: Any) -> Any:
    from transformers import set_seed

    from trainer import tuners
    from trainer.callbacks.agreement import AgreementCallback
    from trainer.callbacks.metrics import MetricsCallback
    from trainer.callbacks.progress import ProgressCallback
    from trainer.optimizers import building
    from trainer.parallel import pipeline, plan, sequence
    from trainer.recipes.recipe import Materials

    request = run.request
    set_seed(request.seed)
    load = recipe.load or partial(tuners.start, kind=recipe.kind)
    model, adapter = load(location, train=request.train, root=request.data_root)
    building.prepare_model(model, request.train)
    if request.layout.sequence > 1:
        run.group = sequence.install(
            model,
            size=request.layout.sequence,
            attention=request.train["sequence_parallel_attention"],
        )
    if request.layout.pipeline > 1:
        model, run.pipeline = pipeline.start(model, adapter, size=request.layout.pipeline)
        adapter = None
    metrics = MetricsCallback(run)
    materials = Materials(
        model=model,
        adapter=adapter,
        eval_dataset=eval_dataset,
        arguments=shared_arguments(
            request, total_steps=run.total_steps, evaluates=eval_dataset is not None
        )
        | _ways(model, request),
        train=request.train,
        # the agreement of a step must come before its report
        callbacks=[AgreementCallback(run), metrics, ProgressCallback(run)],
        **parts,
    )
    trainer = _recipe_trainer(recipe, materials, run)
    _keep_own_callbacks(trainer)
    processes.check_world_size(request, trainer.accelerator.num_processes)
    plan.check_kind(trainer.accelerator, request.layout)
    if request.train["packing"]:
        found = (recipe.prove or _prove_isolation)(trainer.model, run)
        run.record.event("phase", phase="isolation_proven", leak=found.leak, drift=found.drift)
    return trainer, metrics


def _ways(model: Any, request: Request) -> dict[str, Any]:
    """Return the arguments that make the libraries divide the work as the layout says."""
    from trainer.parallel import plan

    layout = request.layout
    layers = [] if layout.sharding is None else plan.layer_classes(model)
    return plan.arguments(layout, layers=layers)


def _prove_isolation(model: Any, run: Any) -> Any:
    from trainer import isolation
    from trainer.parallel import sequence

    train = run.request.train
    return isolation.prove(
        model,
        attention=train["attn_impl" if run.group is None else "sequence_parallel_attention"],
        read=None if run.group is None else sequence.shared_reader(model),
    )


def _recipe_trainer(recipe: Any, materials: Any, run: Any) -> Any:
    try:
        return recipe.build(materials, run=run)
    except ValueError as error:
        if "not found in the base model" not in str(error):
            raise
        raise RequestError(f"train.target_modules: {error}") from None


def _keep_own_callbacks(trainer: Any) -> None:
    from transformers.trainer_callback import PrinterCallback
    from transformers.trainer_callback import ProgressCallback as LibraryProgress

    for kind in (PrinterCallback, LibraryProgress):
        trainer.remove_callback(kind)


def _ended(run: Any, trainer: Any, metrics: Any) -> dict[str, Any]:
    step = run.record.progress.step
    match run.outcome:
        case "stopped":
            return _stopped(run.record, run.stop) | {"metrics": metrics.summary()}
        case "checkpoint_failed":
            return {
                "outcome": "failed",
                "reason": "checkpoint_failed",
                "message": f"asked to stop at step {step}, but the checkpoint could not be saved",
            }
        case "diverged":
            return {
                "outcome": "diverged",
                "reason": "non_finite_loss",
                "message": f"loss or gradient was not finite three steps in a row, up to step "
                f"{step}; the last finite loss was {run.last_finite_loss}",
                "metrics": metrics.summary(),
            }
    return _succeeded(run, trainer, metrics, reason="completed")


def _stopped(record: Record, stop: StopFlag) -> dict[str, Any]:
    progress = record.progress
    total = "" if progress.total_steps is None else f" of {progress.total_steps}"
    return {
        "outcome": "stopped",
        "reason": "stop_requested",
        "message": f"stopped at step {progress.step}{total} as asked by "
        f"{stop.cause or 'another rank'}",
    }


def _succeeded(run: Any, trainer: Any, metrics: Any, *, reason: str) -> dict[str, Any]:
    """Keep the weights under the generation's ``final`` folder and say where they are."""
    from trainer import finishing

    run.record.enter("finishing")
    measured = metrics.summary()
    artifacts = finishing.keep(run, trainer)
    kind = next(iter(artifacts))
    return {
        "outcome": "succeeded",
        "reason": reason,
        "message": f"{run.total_steps} steps done; {kind} in {run.request.final}",
        "artifacts": artifacts,
        "metrics": measured,
    }
