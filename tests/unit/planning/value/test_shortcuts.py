"""What saves work never changes a choice: rankings kept from before, jobs that cannot win."""

from dataclasses import replace
from random import Random

import pytest

from reconciler.domain.value_state import FirmPlace, Learned, ValueState
from reconciler.planning.value.belief import Beliefs
from reconciler.planning.value.decide import ValueMemo, decide
from reconciler.planning.value.fleet import Fleet, JobFacts
from reconciler.planning.value.passing import Pass
from reconciler.planning.value.ranking import Ranking, ranked
from tests.unit.planning.value.worlds import NOW, fleet, job, nodes, runs, valuation


def _crowded(seed: int, *, has_edges: bool = False) -> tuple[Fleet, ValueState]:
    """A full fleet with a long line of few shapes: most jobs can do no better than another."""
    draw = Random(seed)
    where = nodes(6)
    running, free = [], [8] * 6
    for number in range(30):
        row, gpus = draw.randrange(6), draw.choice((1, 2, 4, 8))
        if gpus <= free[row]:
            free[row] -= gpus
            running.append(
                runs(
                    f"r{number:02}",
                    ((row, gpus),),
                    ran_s=draw.choice((60, 3_600, 40_000)),
                    preemptible=draw.random() < 0.8,
                    level=draw.choice((1, 2, 3)),
                    limit=draw.choice((14_400, 86_400, 604_800)),
                    predicted=draw.choice((600, 7_200, 400_000)),
                )
            )
    waiting = [
        job(
            f"w{number:03}",
            draw.choice((1, 1, 2, 4, 8, 12, 16)),
            arrived=NOW - draw.randrange(80_000),
            limit=draw.choice((3_600, 14_400, 86_400)),
            predicted=draw.choice((60, 600, 7_200, 80_000)),
            preemptible=draw.random() < 0.7,
            level=draw.choice((1, 2, 2, 3)),
            reach_s=draw.choice((600, 3_600)),
            weight=draw.choice((0.3, 0.5, 1.0)),
        )
        for number in range(120)
    ]
    firm = {each.job: FirmPlace(since=NOW - 60) for each in waiting[:3]}
    edges = ((0, 4, NOW + 1_200), (3, 8, NOW + 3_000)) if has_edges else ()
    return fleet(where, waiting=waiting, running=running, edges=edges), ValueState(firm=firm)


@pytest.mark.parametrize("has_edges", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_passing_over_jobs_that_cannot_win_changes_nothing(
    seed: int, has_edges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded, state = _crowded(seed, has_edges=has_edges)
    short = decide(crowded, state, NOW)
    assert short.starts
    with monkeypatch.context() as patched:
        patched.setattr(Pass, "_loses", lambda *_: False)
        assert decide(crowded, state, NOW) == short


def test_most_of_a_long_line_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    crowded, state = _crowded(1)
    looked_at: list[str] = []
    made = Pass._consider

    def counting(self: Pass, facts: JobFacts) -> object:
        looked_at.append(facts.job)
        return made(self, facts)

    monkeypatch.setattr(Pass, "_consider", counting)
    decide(crowded, state, NOW)
    assert len(looked_at) < len(crowded.waiting) / 2


@pytest.mark.parametrize("now", [NOW, NOW + 5, NOW + 600])
def test_a_ranking_kept_from_before_is_the_one_made_anew(now: int) -> None:
    crowded, state = _crowded(3)
    first = valuation(beliefs=Beliefs(Learned()))
    later = replace(first, now=now, ranked_at=now - now % first.rules.rerank_every_s)
    before = Ranking()
    ranked(crowded.waiting, first, state.firm, before)
    changed = [*crowded.waiting[5:], job("new", 4), job("w050", 2, arrived=NOW - 7)]
    changed = list({each.job: each for each in changed}.values())
    fewer_firm = dict(list(state.firm.items())[1:])
    for firm in (state.firm, fewer_firm):
        assert ranked(changed, later, firm, before) == ranked(changed, later, firm)


def test_a_memo_of_another_instant_is_no_hindrance() -> None:
    crowded, state = _crowded(4)
    memo = ValueMemo()
    decide(crowded, state, NOW - 300, memo=memo)
    assert decide(crowded, state, NOW, memo=memo) == decide(crowded, state, NOW)
