"""Every reason is reached by a scenario or a story, and has prose in ``docs/reasons.md``."""

from pathlib import Path

from reconciler.domain.reason import Reason
from tests.scenario.worlds import SCENARIOS, STORIES, one_cycle, orders_of, told

PROSE = Path(__file__).parents[2] / "docs" / "reasons.md"


def rows() -> dict[str, list[str]]:
    """Return the cells of each row of the reasons table, by reason."""
    found = {}
    for line in PROSE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            found[name.strip("` ")] = cells
    return found


def test_every_reason_is_reached_by_a_scenario() -> None:
    reached = set().union(*(told(path, orders_of(path)[0]).reasons for path in STORIES))
    for path in SCENARIOS:
        _, _, planned = one_cycle(path, orders_of(path)[0])
        reached |= {decision.reason for decision in planned.decisions.values()}
        reached |= {decision.reason for decision in planned.reservations}

    assert set(Reason) - reached == set()


def test_every_reason_has_prose() -> None:
    table = rows()

    assert set(table) == {reason.value for reason in Reason}
    assert all(len(c) == 2 and len(c[0]) > 20 and len(c[1]) >= 8 for c in table.values())
