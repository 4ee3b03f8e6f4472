import pytest

from reconciler.simulate.kueue_yaml import Scenario, read
from reconciler.simulate.load import LoadError

SMALL = """\
cohorts:
  - className: co
    count: 2
    queuesSets:
    - className: cq
      count: 3
      nominalQuota: 20
      borrowingLimit: "100"
      workloadsSets:
      - count: 2
        creationIntervalMs: 100
        workloads:
        - className: small
          runtimeMs: 200
          priority: 50
          request: "500m"
          podCount: 2
        - className: large
          runtimeMs: 900
          priority: 200
          request: 20
"""
TOPOLOGY = """\
topology:
  name: t
  levels:
    - name: block
      count: 1
      nodeLabel: b
    - name: rack
      count: 10
      nodeLabel: r
    - name: node
      count: 64
      nodeLabel: host
      capacity: {cpu: "96", memory: "256Gi"}
"""


def small(**replaced: str) -> Scenario:
    text = SMALL
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    return read(text, "generator.yaml")


def test_every_queue_of_every_cohort_gets_every_set() -> None:
    scenario = small()

    assert len(scenario.queues) == 2 * 3
    assert len(scenario.jobs) == 2 * 3 * 2 * 2
    assert {queue.cohort for queue in scenario.queues} == {"co-0", "co-1"}


def test_jobs_of_a_set_are_created_one_after_every_interval_in_turn() -> None:
    mine = [each for each in small().jobs if each.queue == "co-0-cq-0"]

    assert [(each.kind, each.created_ms) for each in mine] == [
        ("small", 100),
        ("large", 200),
        ("small", 300),
        ("large", 400),
    ]


def test_quantities_become_whole_units() -> None:
    scenario = small()
    first = next(each for each in scenario.jobs if each.kind == "small")

    assert scenario.unit_milli == 500
    assert (first.parts, first.units, first.total) == (2, 1, 2)
    assert (scenario.queues[0].nominal, scenario.queues[0].borrowing) == (40, 200)


def test_a_load_has_a_second_for_a_millisecond() -> None:
    job = small().load()[0]

    assert (job.submit_s, job.duration_s, job.gpus, job.team) == (100, 200, 2, "co-0-cq-0")


def test_a_topology_is_racks_and_nodes() -> None:
    scenario = read(TOPOLOGY + SMALL, "generator.yaml")

    assert (scenario.racks, scenario.nodes_per_rack, scenario.units_per_node) == (10, 64, 192)
    assert small().racks == 0


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("count: 3", "count: many", r"cohorts\[0\].queuesSets\[0\].count: expected a whole number"),
        ("request: 20", "request: 20Gi", "expected a quantity such as 20 or 500m"),
        ("className: co\n", "name: co\n", "className: expected a text"),
        ("cohorts:\n", "groups:\n", "expected a list `cohorts`"),
        ("count: 2\n        creation", "count: 9000000\n        creation", "expected 1 to"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(old: str, new: str, told: str) -> None:
    assert old in SMALL
    with pytest.raises(LoadError, match=told):
        read(SMALL.replace(old, new), "generator.yaml")


def test_a_file_that_is_no_yaml_is_named_with_its_line() -> None:
    with pytest.raises(LoadError, match=r"generator.yaml:2: "):
        read("cohorts:\n\t- x\n", "generator.yaml")
