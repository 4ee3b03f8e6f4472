"""Reads the generator files of Kueue's scheduler performance tests.

Such a file declares cohorts of queues with a nominal quota each, and sets of jobs: so many, one
every so many milliseconds, each running for so many.  Everything here is in milliseconds, and
one second of a load stands for one of them.  CPU quantities become whole units, the largest that
divides all of them; a unit becomes one GPU.

Preemption settings and the preferred or balanced forms of a topology request are not read: such a
job must stay within its topology level here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

from reconciler.simulate.load import Load, LoadError, TraceJob, in_order
from reconciler.specs.yaml_text import read_yaml

_QUANTITY = re.compile(r"(\d{1,9})(m?)\Z")
MOST_JOBS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One ClusterQueue.  Quotas in units."""

    name: str
    cohort: str
    nominal: int
    borrowing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueJob:
    """One job: ``parts`` equal parts of ``units`` each, created at ``created_ms``."""

    name: str
    queue: str
    cohort: str
    kind: str
    created_ms: int
    runtime_ms: int
    priority: int
    parts: int
    units: int
    is_in_rack: bool

    @property
    def total(self) -> int:
        """All units together."""
        return self.parts * self.units


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One generator file.  Jobs are sorted by creation and name."""

    queues: tuple[Queue, ...]
    jobs: tuple[KueueJob, ...]
    unit_milli: int
    """Thousandths of a CPU in one unit."""
    racks: int
    nodes_per_rack: int
    units_per_node: int
    """The topology; all 0 where the file declares none."""

    def load(self) -> Load:
        """Return the jobs as a load, a millisecond being a second."""
        return in_order(
            TraceJob(
                id=f"{each.queue}-{each.name}",
                submit_s=each.created_ms,
                duration_s=each.runtime_ms,
                gpus=each.total,
                team=each.queue,
            )
            for each in self.jobs
        )


def read(text: str, name: str) -> Scenario:
    """Return the scenario in ``text``.  Raises ``LoadError`` naming the file and the field."""
    read_text = read_yaml(text.encode(), name)
    if read_text.problems:
        first = read_text.problems[0]
        raise LoadError(f"{name}:{first.line}: {first.message}")
    top = _Fields(dict(read_text.value or {}), name, "")
    cohorts = list(_cohorts(top))
    if not cohorts:
        raise LoadError(f"{name}: expected a list `cohorts` that is not empty")
    quantities = [
        milli
        for _, queues in cohorts
        for queue in queues
        for milli in (
            queue.milli("nominalQuota"),
            queue.milli("borrowingLimit"),
            *(kind.milli("request") for kind in _kinds(queue)),
        )
        if milli
    ]
    unit = gcd(*quantities)
    if not unit:
        raise LoadError(f"{name}: no queue has a quota and no job a request")
    total = sum(_size(queue) for _, queues in cohorts for queue in queues)
    if not 0 < total <= MOST_JOBS:
        raise LoadError(f"{name}: {total} jobs; expected 1 to {MOST_JOBS}")
    made = [
        _queue(cohort, queue, number, unit)
        for cohort, queues in cohorts
        for queue in queues
        for number in range(queue.whole("count"))
    ]
    jobs = [each for _, found in made for each in found]
    levels = _levels(top, unit)
    return Scenario(
        queues=tuple(queue for queue, _ in made),
        jobs=tuple(sorted(jobs, key=lambda job: (job.created_ms, job.queue, job.name))),
        unit_milli=unit,
        racks=levels[0],
        nodes_per_rack=levels[1],
        units_per_node=levels[2],
    )


class _Fields:
    """One mapping of the file, with its place for messages."""

    def __init__(self, values: Mapping[str, Any], file: str, where: str) -> None:
        self._values = values
        self._file = file
        self._where = where

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def _wrong(self, key: str, expected: str) -> LoadError:
        found = self._values.get(key)
        return LoadError(f"{self._file}: {self._where}{key}: expected {expected}, got {found!r}")

    def whole(self, key: str, default: int | None = None) -> int:
        """Return a whole number that is not negative."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._wrong(key, "a whole number")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text."""
        value = self._values.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def milli(self, key: str) -> int:
        """Return a CPU quantity in thousandths; 0 where there is none."""
        found = _QUANTITY.match(str(self._values.get(key, 0)))
        if found is None:
            raise self._wrong(key, "a quantity such as 20 or 500m")
        return int(found[1]) * (1 if found[2] else 1000)

    def parts(self, key: str) -> "list[_Fields]":
        """Return the mappings of a list; none where the key is missing."""
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self._wrong(key, "a list of mappings")
        return [
            _Fields(each, self._file, f"{self._where}{key}[{at}].") for at, each in enumerate(value)
        ]

    def part(self, key: str) -> "_Fields":
        """Return one mapping; an empty one where the key is missing."""
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, "a mapping")
        return _Fields(value, self._file, f"{self._where}{key}.")


def _cohorts(top: _Fields) -> Iterator[tuple[str, list[_Fields]]]:
    for cohort in top.parts("cohorts"):
        if cohort.whole("count") > MOST_JOBS:
            raise LoadError(f"{cohort.text('className')}: more than {MOST_JOBS} cohorts")
        for number in range(cohort.whole("count")):
            yield f"{cohort.text('className')}-{number}", cohort.parts("queuesSets")


def _kinds(queue: _Fields) -> list[_Fields]:
    return [kind for group in queue.parts("workloadsSets") for kind in group.parts("workloads")]


def _size(queue: _Fields) -> int:
    """Return how many jobs a set of queues gets."""
    groups = queue.parts("workloadsSets")
    each = sum(group.whole("count") * len(group.parts("workloads")) for group in groups)
    return queue.whole("count") * each


def _queue(cohort: str, queue: _Fields, number: int, unit: int) -> tuple[Queue, list[KueueJob]]:
    name = f"{cohort}-{queue.text('className')}-{number}"
    made = Queue(
        name=name,
        cohort=cohort,
        nominal=queue.milli("nominalQuota") // unit,
        borrowing=queue.milli("borrowingLimit") // unit,
    )
    jobs = [
        each
        for at, group in enumerate(queue.parts("workloadsSets"))
        for each in _group(made, group, at, unit)
    ]
    return made, jobs


def _group(queue: Queue, group: _Fields, at: int, unit: int) -> Iterator[KueueJob]:
    """Yield a set's jobs, one after every interval, its kinds in turn."""
    kinds, every_ms = group.parts("workloads"), group.whole("creationIntervalMs")
    for turn in range(group.whole("count")):
        for position, kind in enumerate(kinds):
            yield KueueJob(
                name=f"{kind.text('className')}-{at}-{turn}-{position}",
                queue=queue.name,
                cohort=queue.cohort,
                kind=kind.text("className"),
                created_ms=every_ms * (turn * len(kinds) + position + 1),
                runtime_ms=max(kind.whole("runtimeMs"), 1),
                priority=kind.whole("priority", 0),
                parts=max(kind.whole("podCount", 1), 1),
                units=kind.milli("request") // unit,
                is_in_rack="rack" in kind.text("tasLevel", ""),
            )


def _levels(top: _Fields, unit: int) -> tuple[int, int, int]:
    """Return (racks, nodes of each, units of each node) of the topology; zeros without one."""
    levels = top.part("topology").parts("levels")
    if len(levels) < 2:
        return 0, 0, 0
    nodes = levels[-1].whole("count")
    racks = 1
    for level in levels[:-1]:
        racks *= level.whole("count")
    return racks, nodes, levels[-1].part("capacity").milli("cpu") // unit
