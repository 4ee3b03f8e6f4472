"""How the base of a training is loaded where its weights are, or shall be, quantised.

Rule kept: what the files hold and what the ``train:`` section says must agree, so that neither a
memory estimate nor a person is misled.
"""

from collections.abc import Mapping
from typing import Any

from trainer.config import RequestError


def loading_arguments(
    location: str, config: Any, train: Mapping[str, Any], *, weights_type: str
) -> dict[str, Any]:
    """Return what ``from_pretrained`` needs besides the ordinary, and prepare ``config`` for it.

    Raises RequestError where files and section disagree, or a package is missing.
    """
    method = train["quant_method"]
    held = _held(location, config, train["model_revision"])
    if held is not None and held["quant_method"] != method:
        raise RequestError(_disagreement(location, held, method))
    if method == "gptq":
        if held is None:
            raise RequestError(
                f"train.quant_method: {location} does not hold GPTQ weights; nearest: "
                "quant_method: bnb, which quantises any model while it is loaded"
            )
        from trainer.quantised import gptq

        gptq.check(location, held, bits=train["quant_bits"])
        gptq.register()
        config.quantization_config = held
    elif method == "bnb" and held is None:
        from trainer.quantised import nf4

        return {"quantization_config": nf4.configuration(train, weights_type=weights_type)}
    return {}


def load_as_held(location: str) -> Any:
    """Return a language model, one that sees as well, in the form its files have, quantised or not.

    Raises RequestError where the files hold no such model.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    from trainer.models import SEEING

    config = AutoConfig.from_pretrained(location, trust_remote_code=False)
    held = _held(location, config, None)
    if held is not None and held["quant_method"] == "gptq":
        from trainer.quantised import gptq

        gptq.check(location, held, bits=None)
        gptq.register()
        config.quantization_config = held
    if config.model_type not in (*SEEING, *MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        raise RequestError(f"{location} is a {config.model_type} model, which writes no text")
    kind = AutoModelForImageTextToText if config.model_type in SEEING else AutoModelForCausalLM
    return kind.from_pretrained(location, config=config, trust_remote_code=False)


def _held(location: str, config: Any, revision: str | None) -> dict[str, Any] | None:
    """Return the quantisation of the files, its method in the words of ``quant_method``."""
    found = getattr(config, "quantization_config", None)
    if found is None:
        from trainer.quantised import gptq

        return gptq.settings(location, revision=revision)
    settings = dict(found if isinstance(found, dict) else found.to_dict())
    method = str(settings.get("quant_method", "unknown"))
    return settings | {"quant_method": "bnb" if method == "bitsandbytes" else method}


def _disagreement(location: str, held: Mapping[str, Any], method: str | None) -> str:
    kind = held["quant_method"]
    if kind not in ("bnb", "gptq"):
        return (
            f"train.model: {location} holds {kind} weights, which this trainer does not read; "
            "nearest: the model without quantisation, with quant_method: bnb"
        )
    said = "does not say so" if method is None else f"says quant_method: {method}"
    return (
        f"train.quant_method: {location} holds {kind} weights, but the job {said}; nearest: "
        f"quant_method: {kind} with tuner_type: lora, or the model without quantisation"
    )
