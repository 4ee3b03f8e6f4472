"""Small models of real architectures with random weights, and a tokenizer to go with them.

For tests, demonstrations and a first look at a job on a laptop: the code paths are those of the
large models, the loss falls, a step takes milliseconds.  The byte-level BPE tokenizer is trained
on the text shipped in ``sample_data``.  The same name gives the same bytes on every machine with
the same versions of the libraries.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

SAMPLES = Path(__file__).parent / "sample_data"
RECIPE = 1
"""Raised whenever what ``build`` makes changes, so that no old cache folder is taken for it."""
VOCABULARY = 2048
TEXTS = ("support-chats", "support-faq", "support-pairs")
"""Shipped data the tokenizer learns from; others may be added without changing the models."""
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

SEEING_TEMPLATE = CHAT_TEMPLATE.replace(
    "{{ message['content'] }}",
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}",
)


def _shape(model_type: str, **sizes: Any) -> Mapping[str, Any]:
    return MappingProxyType(
        {
            "model_type": model_type,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": False,
            "bos_token_id": None,
            "eos_token_id": SPECIAL.index("<|im_end|>"),
            "pad_token_id": SPECIAL.index("<|pad|>"),
        }
        | sizes
    )


_TINY = {
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
_ENCODER = {
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
_SMALL = {
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
SIGHT = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
"""What the tokenizer of a model that sees has more."""


def _seeing(model_type: str) -> Mapping[str, Any]:
    """Return a shape with a language model as wide as ``_TINY`` and two layers that see."""
    tokens = ("vision_start", "vision_end", "image", "video")
    text = dict(_shape(f"{model_type}_text", **_TINY)) | {"vocab_size": VOCABULARY + 8}
    del text["model_type"], text["head_dim"]
    text["rope_parameters"] = {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [2, 3, 3],
    }
    vision = {
        "depth": 2,
        "embed_dim": 32,
        "hidden_size": _TINY["hidden_size"],
        "num_heads": 2,
        "mlp_ratio": 2,
    }
    return MappingProxyType(
        {"model_type": model_type, "text_config": text, "vision_config": vision}
        | {f"{name}_token_id": VOCABULARY + number for number, name in enumerate(tokens)}
        | {"tie_word_embeddings": False}
    )


SHAPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "qwen3-tiny": _shape("qwen3", **_TINY),
        "llama-tiny": _shape("llama", **_TINY),
        "qwen3-small": _shape("qwen3", **_SMALL),
        "llama-small": _shape("llama", **_SMALL),
        "bert-tiny": _shape("bert", **_ENCODER),
        "qwen3-moe-tiny": _shape("qwen3_moe", **_TINY, **_EXPERTS),
        "qwen2-vl-tiny": _seeing("qwen2_vl"),
    }
)
"""Name after ``random:`` and its configuration: tiny has 0.36 M parameters (bert: 0.5 M),
small 5.8 M.  ``qwen3-moe-tiny`` has four experts a layer, two of which read a token.
``qwen2-vl-tiny`` sees images of up to 16 tokens.
``bert-tiny`` reads in both directions: for embedding, reranker and reward."""


def recipe_digest(name: str) -> str:
    """Return ten hex digits that change with the shape, the recipe or the shipped text."""
    digest = hashlib.sha256(json.dumps([RECIPE, dict(SHAPES[name])], sort_keys=True).encode())
    for path in _texts():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:10]


def build(name: str, folder: Path) -> None:
    """Write model and tokenizer to ``folder``."""
    import torch
    from transformers import (
        AutoConfig,
        AutoModel,
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
    )

    shape = dict(SHAPES[name])
    config = AutoConfig.for_model(shape.pop("model_type"), **shape)
    sees = "vision_config" in shape
    whole = {"bert": AutoModel}.get(config.model_type, AutoModelForCausalLM)
    whole = AutoModelForImageTextToText if sees else whole
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = whole.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    tokenizer = make_tokenizer()
    if sees:
        tokenizer.add_special_tokens({"additional_special_tokens": list(SIGHT)})
        tokenizer.chat_template = SEEING_TEMPLATE
        _image_processor().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _image_processor() -> Any:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
        Qwen2VLImageProcessorPil,
    )

    return Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 16)


def make_tokenizer() -> Any:
    """Return the tokenizer of every random model."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_sentences(), trainer)
    tokens = dict(zip(("unk_token", "", "eos_token", "pad_token"), SPECIAL, strict=True))
    del tokens[""]  # <|im_start|> only opens a turn
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **tokens)
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def _sentences() -> Iterator[str]:
    for path in _texts():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield from _strings(json.loads(line))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from _strings(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _texts() -> list[Path]:
    return [SAMPLES / f"{name}.jsonl" for name in TEXTS]
