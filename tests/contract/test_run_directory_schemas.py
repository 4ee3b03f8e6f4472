"""The schemas of the run directory, held against what each side writes and against nonsense."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from reconciler.launchers.contract_check import first_problem
from tests.contract.launcher_worlds import LauncherWorld
from tests.contract.runs import a_launch, a_request_document, wait_for_end

CONTRACT = Path(__file__).parents[2] / "trainer" / "contract"
VERSION = "headway.run/v1"
EXAMPLES: Mapping[str, dict[str, Any]] = {
    "request": a_request_document(),
    "exit": {
        "version": VERSION,
        "attempt": "t.j-g1-a1-0123456789",
        "exit_status": -9,
        "started_at": 1.5,
        "ended_at": 2,
        "killed_after_grace": True,
    },
    "heartbeat": {
        "version": VERSION,
        "attempt": "t.j-g1-a1-0123456789",
        "written_at": 10.5,
        "phase": "training",
        "step": 3,
        "total_steps": None,
        "samples_seen": 24,
        "loss": 2.25,
        "tokens_per_s": None,
        "last_checkpoint": {"step": 2, "finished_at": 9.0},
        "gpus": [{"temperature_c": 60}],
    },
    "result": {
        "version": VERSION,
        "attempt": "t.j-g1-a1-0123456789",
        "outcome": "stopped",
        "reason": "stop_asked",
        "message": "",
        "step": 3,
        "samples_seen": 24,
        "final_loss": None,
        "artifacts": {"adapter": "/runs/adapter"},
        "metrics": {"loss": 2.25},
        "written_at": 11.0,
    },
    "manifest": {
        "version": VERSION,
        "step": 2,
        "samples_seen": 16,
        "global_batch": 8,
        "world_size": 2,
        "attempt": "t.j-g1-a1-0123456789",
        "finished_at": 9.0,
        "files": {"model.safetensors": {"size": 10, "sha256": "0" * 64}},
    },
    "event": {"event": "step", "at": 10.5, "step": 3, "loss": 2.25, "phase": "training"},
}
NONSENSE: tuple[Any, ...] = ([], {"a": "b"}, "", -1.5, None)


def schema(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CONTRACT / f"{kind}.schema.json").read_text())
    return found


def is_valid(kind: str, document: Any) -> bool:
    return bool(Draft202012Validator(schema(kind)).is_valid(document))


def test_every_schema_of_the_run_directory_has_an_example() -> None:
    kinds = {path.name.removesuffix(".schema.json") for path in CONTRACT.glob("*.schema.json")}
    assert kinds - {"train"} == set(EXAMPLES)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_schema_is_one_and_takes_its_example(kind: str) -> None:
    Draft202012Validator.check_schema(schema(kind))
    assert is_valid(kind, EXAMPLES[kind])


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_document_without_one_of_its_keys_is_refused(kind: str) -> None:
    for key in schema(kind)["required"]:
        less = {name: value for name, value in EXAMPLES[kind].items() if name != key}
        assert not is_valid(kind, less), f"{kind} without {key}"


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_declared_key_refuses_some_nonsense(kind: str) -> None:
    for key in schema(kind)["properties"]:
        refused = [value for value in NONSENSE if not is_valid(kind, EXAMPLES[kind] | {key: value})]
        assert refused, f"{kind}.{key} takes anything"


@pytest.mark.parametrize("kind", [kind for kind in EXAMPLES if kind != "event"])
def test_a_key_nobody_declared_is_refused(kind: str) -> None:
    assert not is_valid(kind, EXAMPLES[kind] | {"extra": 1})


@pytest.mark.parametrize("kind", EXAMPLES)
def test_both_sides_hold_the_same_bytes(kind: str) -> None:
    ours = CONTRACT.parents[1] / "reconciler" / "specs" / "contract" / f"{kind}.schema.json"
    assert ours.read_bytes() == (CONTRACT / f"{kind}.schema.json").read_bytes()


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_reconciler_reads_with_the_same_meaning(kind: str) -> None:
    assert first_problem(kind, EXAMPLES[kind]) == ""
    first = schema(kind)["required"][0]
    less = {name: value for name, value in EXAMPLES[kind].items() if name != first}
    assert first in first_problem(kind, less)


def test_what_launcher_and_wrapper_write_keeps_the_contract(world: LauncherWorld) -> None:
    launcher, request = world.again(), a_launch("true")
    launcher.launch(request)
    wait_for_end(launcher, request.run)

    for kind in ("request", "exit"):
        written = json.loads((world.run_dir(request.run) / f"{kind}.json").read_text())
        assert first_problem(kind, written) == ""


def test_what_the_launcher_says_for_a_run_that_never_started_keeps_the_contract(
    world: LauncherWorld,
) -> None:
    request = a_launch("true")
    world.again().kill(request.run)

    written = json.loads((world.run_dir(request.run) / "exit.json").read_text())
    assert first_problem("exit", written) == ""
