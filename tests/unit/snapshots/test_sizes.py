"""Expected durations from what the document says."""

import pytest

from reconciler.domain.job import GpuRequest, JobSpec, TopologyDomain
from reconciler.domain.policy import Policy
from reconciler.domain.units import JobName, Seconds, TeamName
from reconciler.snapshots.sizes import expected_duration_s, gang_sizes


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
