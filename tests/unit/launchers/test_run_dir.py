"""Reading run directories: torn, huge, linked and hostile files are absent, never an error."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.domain.attempt import Observation, ObservedState
from reconciler.domain.units import AttemptId, Instant
from reconciler.errors import LauncherError
from reconciler.launchers import run_dir, run_files
from reconciler.launchers.run_dir import Owner
from tests.contract.runs import a_request_document
from tests.contract.test_run_directory_schemas import EXAMPLES

ATTEMPT = AttemptId("t.j-g1-a1-0123456789")
NOW = Instant(1_000)
OWNER = {"attempt": ATTEMPT, "pid": 2, "start_ticks": 3, "boot_id": "b", "started_at": 4.5}
READ = ("exit.json", "heartbeat.json", "result.json", "claim/owner.json")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "a1"
    (found / "claim").mkdir(parents=True)
    return found


def look(path: Path, *, alive: bool = False) -> Observation:
    return run_dir.observe_run(ATTEMPT, path, now=NOW, is_alive=lambda _: alive)


def put(path: Path, kind: str, **changes: Any) -> None:
    (path / f"{kind}.json").write_text(json.dumps(EXAMPLES[kind] | changes))


def a_manifest(folder: Path, step: int, **changes: Any) -> None:
    folder.mkdir(parents=True)
    (folder / "w.bin").write_bytes(b"1234567890")
    files = {"w.bin": {"size": 10, "sha256": "0" * 64}}
    document = EXAMPLES["manifest"] | {"step": step, "files": files} | changes
    (folder / "manifest.json").write_text(json.dumps(document))


def test_an_unclaimed_run_is_absent_even_with_a_request(tmp_path: Path) -> None:
    run_dir.write_request(tmp_path, ATTEMPT, a_request_document(ATTEMPT))

    assert look(tmp_path).state is ObservedState.ABSENT
    assert look(tmp_path / "no such folder").state is ObservedState.ABSENT


def test_a_claim_whose_owner_is_not_written_yet_is_judged_without_one(path: Path) -> None:
    asked: list[Owner | None] = []
    seen = run_dir.observe_run(
        ATTEMPT, path, now=NOW, is_alive=lambda owner: asked.append(owner) is None
    )

    assert (seen.state, asked) == (ObservedState.RUNNING, [None])


def test_a_last_word_written_between_two_looks_is_not_lost(path: Path) -> None:
    def leaves_now(_: Owner | None) -> bool:
        put(path, "exit", exit_status=0)
        return False

    seen = run_dir.observe_run(ATTEMPT, path, now=NOW, is_alive=leaves_now)
    assert (seen.state, seen.exit_status) == (ObservedState.ENDED, 0)


def test_a_forged_last_word_does_not_end_a_run_whose_wrapper_lives(path: Path) -> None:
    put(path, "exit")

    assert look(path, alive=True).state is ObservedState.RUNNING


def test_a_torn_last_word_means_lost(path: Path) -> None:
    (path / "exit.json").write_text(json.dumps(EXAMPLES["exit"])[:-5])
    seen = look(path)

    assert (seen.state, seen.exit_status) == (ObservedState.LOST, None)
    assert "exit.json is not JSON" in seen.message


def test_what_another_attempt_wrote_is_not_taken(path: Path) -> None:
    put(path, "exit")
    put(path, "heartbeat", attempt="another")
    put(path, "result", attempt="another", outcome="succeeded")
    seen = look(path)

    assert (seen.step, seen.outcome) == (None, None)
    assert "another attempt" in seen.message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "no JSON object"),
        (b"[" * 100_000, "not JSON"),
        (b'{"version": NaN}', "not JSON"),
        (b"{}", "breaks its contract"),
        (b" " * (run_files.SMALL_FILE_BYTES + 1), "longer than"),
    ],
    ids=["empty", "binary", "list", "deep", "nan", "nothing in it", "huge"],
)
def test_a_bad_result_is_none_and_is_named(path: Path, content: bytes, says: str) -> None:
    put(path, "exit", exit_status=0)
    (path / "result.json").write_bytes(content)
    seen = look(path)

    assert (seen.state, seen.outcome) == (ObservedState.ENDED, None)
    assert "result.json" in seen.message and says in seen.message


def test_a_result_with_an_unknown_outcome_is_none(path: Path) -> None:
    put(path, "exit", exit_status=0)
    put(path, "result", outcome="great")

    assert look(path).outcome is None


def test_a_result_that_is_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    put(path, "exit", exit_status=0)
    put(tmp_path, "result", outcome="succeeded")
    (path / "result.json").symlink_to(tmp_path / "result.json")
    seen = look(path)

    assert (seen.outcome, seen.message) == (None, "result.json is a link, which is not followed")


@pytest.mark.parametrize("name", READ)
def test_a_pipe_in_the_place_of_a_file_does_not_hold_up_the_poll(path: Path, name: str) -> None:
    os.mkfifo(path / name)

    assert look(path).state is ObservedState.LOST
    assert look(path, alive=True).state is ObservedState.RUNNING


@pytest.mark.parametrize("name", READ)
def test_a_folder_in_the_place_of_a_file_does_not_break_the_poll(path: Path, name: str) -> None:
    (path / name).mkdir()

    assert look(path).state is ObservedState.LOST


@pytest.mark.parametrize("length", range(0, 400, 7))
def test_a_heartbeat_torn_anywhere_is_just_not_there(path: Path, length: int) -> None:
    whole = json.dumps(EXAMPLES["heartbeat"])
    (path / "heartbeat.json").write_text(whole[:length])
    seen = look(path, alive=True)

    assert seen.state is ObservedState.RUNNING
    assert seen.step == (3 if length >= len(whole) else None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), alive=st.booleans())
def test_no_content_of_any_file_breaks_a_poll(path: Path, data: st.DataObject, alive: bool) -> None:
    for name in READ:
        kind = name.removesuffix(".json")
        good = EXAMPLES.get(kind, OWNER)
        keys = st.sampled_from(sorted(good))
        changes = data.draw(st.dictionaries(keys, json_values, max_size=3))
        whole = json.dumps(good | changes).encode()
        content = data.draw(st.sampled_from([whole, whole[: len(whole) // 2]]))
        (path / name).write_bytes(content)
    seen = look(path, alive=alive)

    assert seen.state in set(ObservedState) - {ObservedState.ABSENT, ObservedState.UNKNOWN}
    assert len(seen.message) <= 200 and "\n" not in seen.message
    for instant in (seen.started_at, seen.ended_at, seen.checkpoint_at, seen.heartbeat_at):
        assert instant is None or 0 <= instant <= NOW
    for count in (seen.step, seen.total_steps, seen.checkpoint_step):
        assert count is None or count >= 0


def test_a_jobs_clock_cannot_put_anything_in_the_future(path: Path) -> None:
    put(path, "heartbeat", written_at=9e15, last_checkpoint={"step": 1, "finished_at": 1e300})
    seen = look(path, alive=True)

    assert (seen.heartbeat_at, seen.checkpoint_at) == (NOW, NOW)


def test_an_ended_run_believes_its_checkpoint_folder_over_its_heartbeat(path: Path) -> None:
    put(path, "exit")
    put(path, "heartbeat", last_checkpoint={"step": 90, "finished_at": 5})
    a_manifest(path.parent / "checkpoints" / "step-000040", 40)

    assert look(path).checkpoint_step == 40
    assert look(path, alive=True).checkpoint_step == 90


def test_checkpoints_are_ordered_by_step_and_not_by_name(path: Path) -> None:
    put(path, "exit")
    for step in (5, 999_999, 1_000_000):
        a_manifest(path.parent / "checkpoints" / f"step-{step:06d}", step)

    assert look(path).checkpoint_step == 1_000_000


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text('{"step": 9'),
        lambda folder: (folder / "w.bin").write_bytes(b"short"),
        lambda folder: (folder / "w.bin").unlink(),
        lambda folder: folder.rename(folder.with_name("step-000010")),
        lambda folder: folder.rename(folder.with_name("step-000009.partial")),
    ],
    ids=["no manifest", "torn", "cut file", "no file", "another step", "unfinished name"],
)
def test_a_checkpoint_that_is_not_whole_is_passed_over(path: Path, spoil: Any) -> None:
    put(path, "exit")
    a_manifest(path.parent / "checkpoints" / "step-000005", 5)
    a_manifest(path.parent / "checkpoints" / "step-000009", 9)
    spoil(path.parent / "checkpoints" / "step-000009")

    assert look(path).checkpoint_step == 5


def test_a_checkpoint_folder_that_is_a_link_is_passed_over(path: Path, tmp_path: Path) -> None:
    put(path, "exit")
    a_manifest(tmp_path / "elsewhere" / "step-000007", 7)
    (path.parent / "checkpoints").symlink_to(tmp_path / "elsewhere")

    assert look(path).checkpoint_step is None


def test_the_same_request_is_written_once(tmp_path: Path) -> None:
    request = a_request_document(ATTEMPT)
    run_dir.write_request(tmp_path, ATTEMPT, request)
    before = (tmp_path / "request.json").stat()
    run_dir.write_request(tmp_path, ATTEMPT, dict(reversed(request.items())))

    after = (tmp_path / "request.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [entry.name for entry in tmp_path.iterdir()] == ["request.json"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seed": "one"}, "seed: "),
        ({"attempt": "another"}, "it is of another"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_request_that_breaks_its_contract_is_not_written(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(LauncherError, match=says) as refused:
        run_dir.write_request(tmp_path, ATTEMPT, a_request_document(ATTEMPT) | changes)

    assert not refused.value.retryable
    assert list(tmp_path.iterdir()) == []


def test_storage_that_fails_is_the_callers_to_answer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(run_files, "read_bytes", broken)
    with pytest.raises(OSError, match="Input/output error"):
        look(path)
