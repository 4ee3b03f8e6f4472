"""GGUF, the one-file form of models that local programs run: read as a base, written as an export.

Reading is transformers' own, slow and unable to save what it read, so a file is converted once to
an ordinary folder.  Writing is the ``gguf`` package's: names of tensors and fields are from its
tables.

Rule kept: what is written is read back the same, weights and words.  Architectures, position
scalings and tokenizers whose form in GGUF is not known here are refused.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from trainer.config import RequestError

ARCHITECTURES = ("llama", "qwen2", "qwen3")
TYPES = ("f32", "f16", "bf16", "q8_0")
"""Types of the matrices; vectors are always float32."""
_SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS: Mapping[str, str] = MappingProxyType(
    {_SPLIT + r"\p{N}" + _REST: "qwen2", _SPLIT + r"\p{N}{1,3}" + _REST: "llama-bpe"}
)
"""How a tokenizer cuts text into words, and GGUF's name for it."""


def convert(file: Path, folder: Path) -> None:
    """Write the model and tokenizer of a GGUF file to ``folder`` as transformers saves them."""
    import torch
    from gguf import GGUFReader
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    config = AutoConfig.from_pretrained(**where)
    size = GGUFReader(file).fields.get(f"{config.model_type}.attention.key_length")
    if size is not None:  # the library takes the architecture's usual one
        config.head_dim = int(size.contents())
    model = AutoModelForCausalLM.from_pretrained(**where, config=config, dtype=torch.float32)
    # the weights are plain float32 now, but save_pretrained refuses while these say otherwise
    model.config.__dict__.pop("quantization_config", None)
    model.hf_quantizer = None
    model.is_quantized = False
    model.quantization_method = None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write(folder: Path, file: Path, *, kind: str) -> None:
    """Write the model in ``folder`` to ``file`` with matrices of ``kind``, one of ``TYPES``.

    Raises RequestError where its form in GGUF is not known.
    """
    import gguf
    from transformers import AutoConfig, AutoTokenizer

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    if config.model_type not in ARCHITECTURES:
        raise RequestError(
            f"{folder}: {config.model_type} models are not written as GGUF, only "
            f"{', '.join(ARCHITECTURES)}; the folder itself loads with transformers"
        )
    writer = gguf.GGUFWriter(file, config.model_type, use_temp_file=True)
    _add_shape(writer, config, folder)
    _add_tokenizer(writer, AutoTokenizer.from_pretrained(folder, trust_remote_code=False), config)
    names = gguf.get_tensor_name_map(
        next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == config.model_type),
        config.num_hidden_layers,
    )
    for name, weight in _weights(folder):
        to = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if to is None:
            raise RequestError(f"{folder}: GGUF has no place for the weights {name}")
        values, stored = _stored(_turned(name, weight, config), kind)
        writer.add_tensor(to, values, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_shape(writer: Any, config: Any, folder: Path) -> None:
    positions = getattr(config, "rope_parameters", None) or {}
    if positions.get("rope_type", "default") != "default":
        raise RequestError(
            f"{folder}: positions scaled as {positions['rope_type']} are not written as GGUF"
        )
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_name(folder.name)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(float(positions.get("rope_theta", 10000.0)))
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)


def _add_tokenizer(writer: Any, tokenizer: Any, config: Any) -> None:
    from gguf import TokenType

    made_of = json.loads(tokenizer.backend_tokenizer.to_str())
    if made_of["model"]["type"] != "BPE":
        raise RequestError(f"a {made_of['model']['type']} tokenizer is not written as GGUF")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_cutting(made_of["pre_tokenizer"]))
    by_id = {number: word for word, number in tokenizer.get_vocab().items()}
    added = tokenizer.added_tokens_decoder
    words, kinds = [], []
    for number in range(max(config.vocab_size, len(by_id))):
        words.append(by_id.get(number, f"[PAD{number}]"))
        if number in added:
            kinds.append(TokenType.CONTROL if added[number].special else TokenType.USER_DEFINED)
        else:
            kinds.append(TokenType.NORMAL if number in by_id else TokenType.UNUSED)
    writer.add_token_list(words)
    writer.add_token_types(kinds)
    writer.add_token_merges(
        [each if isinstance(each, str) else " ".join(each) for each in made_of["model"]["merges"]]
    )
    for name in ("bos", "eos", "pad", "unk"):
        number = getattr(tokenizer, f"{name}_token_id")
        if number is not None:
            getattr(writer, f"add_{name}_token_id")(number)
    writer.add_add_bos_token(bool(getattr(tokenizer, "add_bos_token", False)))
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)


def _cutting(before: Mapping[str, Any]) -> str:
    """Return GGUF's name for how a tokenizer cuts text into words."""
    steps = before.get("pretokenizers", [before])
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"] and steps[0].get("use_regex", True):
        return "gpt-2"
    if kinds == ["Digits", "ByteLevel"] and steps[0]["individual_digits"]:
        return "smollm"
    if kinds == ["Split", "ByteLevel"]:
        pattern = steps[0]["pattern"].get("Regex", "")
        if pattern in WORDS:
            return WORDS[pattern]
    raise RequestError(
        f"the tokenizer cuts text by {', '.join(kinds)} in a way that has no known name in GGUF: "
        "programs that read the file would cut it otherwise"
    )


def _weights(folder: Path) -> Iterator[tuple[str, Any]]:
    from safetensors import safe_open

    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as held:
            for name in held.keys():  # noqa: SIM118  (no mapping: it has only this)
                yield name, held.get_tensor(name).float().numpy()


def _turned(name: str, weight: Any, config: Any) -> Any:
    """Return a matrix with its rows as GGUF wants them: llama's pairs of a head side by side."""
    kind = name.split(".")[-2] if "." in name else ""
    if config.model_type != "llama" or kind not in ("q_proj", "k_proj"):
        return weight
    heads = config.num_attention_heads if kind == "q_proj" else config.num_key_value_heads
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def _stored(weight: Any, kind: str) -> tuple[Any, Any]:
    """Return the bytes of a tensor and their type; what a type can not hold is float32."""
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    wanted = GGMLQuantizationType[kind.upper()]
    if weight.ndim < 2 or (kind == "q8_0" and weight.shape[-1] % 32):
        wanted = GGMLQuantizationType.F32
    return quantize(weight, wanted), wanted
