from typing import Any

from reconciler.domain.plan import Verb
from reconciler.planning.counterfactual import Change, Suggestion, suggestions
from reconciler.planning.plan import plan
from tests.builders import a_snapshot
from tests.values import NOW, a_job_id


def sooner(name: str, **given: Any) -> dict[Change, Suggestion]:
    snapshot = a_snapshot(policy={"order": "score"}, **given)
    found = suggestions(snapshot, plan(snapshot)[0], a_job_id(name))
    return {each.change: each for each in found}


def test_a_smaller_gang_that_starts_now_is_named_with_what_it_costs() -> None:
    found = sooner(
        "big",
        nodes={"n1": 8},
        running={"runs": {"gpus": 5, "ran": "1h", "estimate": "5h"}},
        pending={"big": {"gpus": 4, "estimate": "3h", "model": "m"}},
    )

    smaller = found[Change.FEWER_GPUS]
    assert smaller.starts_now
    assert (smaller.gpus, smaller.words) == (3, "with 3 GPUs")
    assert smaller.start_p50 == NOW
    assert smaller.sooner_s == 4 * 3600
    assert smaller.later_end_s == -3 * 3600, "4 h on 3 GPUs end before 3 h on 4 in 4 h"


def test_the_job_in_the_way_is_named() -> None:
    found = sooner(
        "big",
        nodes={"n1": 8},
        running={
            "long": {"gpus": 4, "ran": "1h", "estimate": "9h"},
            "short": {"gpus": 4, "ran": "1h", "estimate": "2h"},
        },
        pending={"big": {"gpus": 4, "estimate": "3h"}},
    )

    ends = found[Change.OTHER_ENDS]
    assert ends.other == "research/short"
    assert ends.words == "if research/short ends"
    assert ends.starts_now


def test_quota_that_another_team_could_lend_is_named_with_the_fewest_gpus() -> None:
    found = sooner(
        "search/asks",
        nodes={"n1": 8},
        teams={"search": {"quota": {"*": 2}}, "labs": {"quota": {"*": 4}}},
        running={"search/runs": {"gpus": 2, "ran": "1h", "estimate": "9h"}},
        pending={"search/asks": {"gpus": 2, "estimate": "3h"}},
    )

    lent = found[Change.TEAM_LENDS]
    assert lent.words == "if team labs lends 2 of its quota"
    assert lent.starts_now


def test_another_type_and_a_wider_domain_are_tried() -> None:
    nodes = {
        "a1": {"gpus": 4, "gpu_type": "A"},
        "b1": {"gpus": 2, "gpu_type": "B", "rack": "r1"},
        "b2": {"gpus": 2, "gpu_type": "B", "rack": "r1"},
    }
    busy = {"runs": {"gpus": 4, "ran": "1h", "estimate": "9h", "types": ["A"], "node": "a1"}}

    typed = sooner(
        "asks", nodes=nodes, running=busy,
        pending={"asks": {"gpus": 2, "types": ["A"], "estimate": "3h"}},
    )  # fmt: skip
    wide = sooner(
        "asks", nodes=nodes, running=busy,
        pending={"asks": {"gpus": 4, "within": "node", "estimate": "3h"}},
    )  # fmt: skip

    assert typed[Change.MORE_TYPES].words == "if B will do as well"
    assert wide[Change.WIDER_DOMAIN].words == "with `within: rack`"


def test_every_suggestion_is_what_the_planner_says_of_the_changed_world() -> None:
    """The smaller gang, submitted for real, starts when it was said to start."""
    given: dict[str, Any] = {
        "nodes": {"n1": 8, "n2": 4},
        "running": {
            "a": {"gpus": 5, "ran": "1h", "estimate": "5h"},
            "b": {"gpus": 4, "ran": "1h", "estimate": "2h", "node": "n2"},
        },
    }
    said = sooner("big", pending={"big": {"gpus": 8, "estimate": "3h", "model": "m"}}, **given)
    smaller = said[Change.FEWER_GPUS]

    real = a_snapshot(
        policy={"order": "score"},
        pending={"big": {"gpus": smaller.gpus, "estimate": "8h"}},
        **given,
    )
    decided = plan(real)[0].decisions[a_job_id("big")]
    assert (decided.verb is Verb.START) == smaller.starts_now


def test_a_job_that_starts_or_cannot_run_gets_no_advice() -> None:
    given: dict[str, Any] = {"nodes": {"n1": 8}}

    assert sooner("small", pending={"small": {"gpus": 1}}, **given) == {}
    assert sooner("huge", pending={"huge": {"gpus": 64}}, **given) == {}
