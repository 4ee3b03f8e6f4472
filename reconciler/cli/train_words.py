"""Reads ``KEY=VALUE`` words of a command line as a ``train:`` section.

For verbs that judge a training run without a spec.  Keys are the trainer's own and those an
estimate understands beyond them; a key nobody knows is refused with the nearest.
"""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from reconciler.errors import UsageError
from reconciler.specs.contract_files import train_rules, train_schema
from reconciler.specs.findings import Finding
from reconciler.specs.meaning import parallel_findings
from reconciler.specs.train_section import train_findings

BEYOND = frozenset(
    {
        "context_parallel_size",
        "deepspeed",
        "expert_model_parallel_size",
        "fp8_format",
        "fsdp",
        "fsdp_reshard_after_forward",
        "galore_quantization",
        "optimizer_cpu_offload",
        "pipeline_model_parallel_size",
        "quant_bits",
        "quant_method",
        "recompute_granularity",
        "sequence_parallel",
        "sequence_parallel_size",
        "tensor_model_parallel_size",
        "use_liger_kernel",
        "virtual_pipeline_model_parallel_size",
    }
)
"""Keys an estimate reads whether or not this build's trainer takes them (ms-swift 4's names)."""


OPEN = ("task", "optim")
"""Keys whose other values mean something to an estimate."""
FLASH = ("flash", "flash_attn", "flash_attention_2", "flash_attention_3")
"""Attention that other trainers have."""


def train_of(words: Iterable[str]) -> dict[str, Any]:
    """Return the section that ``KEY=VALUE`` words say.  Raises ``UsageError``."""
    train: dict[str, Any] = {}
    properties = train_schema()["properties"]
    known = sorted(properties.keys() | BEYOND)
    for word in words:
        key, equals, value = word.partition("=")
        key = key.removeprefix("train.")
        if not equals:
            raise UsageError(f"{word!r} is not KEY=VALUE")
        if key not in properties and key not in BEYOND:
            renamed = train_rules()["renamed"].get(key)
            near = [renamed] if renamed else get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"no train key {key!r} means memory or time{hint}")
        train[key] = _value(key, value, properties.get(key, {}))
    return train


def _value(key: str, text: str, schema: dict[str, Any]) -> Any:
    if "anyOf" in schema:
        return [part.strip() for part in text.strip("[]").split(",") if part.strip()]
    if schema.get("type") == "string":
        if "enum" in schema and text not in schema["enum"] and key not in OPEN:
            if key == "attn_impl" and text in FLASH:
                return text
            raise UsageError(f"{key} is one of {', '.join(schema['enum'])}, got {text!r}")
        return text
    folded = text.casefold()
    if folded in ("true", "false"):
        return folded == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if schema.get("type") in ("integer", "number", "boolean"):
        raise UsageError(f"{key} must be of type {schema['type']}, got {text!r}")
    return text


def refused_here(words: Mapping[str, Any], lines: Mapping[str, Any], gpus: int) -> dict[str, str]:
    """Return which ``lines`` a job of ``gpus`` GPUs could not have beside ``words``, and why.

    What is wrong with the words alone is not held against the lines.
    """
    plain = {"task": "sft", "dataset": "any", "model": "any"} | dict(words)
    before = {_told(finding) for finding in _findings(plain, gpus)}
    return {
        str(finding.path[-1]): finding.message.removeprefix(f"train.{finding.path[-1]}: ")
        for finding in _findings(plain | dict(lines), gpus)
        if _told(finding) not in before
    }


def _findings(train: Mapping[str, Any], gpus: int) -> Iterator[Finding]:
    yield from train_findings(train)
    yield from parallel_findings({"train": train, "resources": {"gpus": gpus}})


def _told(finding: Finding) -> tuple[Any, ...]:
    return finding.path, finding.message
