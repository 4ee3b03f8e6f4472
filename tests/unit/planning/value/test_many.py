"""Many waiting jobs are worth, to the last digit, what they are worth one by one."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.units import JobId
from reconciler.domain.value_state import Learned
from reconciler.planning.value.belief import Beliefs, learn
from reconciler.planning.value.fleet import JobFacts
from reconciler.planning.value.index import Residuals
from reconciler.planning.value.many import in_columns
from reconciler.planning.value.ranking import Valuation
from reconciler.planning.value.rules import Rules
from tests.unit.planning.value.worlds import NOW

SERVED = st.sampled_from([0, 0, 1, 59, 600, 86_399, 3_000_000])
LIMITS = st.sampled_from([0, 1, 600, 3600, 86_400, 1_209_600])


@st.composite
def waiting_jobs(draw: st.DrawFn) -> list[JobFacts]:
    number = draw(st.integers(1, 24))
    return [
        JobFacts(
            job=JobId(f"team{at % 3}/{at}"),
            gpus=draw(st.sampled_from([1, 3, 8, 64])),
            arrived=NOW - draw(st.integers(-50, 900_000)),
            served=draw(SERVED),
            limit=draw(LIMITS),
            predicted=draw(st.sampled_from([0, 0, 45, 7_000, 400_000])),
            weight=draw(st.sampled_from([0.05, 0.3, 1.0])),
            deadline=draw(st.sampled_from([0, 0, 0, NOW + 5_000])),
            bound=draw(st.sampled_from([0, 0, 7_200])),
        )
        for at in range(number)
    ]


@given(
    waiting_jobs(),
    st.lists(st.integers(1, 5_000_000), max_size=6),
    st.sampled_from([{}, {"team1": 0.5, "": 2.0}]),
    st.sampled_from([7_200, 7_200.0, 123_456.7]),
)
def test_a_long_line_is_worth_what_each_in_it_is_worth_alone(
    waiting: list[JobFacts], ended: list[int], favour: dict[str, float], budget_s: float
) -> None:
    learned = Learned()
    for served in ended:
        learned = learn(learned, waiting[0], served)
    valuation = Valuation(
        now=NOW,
        ranked_at=NOW - NOW % 120,
        budget_s=budget_s,
        residuals=Residuals(Beliefs(learned)),
        rules=Rules(),
        favour=favour,
    )

    assert in_columns(waiting, valuation) == [valuation.score(facts) for facts in waiting]
