"""Driver names become the types people write under ``gpu_type:``."""

import pytest

from reconciler.devices.gpu_types import gpu_type


@pytest.mark.parametrize(
    ("name", "mib", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", 81_920, "A100-80GB"),
        ("NVIDIA A100 80GB PCIe", 81_920, "A100-80GB"),
        ("NVIDIA A100-PCIE-40GB", 40_960, "A100-40GB"),
        ("NVIDIA A800-SXM4-80GB", 81_920, "A800-80GB"),
        ("NVIDIA H100 80GB HBM3", 81_559, "H100-80GB"),
        ("NVIDIA H100 NVL", 95_830, "H100-94GB"),
        ("NVIDIA H20", 97_871, "H20-96GB"),
        ("NVIDIA H200", 143_771, "H200-141GB"),
        ("NVIDIA GH200 480GB", 97_871, "GH200-96GB"),
        ("NVIDIA B200", 183_359, "B200-180GB"),
        ("NVIDIA GB200", 189_471, "GB200-186GB"),
        ("NVIDIA L40S", 46_068, "L40S-48GB"),
        ("NVIDIA L4", 23_034, "L4-24GB"),
        ("NVIDIA A10G", 23_028, "A10G-24GB"),
        ("Tesla T4", 15_360, "T4-16GB"),
        ("Tesla V100-SXM2-32GB", 32_768, "V100-32GB"),
        ("NVIDIA GeForce RTX 4090", 24_564, "RTX4090-24GB"),
        ("NVIDIA GeForce RTX 3080 Ti", 12_288, "RTX3080TI-12GB"),
        ("NVIDIA RTX A6000", 49_140, "A6000-48GB"),
        ("NVIDIA RTX 6000 Ada Generation", 49_140, "RTX6000ADA-48GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887, "RTXPRO6000-96GB"),
        ("NVIDIA GeForce GTX 1080 Ti", 11_264, "GTX1080TI-11GB"),
        ("NVIDIA TITAN RTX", 24_576, "TITAN-RTX-24GB"),
        ("Graphics Device", 524_288, "Graphics-Device-512GB"),
        ("???", 8_192, "GPU-8GB"),
    ],
)
def test_a_type_is_the_model_and_its_marketed_memory(name: str, mib: int, expected: str) -> None:
    assert gpu_type(name, mib / 1024) == expected
