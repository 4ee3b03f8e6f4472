"""Conversations with images: a model that sees learns from them, packed as well as alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.training import train_here
from tests.run_requests import a_run, events, losses, result

for package in ("torch", "PIL"):
    pytest.importorskip(package)
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 40, 210), "white": (250,) * 3}


def album(root: Path, count: int = 24, *, absolute: bool = False) -> None:
    """Write images of one colour each, and conversations that say which."""
    from PIL import Image

    root.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        name = list(COLOURS)[number % len(COLOURS)]
        size = (28 * (1 + number % 3), 28 * (1 + number % 2))
        Image.new("RGB", size, COLOURS[name]).save(root / f"{number}.png")
        rows.append(
            {
                "messages": [
                    {"role": "user", "content": "<image>Which colour is this?" + " Say." * number},
                    {"role": "assistant", "content": f"It is {name}."},
                ],
                "images": [str(root / f"{number}.png") if absolute else f"{number}.png"],
            }
        )
    texts = {"prompt": "Which colour has grass?", "completion": "It is green."}
    lines = [json.dumps(row) for row in [*rows, texts]]
    (root / "album.jsonl").write_text("\n".join(lines))


def a_look(root: Path, **settings: Any) -> Path:
    model = {"model": "random:qwen2-vl-tiny", "dataset": "album.jsonl", "max_length": 128}
    return a_run(root, **({"tuner_type": "full", "max_steps": 6} | model | settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"per_device": 4},
        {"per_device": 1, "packing": True, "packing_length": 256},
        {"per_device": 2, "tuner_type": "lora", "learning_rate": 5e-3},
        {"per_device": 2, "freeze_vit": False, "group_by_length": True},
    ],
    ids=["padded", "packed", "lora", "vision trained too"],
)
def test_it_learns_and_what_it_leaves_loads(tmp_path: Path, settings: dict[str, Any]) -> None:
    from transformers import AutoImageProcessor, AutoModelForImageTextToText

    album(tmp_path)
    run_dir = a_look(tmp_path, **({"max_steps": 20, "learning_rate": 2e-3} | settings))

    code = train_here(run_dir)

    assert code == 0, result(run_dir)["message"]
    by_step = losses(run_dir)
    assert by_step[20] < by_step[1] - 1
    final = tmp_path / "final"
    assert AutoImageProcessor.from_pretrained(final, backend="pil").merge_size == 2
    if settings.get("tuner_type") != "lora":
        trained = AutoModelForImageTextToText.from_pretrained(final)
        moved = _vision_weights(trained) != _vision_weights(_start())
        assert moved == (settings.get("freeze_vit") is False)


def _start() -> Any:
    from transformers import AutoModelForImageTextToText

    from trainer.models import resolve

    return AutoModelForImageTextToText.from_pretrained(resolve("random:qwen2-vl-tiny"))


def _vision_weights(model: Any) -> list[float]:
    return [float(each.detach().sum()) for each in model.model.visual.parameters()]


def test_packed_rows_have_the_loss_of_their_samples_alone(tmp_path: Path) -> None:
    album(tmp_path, absolute=True)
    every = str(tmp_path / "album.jsonl")
    alone = a_look(tmp_path / "alone", per_device=25, max_steps=1, dataset=every)
    # rows long enough for all of them: one row has the samples of the padded batch
    packed = a_look(
        tmp_path / "packed",
        max_steps=1,
        packing=True,
        packing_length=4096,
        dataset=every,
    )

    assert [train_here(alone), train_here(packed)] == [0, 0]

    assert abs(losses(alone)[1] - losses(packed)[1]) < 1e-6
    (proven,) = [each for each in events(packed) if each.get("phase") == "isolation_proven"]
    assert proven["leak"] < 1e-6


@pytest.mark.parametrize("tuner", ["full", "lora"])
def test_packed_images_resume_where_they_stopped(tmp_path: Path, tuner: str) -> None:
    album(tmp_path / "straight")
    album(tmp_path / "broken")
    settings = {"packing": True, "packing_length": 256, "tuner_type": tuner}
    straight = a_look(tmp_path / "straight", **settings)
    before = a_look(tmp_path / "broken", **settings)
    after = a_look(tmp_path / "broken", number=2, resumes=True, **settings)

    codes = [train_here(straight), train_here(before, stop_at=3), train_here(after)]

    assert codes == [0, 83, 0]
    assert losses(before) | losses(after) == losses(straight)


def test_bad_rows_are_named_by_file_and_line(tmp_path: Path) -> None:
    album(tmp_path, count=2)
    (tmp_path / "broken.png").write_bytes(b"\x89PNG no image")
    asked = {"role": "user", "content": "<image>What?"}
    said = {"role": "assistant", "content": "That."}
    bad = [
        {"messages": [asked, said], "images": ["none.png"]},
        {"messages": [asked, said], "images": ["broken.png"]},
        {"messages": [asked, said]},
        {"messages": [asked, said], "images": ["0.png", "1.png"]},
    ]
    with (tmp_path / "album.jsonl").open("a") as file:
        file.write("\n" + "\n".join(map(json.dumps, bad)))

    code = train_here(run_dir := a_look(tmp_path))

    assert code == 1
    said_of = result(run_dir)["message"]
    assert "4 of 7 rows can not be used for sft" in said_of
    for line, why in [
        (4, "image none.png can not be read"),
        (5, "image broken.png can not be read"),
        (6, "has 0 images, but 1 <image> tags"),
        (7, "has 2 images, but 1 <image> tags"),
    ]:
        assert f"album.jsonl:{line}: {why}" in said_of


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"truncation_strategy": "right"}, "half an image is none"),
        ({"task": "pretrain"}, "only sft is there"),
        ({"use_galore": True}, "use_galore and merge_lora are not there"),
        ({"packing": True, "packing_length": 16}, "can not be cut; write at least"),
    ],
)
def test_what_it_can_not_do_is_refused(tmp_path: Path, settings: dict[str, Any], why: str) -> None:
    album(tmp_path)

    code = train_here(run_dir := a_look(tmp_path, **settings))

    assert code == 1
    assert why in result(run_dir)["message"]


def test_a_model_without_vision_weights_has_none_to_train(tmp_path: Path) -> None:
    code = train_here(run_dir := a_run(tmp_path, freeze_vit=False))

    assert code == 1
    assert "freeze_vit: this model has no vision weights" in result(run_dir)["message"]


def test_it_says_what_it_was_taught_of_images_and_of_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from trainer.answer import main

    album(tmp_path, count=8)
    run_dir = a_look(tmp_path, per_device=3, max_steps=90, learning_rate=2e-3)
    assert train_here(run_dir) == 0, result(run_dir)["message"]
    final = str(tmp_path / "final")
    capsys.readouterr()

    for number, name in enumerate(COLOURS):
        image = str(tmp_path / f"{number}.png")
        assert main([final, "Which colour is this?", "--image", image, "--tokens", "8"]) == 0
        assert capsys.readouterr().out == f"It is {name}.\n"
    assert main([final, "Which colour has grass?", "--tokens", "8"]) == 0
    assert capsys.readouterr().out == "It is green.\n"

    assert main([final, "Which?", "--image", str(tmp_path / "none.png")]) == 1
    assert "none.png can not be read" in capsys.readouterr().err
    assert main(["random:qwen3-tiny", "Which?", "--image", "0.png"]) == 1
    assert "a qwen3 model takes no images" in capsys.readouterr().err
