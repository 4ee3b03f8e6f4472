"""What is written as GGUF is read back the same; what has no known form there is refused."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("gguf")

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from tests.e2e.training import train_here
from tests.run_requests import a_run, losses, result
from trainer import export, gguf_files, models, random_models
from trainer.config import RequestError

pytestmark = pytest.mark.slow
TEXT = "It's 2026: 1,234 tickets, naïve café\n\n  indented <|im_end|>"


def logits(where: Path, ids: list[int]) -> torch.Tensor:
    folder = where
    if where.suffix == ".gguf":
        folder = where.with_suffix("")
        gguf_files.convert(where, folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        found: torch.Tensor = model(torch.tensor([ids])).logits[0]
    return found


@pytest.mark.parametrize("name", ["random:llama-tiny", "random:qwen3-tiny"])
def test_weights_words_and_template_come_back(tmp_path: Path, name: str) -> None:
    folder = Path(models.resolve(name))

    export.export(folder, tmp_path / "m.gguf", kind="f32")

    own = AutoTokenizer.from_pretrained(folder)
    read = AutoTokenizer.from_pretrained(tmp_path, gguf_file="m.gguf")
    ids = own(TEXT)["input_ids"]
    assert read(TEXT)["input_ids"] == ids
    assert read.chat_template == own.chat_template
    assert (read.eos_token_id, read.pad_token_id) == (own.eos_token_id, own.pad_token_id)
    difference = logits(tmp_path / "m.gguf", ids) - logits(folder, ids)
    assert float(difference.abs().max()) < 1e-5


def test_biases_and_tied_words_come_back(tmp_path: Path) -> None:
    folder = tmp_path / "qwen2"
    shape = dict(random_models.SHAPES["qwen3-tiny"]) | {"tie_word_embeddings": True}
    config = AutoConfig.for_model("qwen2", **{k: v for k, v in shape.items() if "type" not in k})
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    model.save_pretrained(folder)
    random_models.make_tokenizer().save_pretrained(folder)

    export.export(folder, tmp_path / "m.gguf", kind="f32")

    difference = logits(tmp_path / "m.gguf", [5, 6, 7]) - logits(folder, [5, 6, 7])
    assert float(difference.abs().max()) < 1e-5


def test_tokenizers_people_have_are_known_by_how_they_cut() -> None:
    def split(numbers: str) -> dict[str, object]:
        pattern = (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
            + numbers
            + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
        steps = [{"type": "Split", "pattern": {"Regex": pattern}}, {"type": "ByteLevel"}]
        return {"type": "Sequence", "pretokenizers": steps}

    digits = [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel"}]
    names = {
        "qwen2": split(r"\p{N}"),
        "llama-bpe": split(r"\p{N}{1,3}"),
        "smollm": {"type": "Sequence", "pretokenizers": digits},
        "gpt-2": {"type": "ByteLevel", "use_regex": True},
    }
    assert {name: gguf_files._cutting(before) for name, before in names.items()} == {
        name: name for name in names
    }


@pytest.mark.parametrize(("kind", "share", "most"), [("bf16", 0.55, 0.05), ("q8_0", 0.35, 0.05)])
def test_smaller_types_are_smaller_and_nearly_the_same(
    tmp_path: Path, kind: str, share: float, most: float
) -> None:
    folder = Path(models.resolve("random:qwen3-tiny"))
    export.export(folder, tmp_path / "whole.gguf", kind="f32")

    export.export(folder, tmp_path / "small.gguf", kind=kind)

    sizes = [(tmp_path / f"{name}.gguf").stat().st_size for name in ("small", "whole")]
    words = 60_000  # the tokenizer is in both
    assert sizes[0] - words < share * (sizes[1] - words)
    difference = logits(tmp_path / "small.gguf", [5, 6, 7]) - logits(folder, [5, 6, 7])
    assert 0 < float(difference.abs().max()) < most


def test_an_adapter_becomes_a_file_that_training_can_start_from(tmp_path: Path) -> None:
    settings = {"dataset": "sample:support-faq", "max_steps": 30}
    assert train_here(a_run(tmp_path / "first", **settings)) == 0
    code = export.main([str(tmp_path / "first" / "final"), str(tmp_path / "m.gguf")])
    assert code == 0

    follower = a_run(tmp_path, model="m.gguf", tuner_type="full", **(settings | {"max_steps": 2}))
    fresh = a_run(tmp_path / "fresh", tuner_type="full", **(settings | {"max_steps": 2}))

    assert [train_here(follower), train_here(fresh)] == [0, 0]
    assert losses(follower)[1] < losses(fresh)[1] - 0.2


def test_what_has_no_known_form_is_refused(tmp_path: Path) -> None:
    folder = Path(models.resolve("random:bert-tiny"))
    with pytest.raises(RequestError, match="bert models are not written as GGUF"):
        export.export(folder, tmp_path / "m.gguf")

    scaled = tmp_path / "scaled"
    shutil.copytree(Path(models.resolve("random:llama-tiny")), scaled)
    config = json.loads((scaled / "config.json").read_text())
    config["rope_parameters"] = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
    (scaled / "config.json").write_text(json.dumps(config))
    with pytest.raises(RequestError, match="positions scaled as linear"):
        export.export(scaled, tmp_path / "m.gguf")

    assert list(tmp_path.glob("*.gguf*")) == list(tmp_path.glob(".*.gguf*")) == []


@pytest.mark.parametrize(
    "before",
    [
        {"type": "Metaspace"},
        {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "x"}}]},
    ],
)
def test_a_cut_into_words_without_a_name_is_refused(before: dict[str, object]) -> None:
    with pytest.raises(RequestError, match="no known name in GGUF"):
        gguf_files._cutting(before)


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"nonsense")

    code = train_here(run_dir := a_run(tmp_path, model="m.gguf"))

    assert code == 1
    assert "can not be read as GGUF" in result(run_dir)["message"]
