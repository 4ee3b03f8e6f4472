"""Whatever a pull request holds, reading it ends in values or problems, never in a crash."""

import random
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.specs.entries import has_errors
from reconciler.specs.reading import read_specs
from reconciler.specs.shape import field_paths
from reconciler.specs.yaml_text import read_yaml
from tests.unit.specs.fleet_files import JOB, MemoryTree, conf_files, sample_files, shared_cache

ODD = st.sampled_from(
    [
        "*", "-1", "no", "1:30", "72h", "10m", "P0", "high", "75GiB", "node", "support/x",
        "monitor",
        "2026-12-02T18:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "Asia/Shanghai",
        "sample:support-chats", "", " ", "\u00e9", "weekly", "full", "sft", "x" * 70,
    ]
)  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 12), st.integers(-(10**20), 10**20), st.floats(), ODD
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["gpus", "a", "min_gpus", "max_gpus", "type"]), inner,
                        max_size=3),
    ),
    max_leaves=6,
)  # fmt: skip


def documents(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return documents of known keys with any values, some of them right."""
    paths = field_paths(kind)
    sections = sorted({path.split(".")[0] for path in paths if "." in path})
    tops = sorted({path for path in paths if "." not in path} - {"api_version", "kind"})
    below = {
        section: st.one_of(
            VALUES,
            st.dictionaries(
                st.sampled_from([p.split(".")[1] for p in paths if p.startswith(f"{section}.")]),
                VALUES,
                max_size=4,
            ),
        )
        for section in sections
    }
    return st.fixed_dictionaries(
        {"api_version": st.just("headway/v1"), "kind": st.just(kind)},
        optional={top: below.get(top, VALUES) for top in tops},
    )


def read_one(data: bytes) -> None:
    tree = MemoryTree(conf_files() | {"jobs/support/one.yaml": data})
    reading = read_specs(tree, cache=shared_cache())
    entry = reading.entries["support/one"]

    if entry.spec is not None:
        assert not has_errors(entry.problems)
        assert entry.spec.gpus.count >= 1
    elif entry.reservation is not None and not has_errors(entry.problems):
        assert entry.reservation.gpus.count >= 1
        assert all(start < end for start, end in entry.reservation.occurrences)
    else:
        assert entry.problems


@given(documents("Job"))
def test_any_values_under_known_keys_of_a_job(document: dict[str, Any]) -> None:
    defaults = "defaults: [/model: tiny-qwen3, /task: sft, /data: support-chats, _self_]\n"
    read_one((defaults + yaml.safe_dump(document, allow_unicode=True)).encode())


@given(documents("Reservation"))
def test_any_values_under_known_keys_of_a_reservation(document: dict[str, Any]) -> None:
    read_one(yaml.safe_dump(document, allow_unicode=True).encode())


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_a_sample_with_bytes_changed(seed: int, changes: int) -> None:
    chance = random.Random(seed)
    jobs = [data for path, data in sample_files().items() if path.startswith("jobs/")]
    data = bytearray(chance.choice(jobs))
    for _ in range(changes):
        at = chance.randrange(len(data))
        data[at : at + chance.randrange(3)] = chance.choice(
            (
                b"",
                b"\t",
                b": ",
                b"{",
                b"]",
                b"&a ",
                b"*",
                b"-",
                b"\n",
                b"'",
                b"\xc2\xa0",
                b"\xff",
                b"#",
            )
        )
    if b"${" not in data:
        read_one(bytes(data))


@given(st.binary(max_size=200))
def test_any_bytes_at_all(data: bytes) -> None:
    text = read_yaml(data, "f")

    assert text.value is not None or text.problems


def test_absurd_bounds_of_an_elastic_range_are_not_counted_through() -> None:
    for high in ("99999999999999999999", "1000000000"):
        read_one((JOB + f"elastic: {{min_gpus: 1, max_gpus: {high}}}\n").encode())
