"""Every YAML file in ``stories/`` is played cycle by cycle on virtual time, as in production."""

from pathlib import Path

import pytest

from reconciler.planning.lifecycle import LEGAL
from tests.scenario.worlds import STORIES, cases, told


@pytest.mark.parametrize(("path", "order"), cases(STORIES))
def test_story(path: Path, order: str) -> None:
    assert told(path, order).wrong == []


@pytest.mark.parametrize(("path", "order"), cases(STORIES))
def test_story_has_the_history_it_tells(path: Path, order: str) -> None:
    story = told(path, order)

    histories = {name: story.history(name) for name in story.document["history"]}

    assert histories == story.document["history"]


@pytest.mark.parametrize(("path", "order"), cases(STORIES))
def test_story_has_only_legal_transitions(path: Path, order: str) -> None:
    story = told(path, order)

    illegal = [t for _, t in story.world.log if t.after not in LEGAL[t.before]]

    assert story.world.log
    assert illegal == []


def test_there_are_stories() -> None:
    assert len(STORIES) >= 10, "stories/ lost its files: the tests above would not run"
