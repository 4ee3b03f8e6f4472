"""Where a job's model and data lie already: what places are worth, and how that is said."""

import pytest

from reconciler.domain.job import WorkloadFacts
from reconciler.domain.units import NodeName
from reconciler.planning.caches import Cached, cached_on, cached_words, nearest_first, rows_with
from tests.values import a_node

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")
NODES = (
    a_node("a", models=["qwen", "llama"], data=["chats"]),
    a_node("b", models=["qwen"]),
    a_node("c", data=["chats", "pairs"]),
)


def test_the_model_is_worth_more_than_all_of_the_data() -> None:
    near = cached_on(NODES).near("qwen", ("chats", "pairs"))

    assert near == {A: 4, B: 3, C: 2}


def test_data_that_is_named_twice_counts_once() -> None:
    assert cached_on(NODES).near("", ("chats", "chats")) == {A: 1, C: 1}


def test_a_name_is_the_same_letter_by_letter_or_another_one() -> None:
    assert cached_on(NODES).near("Qwen", ("chat",)) == {}


def test_a_model_is_no_data() -> None:
    assert cached_on(NODES).near("chats", ("qwen",)) == {}


def test_nodes_without_caches_say_nothing() -> None:
    assert not cached_on([a_node("a"), a_node("b")])
    assert cached_on(NODES)


def test_a_row_has_what_its_node_has() -> None:
    rows = rows_with(cached_on(NODES), [A, A, B, C])

    assert rows.models == {"llama": {0, 1}, "qwen": {0, 1, 2}}
    assert rows.data == {"chats": {0, 1, 3}, "pairs": {3}}
    assert not rows_with(Cached(), [A, B])


def test_those_alike_change_places_with_each_other_only() -> None:
    items = ["a1", "b1", "a2", "b2", "a3"]

    assert nearest_first(items, "ababa", [0, 0, 5, 0, 7]) == ["a3", "b1", "a2", "b2", "a1"]
    assert nearest_first(items, "ababa", [0, 0, 0, 0, 0]) == items


@pytest.mark.parametrize(
    ("model", "data", "nodes", "said"),
    [
        ("qwen", ("chats",), [A], "with its model and data cached"),
        ("qwen", ("chats",), [B], "with its model cached"),
        ("qwen", (), [A, B, C], "with its model cached on 2 of 3 nodes"),
        ("qwen", ("chats", "pairs"), [C], "with its data cached"),
        ("qwen", ("chats", "pairs"), [A], "with its model and some of its data cached"),
        (
            "qwen",
            ("chats", "pairs"),
            [B, C],
            "with its model cached on 1 of 2 nodes and its data cached on 1 of 2 nodes",
        ),
        (
            "qwen",
            ("chats",),
            [A, B],
            "with its model cached and its data cached on 1 of 2 nodes",
        ),
        ("mistral", ("chat",), [A], ""),
        ("", (), [A], ""),
    ],
)
def test_what_is_cached_is_said_in_a_few_words(
    model: str, data: tuple[str, ...], nodes: list[NodeName], said: str
) -> None:
    facts = WorkloadFacts(model=model, data=data)

    assert cached_words(facts, nodes, cached_on(NODES)) == said
    assert cached_words(facts, nodes, Cached()) == ""
