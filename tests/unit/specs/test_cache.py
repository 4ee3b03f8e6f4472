"""What is kept between runs: never wrong, whatever happened to the files or to conf."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reconciler.specs import reading
from reconciler.specs.cache import ROWS_PER_PATH, SpecCache
from reconciler.specs.entries import LazyDocument, SpecReading
from reconciler.specs.reading import read_specs
from tests.unit.specs.fleet_files import JOB, ROOT, MemoryTree, codes, conf_files, sample_files

ONE = "jobs/support/one.yaml"


def tree_of(job: str = JOB, **conf: str) -> MemoryTree:
    """Return a fleet with one job; ``conf`` replaces files, ``__`` standing for ``/``."""
    changed = {f"conf/{name.replace('__', '/')}.yaml": text.encode() for name, text in conf.items()}
    return MemoryTree(conf_files() | changed | {ONE: job.encode()})


def same(one: SpecReading, other: SpecReading) -> bool:
    """Compare readings with their documents, which entries leave out of ``==``."""
    return one == other and documents(one) == documents(other)


def documents(found: SpecReading) -> dict[str, object]:
    return {
        job: None if each.document is None else dict(each.document)
        for job, each in found.entries.items()
    }


@pytest.fixture
def no_judging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it an error to judge anything: everything must come from the cache."""

    def refuse(self: object) -> None:
        raise AssertionError("something was judged that the cache knows")

    monkeypatch.setattr(reading._Reader, "_judge", property(refuse))


def test_a_second_read_equals_the_first_and_judges_nothing(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    tree = MemoryTree(sample_files() | {ONE: (JOB + "nodes: 3\n").encode()})
    first = read_specs(tree, cache=SpecCache(tmp_path))
    request.getfixturevalue("no_judging")
    reads = tree.reads

    second = read_specs(tree, cache=SpecCache(tmp_path))

    assert same(first, second)
    assert tree.reads == reads, "a blob was read that the cache knows"
    assert second.entries["support/one"].problems


def test_a_read_without_a_cache_gives_the_same(tmp_path: Path) -> None:
    tree = MemoryTree(sample_files())

    assert same(read_specs(tree), read_specs(tree, cache=SpecCache(tmp_path)))


def test_a_changed_group_is_seen_only_by_jobs_that_load_it(tmp_path: Path) -> None:
    cache = SpecCache(tmp_path)
    before = read_specs(tree_of(), cache=cache).entries["support/one"]

    other = read_specs(tree_of(model__qwen3_8b="# @package train\nmodel: x\n"), cache=cache)
    changed = read_specs(
        tree_of(tuner__lora="# @package train\ntuner_type: lora\nlora_rank: 3\n"), cache=cache
    )

    assert other.entries["support/one"].digest == before.digest
    now = changed.entries["support/one"]
    assert now.digest != before.digest
    assert now.document is not None
    assert now.document["train"]["lora_rank"] == 3


def test_an_option_that_appears_mends_a_job_that_named_it(tmp_path: Path) -> None:
    cache = SpecCache(tmp_path)
    job = JOB.replace("tiny-qwen3", "brand-new")
    assert codes(read_specs(tree_of(job), cache=cache).problems) == ["HW031"]

    mended = read_specs(
        MemoryTree(
            dict(conf_files())
            | {
                ONE: job.encode(),
                "conf/model/brand-new.yaml": b"# @package train\nmodel: random:qwen3-tiny\n",
            }
        ),
        cache=cache,
    )

    assert not mended.problems


def test_a_changed_quota_is_judged_again_without_composing(tmp_path: Path) -> None:
    cache = SpecCache(tmp_path)
    assert not read_specs(tree_of(), cache=cache).problems

    refused = read_specs(tree_of(teams__support="quota: {any: 1}\n"), cache=cache)
    again = read_specs(tree_of(), cache=cache)

    assert codes(refused.problems) == ["HW051"]
    assert refused.problems[0].line == 4
    assert not again.problems


def test_overrides_and_clusters_do_not_mix(tmp_path: Path) -> None:
    cache = SpecCache(tmp_path)
    tree = tree_of()
    plain = read_specs(tree, cache=cache).entries["support/one"]

    set_ = read_specs(tree, cache=cache, overrides=("resources.gpus=4",)).entries["support/one"]
    again = read_specs(tree, cache=cache).entries["support/one"]
    elsewhere = read_specs(tree, cache=cache, cluster="slurm_demo")

    assert set_.spec is not None and set_.spec.gpus.count == 4
    assert again.spec == plain.spec
    assert elsewhere.platform.cluster.id == "slurm-demo"
    assert read_specs(tree, cache=cache).platform.cluster.id == "laptop"


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b'{"version": "x", "tables": {}}',
        b"\xff\xfe",
        b'{"tables": {"rows": 3}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_cache_is_an_empty_one(tmp_path: Path, damage: bytes) -> None:
    tree = tree_of()
    first = read_specs(tree, cache=SpecCache(tmp_path))
    for path in tmp_path.glob("*.json"):
        path.write_bytes(damage)

    second = read_specs(tree, cache=SpecCache(tmp_path))
    third = read_specs(tree, cache=SpecCache(tmp_path))

    assert same(first, second)
    assert same(first, third)


def test_rows_of_a_strange_form_are_judged_again(tmp_path: Path) -> None:
    tree = tree_of()
    first = read_specs(tree, cache=SpecCache(tmp_path))
    for path in tmp_path.glob("rows-*.json"):
        content = json.loads(path.read_text())
        for rows in content["tables"]["rows"].values():
            for row in rows:
                row[6] = {key: [[1, 2], None, [["too short"]]] for key in row[6]}
        path.write_text(json.dumps(content))

    assert same(first, read_specs(tree, cache=SpecCache(tmp_path)))


def test_a_document_that_left_the_cache_is_composed_again(tmp_path: Path) -> None:
    tree = tree_of()
    first = read_specs(tree, cache=SpecCache(tmp_path)).entries["support/one"]
    for path in tmp_path.glob("documents-*.json"):
        path.unlink()

    found = read_specs(tree, cache=SpecCache(tmp_path)).entries["support/one"]

    assert isinstance(found.document, LazyDocument)
    assert dict(found.document) == first.document


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")

    assert not read_specs(tree_of(), cache=SpecCache(blocked / "specs")).problems


def test_another_version_of_headway_starts_afresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tree_of()
    read_specs(tree, cache=SpecCache(tmp_path))
    reads = tree.reads
    monkeypatch.setattr("reconciler.specs.cache.judging_version", lambda: "another")

    read_specs(tree, cache=SpecCache(tmp_path))

    assert tree.reads > reads


def test_writers_at_once_keep_each_other_s_rows(tmp_path: Path) -> None:
    trees = [
        MemoryTree(conf_files() | {f"jobs/support/n{n}-{m}.yaml": JOB.encode() for m in range(8)})
        for n in range(4)
    ]
    read_specs(trees[0], cache=SpecCache(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda tree: read_specs(tree, cache=SpecCache(tmp_path)), trees))

    for path in tmp_path.glob("*.json"):
        json.loads(path.read_text())
    for tree in trees:
        assert not read_specs(tree, cache=SpecCache(tmp_path)).problems
    assert not list(tmp_path.glob("*.part"))


def test_old_versions_of_a_file_go_when_there_are_many(tmp_path: Path) -> None:
    cache = SpecCache(tmp_path)
    for generation in range(1, ROWS_PER_PATH + 4):
        read_specs(tree_of(JOB + f"generation: {generation}\n"), cache=cache)

    kept = [
        rows[ONE]
        for path in tmp_path.glob("rows-*.json")
        if ONE in (rows := json.loads(path.read_text())["tables"]["rows"])
    ]
    assert [len(rows) for rows in kept] == [ROWS_PER_PATH]


def test_a_warm_read_imports_nothing_that_judges(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from tests.unit.specs.fleet_files import MemoryTree, sample_files
for name in [name for name in sys.modules if name.startswith(("yaml", "pydantic"))]:
    del sys.modules[name]
from reconciler.specs.reading import read_specs
from reconciler.specs.cache import SpecCache
found = read_specs(MemoryTree(sample_files()), cache=SpecCache(Path({str(tmp_path)!r})))
assert all(entry.spec or entry.reservation for entry in found.entries.values())
heavy = ("yaml", "pydantic", "hydra", "omegaconf", "numpy", "torch", "git", "zoneinfo")
print(sorted(name for name in heavy if name in sys.modules))
"""
    read_specs(MemoryTree(sample_files()), cache=SpecCache(tmp_path))

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
