"""Could it ever run here, and may the team ask for it?  One row a rule."""

import pytest

from reconciler.domain.units import Instant
from reconciler.specs.convert import legal_sizes
from reconciler.specs.meaning import P0_SLACK_S, submission_findings
from reconciler.specs.submission import submission_problems
from tests.unit.specs.fleet_files import JOB, PLAIN_JOB, codes, entry, said

DEADLINE = 'deadline: "2026-12-02T18:00:00Z"\n'
DUE = Instant(1_796_234_400)


@pytest.mark.parametrize(
    ("lines", "code", "place"),
    [
        ("time: {limit: 72}\n", "HW044", (5, 15)),
        ("preemption: {grace: 0s}\n", "HW044", (5, 21)),
        ("train: {save_steps: 5}\n", "HW048", (5, 9)),
        ("after: [support/nobody]\n", "HW055", (5, 9)),
        ("after: [support/one]\n", "HW056", (5, 1)),
        ("preemption: {allowed: true}\n", "HW059", (5, 23)),
        ("elastic: {min_gpus: 4, max_gpus: 8}\n", "HW061", (5, 1)),
        ("budget_group: nothing\n", "HW062", (5, 15)),
        ("notify: {on_finish: [monitor, nobody]}\n", "HW063", (5, 31)),
        ("max_gpu_hours: 1\ntime: {estimate: 2h}\n", "HW067", (5, 16)),
    ],
)
def test_each_rule_points_at_its_cause(lines: str, code: str, place: tuple[int, int]) -> None:
    refused = entry(JOB + lines)

    assert codes(refused.problems) == [code], said(refused.problems)
    assert (refused.problems[0].line, refused.problems[0].column) == place
    assert refused.spec is None


def test_memory_is_compared_with_usable_memory_and_needs_its_unit() -> None:
    def of(memory: str) -> list[str]:
        text = f"resources: {{gpus: 1, gpu_type: A100-80GB, min_gpu_memory: {memory}}}\n"
        return codes(entry(PLAIN_JOB + text, path="jobs/research/one.yaml").problems)

    assert of("79GiB") == []
    assert of("79.15GiB") == []
    assert of("80GiB") == ["HW057"]
    assert of("80") == ["HW045"]


def test_a_gang_that_no_rack_can_power_or_join_is_told_what_there_is() -> None:
    cluster = """\
id: laptop
node_types:
  box: {kind: gpu, type: L4, count: 4, memory: 22GiB, watts: 70}
nodes:
  n-[1-4]: {is: box, rack: r1}
racks:
  r1: {power_cap_watts: 800}
"""

    def of(resources: str) -> str:
        files = {"conf/cluster/laptop.yaml": cluster}
        return said(entry(PLAIN_JOB + f"resources: {{{resources}}}\n", files=files).problems)

    assert of("gpus: 8, within: rack") == ""
    assert "the largest has 11 | the cluster has 16 L4, but not the power for all of them" in of(
        "gpus: 12, within: rack"
    )
    assert "joined by RDMA within one rack" in of("gpus: 8, within: rack, interconnect: rdma")
    assert "RDMA in no rack (`racks` in its file)" in of("gpus: 8, interconnect: rdma")


def test_a_gang_above_every_role_s_limit_is_refused() -> None:
    text = PLAIN_JOB + "resources: {gpus: 17, gpu_type: [H100-80GB, A100-80GB], within: cluster}\n"
    refused = entry(text, path="jobs/research/one.yaml")

    assert "HW052" in codes(refused.problems)
    assert "(16, role lead)" in said(refused.problems)


def test_a_quota_of_types_bounds_each_of_them() -> None:
    def of(gpu_type: str) -> list[str]:
        files = {"conf/teams/search.yaml": "quota: {cpu: 4}\n"}
        text = PLAIN_JOB + f"resources: {{gpus: 5, gpu_type: [{gpu_type}]}}\n"
        return codes(entry(text, path="jobs/search/one.yaml", files=files).problems)

    assert of("cpu") == ["HW051"]
    assert of("H100-80GB") == ["HW051"]  # a type without quota


def test_a_budget_is_for_its_teams() -> None:
    assert codes(
        entry(JOB + "budget_group: q4-innovation\n", path="jobs/labs/one.yaml").problems
    ) == ["HW062"]
    assert not entry(JOB + "budget_group: q4-innovation\n").problems


def test_p0_is_judged_against_the_instant_of_submission_and_never_again() -> None:
    spec = entry(JOB + "priority: P0\n" + DEADLINE).spec
    assert spec is not None

    def at(now: int) -> list[str]:
        return [finding.message for finding in submission_findings(spec, Instant(now))]

    assert at(DUE - P0_SLACK_S) == []
    assert at(DUE - 1) == []
    assert at(DUE - P0_SLACK_S - 1)[0].endswith("2 h 0 min away")
    assert at(DUE)[0].endswith("has passed")


def test_what_is_judged_at_submission_points_at_the_deadline() -> None:
    text = JOB + "priority: P0\n" + DEADLINE
    spec = entry(text).spec
    assert spec is not None

    (problem,) = submission_problems(spec, "jobs/support/one.yaml", Instant(0), text.encode())

    assert (problem.code, problem.line, problem.column) == ("HW053", 6, 11)
    assert not submission_problems(spec, "jobs/support/one.yaml", Instant(DUE - 60), text.encode())


def test_a_job_of_another_class_is_not_judged_by_its_deadline() -> None:
    spec = entry(JOB + DEADLINE).spec
    assert spec is not None

    assert submission_findings(spec, Instant(0)) == []


def test_legal_sizes_keep_the_global_batch() -> None:
    spec = entry(
        PLAIN_JOB
        + "resources: {gpus: 4}\nelastic: {min_gpus: 1, max_gpus: 8}\n"
        + "train: {per_device_train_batch_size: 2, gradient_accumulation_steps: 3}\n"
    ).spec
    assert spec is not None

    assert spec.facts.global_batch == 24
    assert legal_sizes(spec) == (1, 2, 3, 4, 6)


def test_without_an_elastic_range_the_requested_size_is_the_only_one() -> None:
    spec = entry(JOB).spec
    assert spec is not None

    assert legal_sizes(spec) == (2,)


def test_a_preemptible_job_saves_at_least_as_often_as_the_policy_says() -> None:
    policy = "checkpoint_floor_steps: 100\n"
    files = {"conf/policy/default.yaml": policy}
    rare = entry(JOB + "checkpoint: {every_steps: 200}\n", files=files)
    fine = entry(JOB + "checkpoint: {every_steps: 100}\n", files=files)

    assert codes(rare.problems) == ["HW059"]
    assert not fine.problems


def test_a_job_may_be_preempted_where_it_can_checkpoint_unless_it_says_no() -> None:
    def is_preemptible(lines: str) -> bool:
        spec = entry(JOB + lines).spec
        assert spec is not None
        return spec.preemptible

    assert not is_preemptible("")
    assert is_preemptible("checkpoint: {every_steps: 5}\n")
    assert not is_preemptible("checkpoint: {every_steps: 5}\npreemption: {allowed: false}\n")
