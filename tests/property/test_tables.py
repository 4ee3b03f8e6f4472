"""Whatever grows from what, and in whatever order they are read: every table stays what it was."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.planning.table import Draft, Table, differing, kept

KEYS = st.sampled_from("abcdef")
CHANGES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 3))), max_size=6)
"""Keys put, or with None taken out."""
STEPS = st.lists(st.tuples(st.integers(0, 30), CHANGES), min_size=1, max_size=12)
"""From which table another one grows, and what is different in it."""


def _grown(steps: list[tuple[int, list[tuple[str, int | None]]]]) -> list[tuple[Table, dict]]:
    made = [(Table({"a": object(), "b": object()}), {})]
    made[0][1].update(made[0][0].read())
    for number, changes in steps:
        table, entries = made[number % len(made)]
        draft, entries = Draft(table), dict(entries)
        for key, value in changes:
            if value is None:
                assert draft.pop(key) is entries.pop(key, None)
            else:
                entries[key] = draft[key] = (value,)
        assert dict(draft) == entries
        made.append((draft.done(), entries))
    return made


@given(STEPS, st.randoms(use_true_random=False))
def test_every_table_keeps_its_entries_whatever_grew_from_it(steps, random) -> None:
    made = _grown(steps)
    random.shuffle(made)
    for table, entries in made:
        assert dict(table) == entries == dict(table.items())
        assert len(table) == len(entries)
        assert sorted(table) == sorted(entries)
        assert all(table[key] is entries[key] and key in table for key in entries)
        assert all(table.get(key, "none") is entries.get(key, "none") for key in "abcdef")


@given(STEPS, st.data())
def test_what_differs_is_told_for_any_two_tables(steps, data) -> None:
    made = _grown(steps)
    old, before = data.draw(st.sampled_from(made))
    new, after = data.draw(st.sampled_from(made))
    expected = {key for key in "abcdef" if before.get(key) is not after.get(key)}
    assert differing(old, new) == expected
    assert differing(before, after) == expected
    assert old.changed_in(new) in (None, expected)
    assert dict(old) == before
    assert dict(new) == after


@given(STEPS)
def test_what_a_table_differs_in_is_known_along_its_line(steps) -> None:
    line = _grown([(number, changes) for number, (_, changes) in enumerate(steps)])
    newest, after = line[-1]
    for old, before in line:
        changed = {key for key in "abcdef" if before.get(key) is not after.get(key)}
        assert old.changed_in(newest) == changed


def test_a_draft_in_which_nothing_changes_is_the_very_table() -> None:
    table = Table({"a": 1})
    draft = Draft(table)
    assert draft.pop("b") is None
    assert draft.done() is table


def test_a_draft_goes_on_after_an_older_table_was_read_meanwhile() -> None:
    table = Table({"a": 1, "b": 2})
    draft = Draft(table)
    draft["a"] = 3
    assert dict(table) == {"a": 1, "b": 2}
    draft["b"] = 4
    draft.pop("a")
    assert dict(draft) == {"b": 4}
    assert dict(table) == {"a": 1, "b": 2}
    assert dict(draft.done()) == {"b": 4}


def test_kept_values_do_not_follow_who_changes_his_own() -> None:
    own = {"a": 1}
    mine, table = kept(own), Table(own)
    own["a"] = 2
    assert mine == {"a": 1} == table
    assert kept(table) is table
