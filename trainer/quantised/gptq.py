"""Models whose files hold GPTQ weights: loaded into ``GPTQLinear`` layers, adapted by LoRA.

transformers reads such files only with the packages ``optimum`` and ``gptqmodel``, which need a
newer torch than the rest of the trainer and, for most kernels, a GPU.  Where both are installed
beside a GPU they are used; that path is not covered by our tests.  Everywhere else the layers
of this package take their place, inside transformers' own loading, so that shards, types and
devices are its business.

Rule kept: what the files say counts.  A form this reader does not know is refused by name.
"""

import json
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING
from transformers.quantizers.base import HfQuantizer

from trainer.config import RequestError
from trainer.quantised.gptq_linear import BITS, FORMS, GPTQLinear

OLD_CONFIG = "quantize_config.json"
"""Where AutoGPTQ's first versions put what is now in ``config.json``."""
CODES = ".qweight"


def settings(location: str, *, revision: str | None = None) -> dict[str, Any] | None:
    """Return the GPTQ settings of a model folder or Hub id; None where it is no GPTQ model."""
    found = (_read(location, "config.json", revision) or {}).get("quantization_config")
    if found is None:
        found = _read(location, OLD_CONFIG, revision)
    if found is None or found.get("quant_method", "gptq") != "gptq":
        return None
    return {"quant_method": "gptq"} | found


def _read(location: str, name: str, revision: str | None) -> dict[str, Any] | None:
    from transformers.utils import cached_file

    path = cached_file(
        location,
        name,
        revision=revision,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    if path is None:
        return None
    document = json.loads(Path(path).read_bytes())
    return document if isinstance(document, dict) else None


def check(location: str, found: Mapping[str, Any], *, bits: int | None) -> None:
    """Raise RequestError where these settings can not be read, or are not the ones asked for."""
    form = _form(found)
    if found["bits"] not in BITS or form not in FORMS:
        raise RequestError(
            f"train.model: {location} holds GPTQ weights of {found['bits']} bits in the form "
            f"{form}; this trainer reads {_words(BITS)} bits in the forms {_words(FORMS)}"
        )
    if bits is not None and bits != found["bits"]:
        raise RequestError(
            f"train.quant_bits: {location} holds weights of {found['bits']} bits, not {bits}; "
            f"write quant_bits: {found['bits']}"
        )


def _form(found: Mapping[str, Any]) -> str:
    return str(found.get("checkpoint_format") or found.get("format") or "gptq").lower()


def _words(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in values)


def register() -> bool:
    """Make transformers load GPTQ files with our layers; return whether it will.

    False where the packages it would use itself are there and can run.
    """
    if torch.cuda.is_available() and find_spec("gptqmodel") and find_spec("optimum"):
        return False
    AUTO_QUANTIZER_MAPPING["gptq"] = FrozenGPTQ
    return True


class FrozenGPTQ(HfQuantizer):  # type: ignore[misc]
    """transformers' view of the method: what to do to a model before and after it is loaded."""

    requires_calibration = True

    @property
    def is_trainable(self) -> bool:
        """Adapters on the frozen layers can be trained."""
        return True

    def is_serializable(self) -> bool:
        """The layers' tensors are those of the files."""
        return True

    def _process_model_before_weight_loading(
        self, model: Any, checkpoint_files: list[str] | None = None, **_others: Any
    ) -> None:
        config = self.quantization_config
        for name in quantised_names(checkpoint_files or []):
            parent, _, last = name.rpartition(".")
            plain = model.get_submodule(name)
            layer = GPTQLinear(
                plain.in_features,
                plain.out_features,
                bits=config.bits,
                group_size=config.group_size,
                form=config.format,
                bias=plain.bias is not None,
            )
            setattr(model.get_submodule(parent), last, layer)


def quantised_names(files: Iterable[str]) -> list[str]:
    """Return the layers whose codes are in these safetensors files, sorted."""
    from safetensors import safe_open

    names: set[str] = set()
    for file in files:
        with safe_open(file, framework="pt") as opened:
            keys = opened.keys()
            names.update(key.removesuffix(CODES) for key in keys if key.endswith(CODES))
    return sorted(names)
