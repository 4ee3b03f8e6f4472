"""The overlay's reservations, by hash: two a week for each of the three teams that ask for most.

An eighth of the nodes for 8 to 24 hours, booked 24 to 72 hours ahead; one in ten is a no-show.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.simulate.asks import DAY_S, HOUR_S, Ask
from reconciler.simulate.chance import uniform

TEAMS = 3
A_WEEK = 2
WEEK_S = 7 * DAY_S
NODE_SHARE = 0.125
NO_SHOW_SHARE = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """One reservation as it is asked for.  Seconds on the trace's clock."""

    id: str
    team: str
    nodes: int
    asked_s: int
    start_s: int
    end_s: int
    shows_up: bool


def calendar(jobs: Sequence[Ask], *, nodes: int, seed: int) -> tuple[Booked, ...]:
    """Return the reservations asked for while ``jobs`` are submitted, in the order of asking."""
    first, last = jobs[0].submit_s, jobs[-1].submit_s
    asked: dict[str, float] = {}
    for job in jobs:
        asked[job.team] = asked.get(job.team, 0.0) + job.gpus * job.duration_s
    found = []
    for team in sorted(asked, key=lambda name: (-asked[name], name))[:TEAMS]:
        for number in range(A_WEEK * ((last - first) // WEEK_S)):
            name = f"{team} {number}"
            week = first + number // A_WEEK * WEEK_S
            start = week + round(uniform(seed, "reserve start", name) * WEEK_S)
            ahead = round((24 + 48 * uniform(seed, "reserve ahead", name)) * HOUR_S)
            length = round((8 + 16 * uniform(seed, "reserve length", name)) * HOUR_S)
            if start - ahead < first:
                continue
            found.append(
                Booked(
                    id=f"window-{number}",
                    team=team,
                    nodes=max(round(NODE_SHARE * nodes), 1),
                    asked_s=start - ahead,
                    start_s=start,
                    end_s=start + length,
                    shows_up=uniform(seed, "reserve shows", name) >= NO_SHOW_SHARE,
                )
            )
    return tuple(sorted(found, key=lambda each: (each.asked_s, each.team, each.id)))
