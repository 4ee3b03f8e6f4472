"""A composed document goes through a file any number of times and stays what it is."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.specs.fields import Shape
from reconciler.specs.reading import read_specs
from reconciler.specs.rendering import document_json, document_yaml
from reconciler.specs.scalars import Kind
from reconciler.specs.yaml_text import read_yaml
from tests.unit.specs.fleet_files import (
    MemoryTree,
    conf_files,
    entry,
    said,
    sample_files,
    shared_cache,
)

WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["no", "1:30", "010", "1e5", "12e45", "1.10", "~", "null", "y", "0x1F", "2026-11-01", "*"]
    ),
)
VALUES = st.one_of(
    WORDS,
    st.booleans(),
    st.integers(-(10**18), 10**18),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(WORDS, max_size=3),
)


@given(st.dictionaries(st.from_regex(r"[a-mo-x][a-z_]{2,8}", fullmatch=True), VALUES, max_size=5))
def test_whatever_is_written_is_read_back_by_the_strict_loader(document: dict[str, object]) -> None:
    for kind in (Kind.ANY, Kind.TEXT):
        shape = Shape(
            keys={
                key: Shape(kind, items=Shape(kind))
                for key, value in document.items()
                if kind is Kind.ANY or isinstance(value, str | list)
            }
        )
        kept = {key: document[key] for key in shape.keys}
        text = read_yaml(document_yaml(kept).encode(), "f", shape)

        if kept and not text.problems:
            assert text.value == kept
        else:
            # only what no file may hold at all: characters nobody sees
            assert not kept or {str(each.code) for each in text.problems} <= {
                "HW003", "HW004", "HW005", "HW007"
            }, said(text.problems)  # fmt: skip


def test_every_sample_renders_to_a_document_with_the_same_digest() -> None:
    reading = read_specs(MemoryTree(sample_files()), cache=shared_cache())

    for each in reading.entries.values():
        assert each.document is not None
        text = document_yaml(each.document)
        tree = MemoryTree(conf_files() | {each.path: text.encode()})
        again = read_specs(tree, cache=shared_cache())
        found = again.entries[each.id]
        assert found.digest == each.digest, said(found.problems)


def test_json_and_yaml_say_the_same() -> None:
    document = entry("api_version: headway/v1\nkind: Job\nresources: {gpus: 1}\n").document
    assert document is not None

    assert (
        read_yaml(document_yaml(document).encode(), "f").value
        == read_yaml(document_json(document).encode(), "f").value
    )
