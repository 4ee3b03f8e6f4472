"""What a finished training leaves: weights, what they are made of, and word of it to others.

Rules kept: the folder gets its name when everything in it is on disk; it says which data, settings
and weights it comes from, by digest; a registration that fails is a warning, because the weights
are there all the same.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from trainer.checkpoints import sha256_of
from trainer.config import Request
from trainer.files import publish_over, read_json, write_json
from trainer.record import Record

LINEAGE = "lineage.json"
CARD = "README.md"
MERGED = "merged"
HOOK = "HEADWAY_REGISTER"
"""Environment variable: a program called with the folder, set by whoever runs the launcher."""
HOOK_LIMIT_S = 300
LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "sentence-transformers")


def keep(run: Any, trainer: Any) -> dict[str, str]:
    """Write the final folder and return its artifacts; every process must call this."""
    request, record = run.request, run.record
    temporary = request.final.with_name(f".final-{request.attempt}")
    whole = None if request.layout.sharding is None else trainer.whole_weights()
    kind = "adapter" if request.train["tuner_type"] == "lora" else "model"
    artifacts = {kind: str(request.final)}
    if request.train["merge_lora"]:
        artifacts[MERGED] = str(request.final / MERGED)
    if record.rank != 0:
        if request.layout.copies > 1:  # rank 0 gathers each weight as it writes it
            trainer._save(str(temporary))
        return artifacts
    shutil.rmtree(temporary, ignore_errors=True)
    trainer._save(str(temporary), state_dict=whole)
    if request.train["merge_lora"]:
        merge(trainer.model, trainer.processing_class, temporary / MERGED)
    facts = lineage(run, temporary)
    write_json(temporary / LINEAGE, facts)
    (temporary / CARD).write_text(card(facts), encoding="utf-8")
    publish_over(temporary, request.final)
    register(request.final, record)
    return artifacts


def merge(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write ``model`` with its adapter added to its weights; the adapter is used up."""
    merged = model.merge_and_unload()
    merged.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def lineage(run: Any, folder: Path) -> dict[str, Any]:
    """Return where the weights in ``folder`` come from."""
    request: Request = run.request
    asked = read_json(request.run_dir / "request.json") or {}
    train = {key: value for key, value in (asked.get("train") or {}).items() if value is not None}
    return {
        "job": request.job,
        "attempt": request.attempt,
        "submission": asked.get("submission"),
        "generation": asked.get("generation"),
        "spec_sha256": digest(train),
        "train": train,
        "seed": request.seed,
        "global_batch": request.global_batch,
        "world_size": request.world_size,
        "steps": run.total_steps,
        "final_loss": run.record.progress.loss,
        "model": request.train["model"],
        "model_revision": request.train["model_revision"],
        "init_from": request.train["init_from"],
        "data_sha256": dict(run.data.files),
        "samples_digest": run.data.digest,
        "weights_sha256": {
            path.relative_to(folder).as_posix(): sha256_of(path)
            for path in sorted(folder.rglob("*.safetensors"))
        },
        "libraries": dict(_versions()),
    }


def digest(value: Mapping[str, Any]) -> str:
    """Return the sha256 of a section as canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _versions() -> Any:
    for name in LIBRARIES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def card(facts: Mapping[str, Any]) -> str:
    """Return the model card: front matter that model hubs read, and what people ask."""
    train = facts["train"]
    library = "peft" if train.get("tuner_type", "lora") == "lora" else "transformers"
    data = "\n".join(f"* `{name}`, sha256 `{sha}`" for name, sha in facts["data_sha256"].items())
    settings = "\n".join(f"{key}: {json.dumps(value)}" for key, value in sorted(train.items()))
    weights = "\n".join(
        f"* `{name}`, sha256 `{sha}`" for name, sha in facts["weights_sha256"].items()
    )
    loss = facts["final_loss"]
    start = f", from the weights in `{facts['init_from']}`" if facts["init_from"] else ""
    versions = ", ".join(f"{name} {number}" for name, number in facts["libraries"].items())
    return f"""---
library_name: {library}
base_model: {json.dumps(facts["model"])}
tags: [{train["task"]}, headway]
---

# {facts["job"]}

`{facts["model"]}`, trained for {train["task"]}{start}: {facts["steps"]} steps of
{facts["global_batch"]} samples, last loss {"not known" if loss is None else f"{loss:.4f}"}.

| | |
| --- | --- |
| attempt | `{facts["attempt"]}` |
| submission | `{facts["submission"]}`, generation {facts["generation"]} |
| settings | sha256 `{facts["spec_sha256"]}` |
| samples | digest `{facts["samples_digest"]}`, seed {facts["seed"]} |
| libraries | {versions} |

## Data

{data}

## Weights

{weights}

## Settings

```yaml
{settings}
```
"""


def register(folder: Path, record: Record) -> None:
    """Tell the program in ``HEADWAY_REGISTER``, if any, that ``folder`` is there."""
    program = os.environ.get(HOOK)
    if not program:
        return
    try:
        done = subprocess.run(
            [program, str(folder)],
            capture_output=True,
            text=True,
            timeout=HOOK_LIMIT_S,
            check=False,
        )
        problem = None
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            problem = f"exit code {done.returncode}: {last}"
    except (OSError, subprocess.SubprocessError) as error:
        problem = str(error)
    if problem is not None:
        record.warn(f"{folder} was not registered by {program}: {problem}")
