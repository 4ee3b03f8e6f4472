"""Plays a random life of a fleet on virtual time, and watches it."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.cycle import CycleReport
from reconciler.domain.cluster import DeviceId, NodeName, NodeState
from reconciler.domain.job import JobSpec
from reconciler.domain.policy import Order
from reconciler.domain.units import AttemptId, JobId, Seconds, TeamName
from reconciler.simulate.runs import Behaviour, Fault, Trouble
from reconciler.simulate.world import SimWorld
from tests.strategies import Step
from tests.values import NOW, a_cluster, a_policy, a_problem, a_spec, a_team, seconds


class Life:
    """One fleet, its steps, and every cycle that ran."""

    def __init__(
        self,
        nodes: Mapping[str, Any],
        quotas: Mapping[str, Any],
        steps: list[Step],
        order: Order = Order.SCORE,
    ) -> None:
        self.world = SimWorld(
            a_cluster(nodes),
            now=NOW,
            policy=a_policy(
                order=order,
                cycle="1h",
                retry={"max_lost": 3},
                spread_slowdown={"nodes": 1.05, "racks": 1.28},
            ),
            teams={TeamName(name): a_team(name, **team) for name, team in quotas.items()},
        )
        self.steps = steps
        self._specs: dict[str, dict[str, Any]] = {}

    def cycles(self, rest_s: int = 0) -> Iterator[CycleReport]:
        """Yield every cycle of the life, and of ``rest_s`` quiet seconds after it."""
        for step in self.steps:
            self._do(step)
            yield from self.world.cycles(step.then_s)
        self.world.is_silent = self.world.loses_actions = False
        self.world.main.is_rewritten = False
        yield from self.world.cycles(rest_s)

    def _do(self, step: Step) -> None:
        world, job = self.world, JobId(step.job)
        on = step.luck["on"]
        match step.what:
            case "submit":
                self._submit(step)
            case "edit":
                self._edit(step, {"suspend": on, "priority": step.fields["priority"]})
            case "raise":
                self._edit(step, {"generation": self._generation(step.job) + (1 if on else -1)})
            case "remove":
                world.main.remove(job)
            case "break":
                world.main.break_file(job, a_problem(event=on), now=world.now)
            case "node":
                self._set_node(step)
            case "silent":
                world.is_silent = on
            case "dies":
                world.loses_actions = on
            case "rewritten":
                world.main.is_rewritten = on
            case "prune":
                world.main.allow_prune(3)

    def _generation(self, job: str) -> int:
        return int(self._specs.get(job, {}).get("generation", 1))

    def _submit(self, step: Step) -> None:
        if step.job in self._specs and self._specs[step.job].get("model") == "submitted":
            return
        self._write(step.job, {**step.fields, "model": "submitted"})
        fault = step.luck["fault"]
        trouble = None if fault is None else Trouble(fault=Fault(fault), after_s=Seconds(30))
        self.world.behaviours[JobId(step.job)] = Behaviour(
            work_s=seconds(step.luck["work"]),
            save_s=seconds(step.luck["save"]),
            troubles={} if trouble is None else {0: trouble, 1: trouble},
        )

    def _edit(self, step: Step, change: Mapping[str, Any]) -> None:
        if step.job in self._specs:
            self._write(step.job, {**self._specs[step.job], **change})

    def _write(self, job: str, said: dict[str, Any]) -> None:
        said["generation"] = max(said.get("generation", 1), 1)
        self._specs[job] = said
        self.world.main.write(a_spec(job, **said), now=self.world.now)

    def _set_node(self, step: Step) -> None:
        if any(node.name == step.node for node in self.world.cluster.nodes):
            states = (NodeState.DOWN, NodeState.DRAINING) if step.luck["on"] else (NodeState.READY,)
            self.world.set_node(step.node, states[step.then_s % len(states)])

    # What really holds in this world, whatever the planner believes

    def really_running(self) -> dict[AttemptId, list[tuple[NodeName, DeviceId]]]:
        """Return the devices of every run that has not ended, from all recorded attempts."""
        found = {}
        for status in self.world.statuses.values():
            for attempt in status.attempts:
                run = self.world.runs.get(attempt.id)
                if run is not None and run.ending().at > self.world.now:
                    found[attempt.id] = list(attempt.allocation.devices())
        return found


def quota_use(world: SimWorld, team: str) -> int:
    """Return the GPUs a team's live attempts hold by the statuses."""
    return sum(
        status.live_attempt.gpus
        for job, status in world.statuses.items()
        if job.startswith(f"{team}/") and status.live_attempt is not None
    )


def spec_of(report: CycleReport, job: JobId) -> JobSpec | None:
    """Return the job's spec as a cycle saw it."""
    wanted = report.snapshot.desired.jobs.get(job)
    return wanted.spec if wanted is not None else None
