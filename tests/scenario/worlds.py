"""Reads and plays scenario files: one cycle (``given``/``then``) or a story over many.

A story is a list of steps.  Each step names a time from the beginning, what people, machines and
luck do then, and what must hold after the cycle that follows: the decision of every job (``then``)
or the recorded phases (``phases``).  A misspelt key is an error, never a check that passes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cycle import CycleReport
from reconciler.domain.cluster import NodeState
from reconciler.domain.plan import Plan
from reconciler.domain.policy import Order
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId, Seconds, TeamName
from reconciler.planning.explain import headline
from reconciler.planning.plan import plan
from reconciler.simulate.runs import Behaviour, Fault, Trouble
from reconciler.simulate.world import SimWorld
from tests.builders import a_snapshot
from tests.calendars import a_budget, a_reservation
from tests.values import (
    NOW,
    TEAM,
    a_cluster,
    a_job_id,
    a_policy,
    a_problem,
    a_size,
    a_spec,
    a_team,
    seconds,
)

HERE = Path(__file__).parent
SCENARIOS = sorted((HERE / "scenarios").glob("*.yaml"))
STORIES = sorted((HERE / "stories").glob("*.yaml"))

_SCENARIO_KEYS = {
    *("scenario", "thread", "why", "given", "then", "statuses", "calendar", "details")
}
_STORY_KEYS = {"scenario", "thread", "why", "given", "story", "history"}
_STEP_KEYS = {
    *("at", "submit", "edit", "remove", "break", "wildcard", "node", "silent", "dies"),
    *("rewritten", "allow_prune", "then", "phases", "commits_nothing", "reserve", "calendar"),
    "reserved",
}
_LUCK_KEYS = {"work", "save", "checkpoint_every", "trouble"}


def load(path: Path, keys: set[str]) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    unknown = document.keys() - keys
    if unknown:
        raise ValueError(f"{path.name}: unknown keys {sorted(unknown)}")
    return document


def short(job: JobId) -> str:
    """Return the name alone for a job of the default team."""
    return job.removeprefix(f"{TEAM}/")


def headlines(planned: Plan) -> dict[str, str]:
    return {short(job): headline(decision) for job, decision in planned.decisions.items()}


def details(planned: Plan) -> dict[str, str]:
    """Return what is added to each decision in words."""
    return {short(job): decision.detail for job, decision in planned.decisions.items()}


def calendar(planned: Plan) -> dict[str, str]:
    """Return what is decided about reservations; several occurrences of one are joined."""
    found: dict[str, str] = {}
    for decision in planned.reservations:
        name, said = short(decision.reservation), f"{decision.verb.value}, {decision.reason.value}"
        if said not in found.get(name, "").split("; "):
            found[name] = f"{found[name]}; {said}" if name in found else said
    return found


def in_order(given: Mapping[str, Any], order: str) -> dict[str, Any]:
    """Return what is given, under a policy of this order."""
    return {**given, "policy": {**given.get("policy", {}), "order": order}}


def orders_of(path: Path) -> tuple[str, ...]:
    """Return the orders a file holds for: all of them, unless its policy names one."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    named = document["given"].get("policy", {}).get("order")
    return (named,) if named is not None else tuple(order.value for order in Order)


def cases(paths: list[Path]) -> list[Any]:
    """Return every (path, order) of these files, as parameters of a test."""
    return [
        pytest.param(path, order, id=f"{path.stem}-{order}")
        for path in paths
        for order in orders_of(path)
    ]


@cache
def one_cycle(path: Path, order: str) -> tuple[dict[str, Any], Snapshot, Plan]:
    """Return a scenario's document, its snapshot in an order and the plan for it."""
    document = load(path, _SCENARIO_KEYS)
    snapshot = a_snapshot(**in_order(document["given"], order))
    return document, snapshot, plan(snapshot)[0]


@cache
def told(path: Path, order: str) -> "Story":
    """Return a story that has been played to its end in an order."""
    document = load(path, _STORY_KEYS)
    story = Story({**document, "given": in_order(document["given"], order)})
    story.play()
    return story


class Story:
    """One story: the world, what was expected of it, and what came."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        given = dict(document["given"])
        self.document = document
        self._said: dict[str, dict[str, Any]] = {}
        self.wrong: list[str] = []
        self.reasons: set[Reason] = set()
        budgets = given.pop("budgets", {})
        self.world = SimWorld(
            a_cluster(given.pop("nodes")),
            now=NOW,
            policy=a_policy(**given.pop("policy", {})),
            teams={
                TeamName(name): a_team(name, **team)
                for name, team in given.pop("teams", {}).items()
            },
            budgets={name: a_budget(name, **said) for name, said in budgets.items()},
        )
        if given:
            raise ValueError(f"unknown keys in given: {sorted(given)}")

    def play(self) -> None:
        """Play every step, and note what differs from what the file expects."""
        for step in self.document["story"]:
            unknown = step.keys() - _STEP_KEYS
            if unknown:
                raise ValueError(f"unknown keys in a step: {sorted(unknown)}")
            self._wait_until(seconds(step["at"]))
            self._change(step)
            for report in self._cycles(0):
                self._compare(step, report)

    def _wait_until(self, at_s: Seconds) -> None:
        span = NOW + at_s - self.world.now
        if span > 0:
            list(self._cycles(span))

    def _cycles(self, span: int) -> Iterator[CycleReport]:
        for report in self.world.cycles(span):
            self.reasons |= {d.reason for d in report.plan.decisions.values()}
            self.reasons |= {d.reason for d in report.plan.reservations}
            yield report

    def _change(self, step: Mapping[str, Any]) -> None:
        main, world = self.world.main, self.world
        for name, job in {**step.get("submit", {}), **step.get("edit", {})}.items():
            self._write(name, job)
        for name, said in step.get("reserve", {}).items():
            main.reserve(a_reservation(name, now=world.now, **said))
        for name in step.get("remove", ()):
            main.remove(a_job_id(name))
        for name in step.get("break", ()):
            main.break_file(a_job_id(name), a_problem(), now=world.now)
        for name in step.get("wildcard", ()):
            problem = a_problem("gpus is '*'", event=True)
            main.break_file(a_job_id(name), problem, now=world.now)
        for name, state in step.get("node", {}).items():
            world.set_node(name, NodeState(state))
        if "allow_prune" in step:
            main.allow_prune(step["allow_prune"])
        world.is_silent = step.get("silent", world.is_silent)
        world.loses_actions = step.get("dies", world.loses_actions)
        main.is_rewritten = step.get("rewritten", main.is_rewritten)

    def _write(self, name: str, job: Mapping[str, Any]) -> None:
        luck = {key: value for key, value in job.items() if key in _LUCK_KEYS}
        said = {key: value for key, value in job.items() if key not in _LUCK_KEYS}
        if "sizes" in said:
            self.world.sizes[a_job_id(name)] = tuple(
                a_size(gpus, seconds(lasts)) for gpus, lasts in said.pop("sizes").items()
            )
        if luck or name not in self._said:
            self.world.behaviours[a_job_id(name)] = _behaviour(luck)
        self._said[name] = {**self._said.get(name, {}), **said}
        self.world.main.write(a_spec(name, **self._said[name]), now=self.world.now)

    def _compare(self, step: Mapping[str, Any], report: CycleReport) -> None:
        at = step["at"]
        if "then" in step and (got := headlines(report.plan)) != step["then"]:
            self.wrong.append(f"at {at}, decisions: {got} instead of {step['then']}")
        if "calendar" in step and (got := calendar(report.plan)) != step["calendar"]:
            self.wrong.append(f"at {at}, calendar: {got} instead of {step['calendar']}")
        for name, phase in step.get("reserved", {}).items():
            kept = self.world.reservations.get(a_job_id(name))
            if kept is None or kept.phase.value != phase:
                self.wrong.append(f"at {at}, reservation {name} is {kept} instead of {phase}")
        for name, phase in step.get("phases", {}).items():
            status = self.world.statuses.get(a_job_id(name))
            if status is None or status.phase.value != phase:
                got_phase = None if status is None else status.phase.value
                self.wrong.append(f"at {at}, {name} is {got_phase} instead of {phase}")
        if step.get("commits_nothing") and report.update:
            self.wrong.append(f"at {at}, committed {report.update.transitions}")

    def history(self, name: str) -> list[str]:
        """Return the phases a job went through, with their reasons, repeats left out."""
        seen: list[str] = []
        for _, transition in self.world.log:
            if transition.job == a_job_id(name):
                line = f"{transition.after.value} ({transition.reason.value})"
                if not seen or seen[-1] != line:
                    seen.append(line)
        return seen


def _behaviour(luck: Mapping[str, Any]) -> Behaviour:
    troubles = {
        int(number): Trouble(
            fault=Fault(trouble["fault"]), after_s=seconds(trouble.get("after", "1m"))
        )
        for number, trouble in luck.get("trouble", {}).items()
    }
    behaviour = Behaviour(work_s=seconds(luck.get("work", "30m")), troubles=troubles)
    return replace(
        behaviour,
        save_s=seconds(luck.get("save", "5s")),
        checkpoint_every_s=seconds(luck.get("checkpoint_every", "5m")),
    )
