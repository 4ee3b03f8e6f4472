"""Memory and durations of every legal size: what the document says, and what runs taught."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.job import GpuRequest, JobSpec, SizeEstimate, TopologyDomain
from reconciler.domain.policy import Policy
from reconciler.domain.snapshot import DesiredJob
from reconciler.domain.units import CommitId, Digest, JobId, JobName, Seconds, TeamName
from reconciler.snapshots.history import history_to_json
from reconciler.snapshots.learned import learned_from
from reconciler.snapshots.sizes import START_S, Sizer, able, expected_duration_s, gang_sizes
from reconciler.specs.estimates import margin_of
from tests.builders import a_cluster
from tests.unit.snapshots.measured import a_run, some_facts


def spec(
    *, estimate_s: int | None = None, limit_s: int | None = None, types: tuple[str, ...] = ()
) -> JobSpec:
    return JobSpec(
        team=TeamName("t"),
        name=JobName("j"),
        gpus=GpuRequest(count=4, within=TopologyDomain.NODE, types=types),
        estimate_s=None if estimate_s is None else Seconds(estimate_s),
        limit_s=None if limit_s is None else Seconds(limit_s),
    )


@pytest.mark.parametrize(
    ("estimate_s", "limit_s", "expected"),
    [
        (3600, 7200, (3600, 7200)),
        (3600, None, (3600, 5400)),
        (None, 7200, (3600, 7200)),
        (None, None, (1000, 1500)),
        (9000, 7200, (7200, 7200)),
        (None, 1, (1, 1)),
    ],
)
def test_an_estimate_wins_over_half_the_limit_and_that_over_the_default(
    estimate_s: int | None, limit_s: int | None, expected: tuple[int, int]
) -> None:
    policy = Policy(default_duration_s=Seconds(1000))

    assert expected_duration_s(spec(estimate_s=estimate_s, limit_s=limit_s), policy) == expected


def test_the_requested_size_is_the_only_one_without_an_elastic_range() -> None:
    sizes = gang_sizes(spec(types=("A100-80GB",)), Policy())

    assert [(size.gpus, size.gpu_type) for size in sizes] == [(4, "A100-80GB")]


def test_a_size_is_of_any_type_where_several_will_do() -> None:
    assert gang_sizes(spec(types=("A100-80GB", "H100-80GB")), Policy())[0].gpu_type == ""


def size_estimate(gpus: int = 4, **changes: Any) -> SizeEstimate:
    one = SizeEstimate(
        gpus=gpus, gpu_type="A100-80GB", memory_gib=50.0, evidence="variable", step_s=8.0 / gpus
    )
    return one._replace(**changes)


def estimated(*estimates: SizeEstimate, **changes: Any) -> JobSpec:
    return replace(
        spec(), spec_digest=Digest("sha256:1"), facts=some_facts(), estimates=estimates, **changes
    )


def test_memory_comes_from_the_estimate_with_the_margin_of_its_class() -> None:
    one = size_estimate()

    (size,) = gang_sizes(estimated(one), Policy())

    assert size.memory_p50_gib == 50.0
    assert size.memory_p90_gib == pytest.approx(50.0 * margin_of(one).p90, abs=0.01)


def test_measured_runs_move_memory_and_keep_the_job_off_what_became_too_small() -> None:
    learned = learned_from(
        history_to_json(
            [a_run(n, memory=1.9, facts=some_facts(data=(f"{n}",))) for n in range(150)]
        )
    )
    one = size_estimate()
    job = estimated(one)

    (size,) = gang_sizes(job, Policy(), learned, {"A100-80GB": 79.15})
    (raised,) = able(
        {job.id: DesiredJob(id=job.id, commit=CommitId("c"), spec=job)}, learned
    ).values()

    assert size.memory_p50_gib is not None
    assert size.memory_p50_gib > 80
    assert raised.spec is not None
    assert raised.spec.gpus.min_memory_gib == pytest.approx(
        size.memory_p50_gib * margin_of(one).fits, abs=0.02
    )


def test_sizes_and_types_that_do_not_fit_are_left_out() -> None:
    job = estimated(
        size_estimate(),
        size_estimate(gpu_type="RTX3090-24GB"),
        size_estimate(2, memory_gib=90.0),
        size_estimate(8, memory_gib=30.0),
    )

    sizes = gang_sizes(job, Policy(), usable={"A100-80GB": 79.15, "RTX3090-24GB": 23.7})

    assert [(size.gpus, size.gpu_type) for size in sizes] == [(4, "A100-80GB"), (8, "A100-80GB")]


def test_a_persons_estimate_is_kept_and_scaled_by_the_time_of_a_step_at_other_sizes() -> None:
    job = estimated(size_estimate(), size_estimate(2), size_estimate(8), estimate_s=Seconds(3600))

    durations = {size.gpus: size.duration_p50_s for size in gang_sizes(job, Policy())}

    assert durations == {4: 3600, 2: 7200, 8: 1800}


def test_without_one_the_steps_of_the_document_times_the_expected_step_are_taken() -> None:
    job = replace(estimated(size_estimate()), facts=some_facts(max_steps=1000))

    (size,) = gang_sizes(job, Policy())

    assert size.duration_p50_s == START_S + 2000
    assert size.duration_p90_s > 1.2 * size.duration_p50_s


def test_runs_alike_tell_steps_and_pace_where_the_document_says_neither() -> None:
    learned = learned_from(history_to_json([a_run(n, slower=2.0) for n in range(8)]))

    (size,) = gang_sizes(estimated(size_estimate()), Policy(), learned)

    assert size.duration_p50_s == pytest.approx(START_S + 100 * 2.0 * 2 ** (8 / 9), rel=0.05)


def test_a_limit_bounds_both() -> None:
    job = replace(
        estimated(size_estimate(), limit_s=Seconds(1500)), facts=some_facts(max_steps=1000)
    )

    (size,) = gang_sizes(job, Policy())

    assert (size.duration_p50_s, size.duration_p90_s) == (1500, 1500)


def test_an_uncalibrated_device_falls_back_to_the_policy() -> None:
    job = replace(estimated(size_estimate(is_calibrated=False)), facts=some_facts(max_steps=1000))

    (size,) = gang_sizes(job, Policy(default_duration_s=Seconds(1000)))

    assert size.duration_p50_s == 1000


def test_a_sizer_makes_the_same_as_sizing_each_job_and_remembers() -> None:
    job = estimated(size_estimate())
    wanted = [DesiredJob(id=JobId("t/j"), commit=CommitId("c"), spec=job)]
    sizer, cluster = Sizer(), a_cluster()
    nothing, taught = learned_from(None), learned_from(history_to_json([a_run(1, slower=2.0)]))

    first = sizer.sizes(wanted, Policy(), nothing, cluster)
    again = sizer.sizes(wanted, Policy(), nothing, cluster)
    later = sizer.sizes(wanted, Policy(), taught, cluster)

    assert first[JobId("t/j")] is again[JobId("t/j")]
    assert later == {JobId("t/j"): gang_sizes(job, Policy(), taught)}
