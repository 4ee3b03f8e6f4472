"""What the cache keeps comes back equal, whatever the value holds."""

import json

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.job import (
    ElasticRange,
    GpuRequest,
    Interconnect,
    JobSpec,
    PriorityClass,
    SizeEstimate,
    TopologyDomain,
    WorkloadFacts,
)
from reconciler.domain.problem import SpecProblem
from reconciler.domain.units import JobId, JobName, TeamName
from reconciler.specs.rows import SpecRows, problem_of, problem_row, spec_row

ONE_GPU = GpuRequest(count=1, within=TopologyDomain.NODE)
WORDS = st.text(max_size=6)
TUPLES = st.lists(WORDS, max_size=2).map(tuple)
SECONDS = st.one_of(st.none(), st.integers(1, 10**6))
COUNTS = st.one_of(st.none(), st.integers(1, 10**6))
REQUESTS = st.builds(
    GpuRequest,
    count=st.integers(1, 64),
    within=st.sampled_from(TopologyDomain),
    min_memory_gib=st.floats(0, 200),
    types=TUPLES,
    interconnect=st.sampled_from(Interconnect),
)
FACTS = st.builds(
    WorkloadFacts,
    model=WORDS,
    task=WORDS,
    tuner=WORDS,
    data=TUPLES,
    max_length=COUNTS,
    global_batch=COUNTS,
    per_device_batch=COUNTS,
    model_parallel=st.integers(1, 8),
    max_steps=COUNTS,
)
ELASTIC = st.builds(ElasticRange, min_gpus=st.integers(1, 4), max_gpus=st.integers(4, 8))
SPECS = st.builds(
    JobSpec,
    team=st.just("a"),
    name=st.just("b"),
    gpus=REQUESTS,
    spec_digest=st.just("sha256:0"),
    facts=FACTS,
    priority=st.sampled_from(PriorityClass),
    deadline=SECONDS,
    serves_online=st.booleans(),
    after=TUPLES,
    budget_group=st.one_of(st.none(), WORDS),
    max_gpu_hours=st.one_of(st.none(), st.floats(0.1, 1000)),
    preemptible=st.booleans(),
    grace_s=st.integers(1, 1000),
    elastic=st.one_of(st.none(), ELASTIC),
    estimate_s=SECONDS,
    limit_s=SECONDS,
    checkpoint_every_steps=COUNTS,
    notify_on_start=TUPLES,
    notify_on_finish=TUPLES,
    suspend=st.booleans(),
    generation=st.integers(1, 100),
    runs_command=st.booleans(),
    estimates=st.lists(
        st.builds(
            SizeEstimate,
            gpus=COUNTS,
            gpu_type=WORDS,
            memory_gib=st.floats(0, 99),
            evidence=WORDS,
            step_s=st.floats(0, 99),
            is_calibrated=st.booleans(),
            is_cpu=st.booleans(),
        ),
        max_size=3,
    ).map(tuple),
)


@given(st.lists(SPECS, min_size=1, max_size=3))
def test_a_spec_comes_back_from_its_row(specs: list[JobSpec]) -> None:
    rows = SpecRows()
    for spec in specs:
        row, estimates = json.loads(json.dumps([spec_row(spec), spec.estimates]))

        assert rows.spec(JobId("a/b"), "sha256:0", row, estimates) == spec


def test_every_field_of_a_spec_is_in_its_row() -> None:
    kept = {"team", "name", "spec_digest", "estimates"}  # beside the row

    row = spec_row(JobSpec(team=TeamName("a"), name=JobName("b"), gpus=ONE_GPU))

    assert len(row) == len(JobSpec.__dataclass_fields__) - len(kept)


@given(
    st.builds(
        SpecProblem, file=WORDS, line=st.integers(0, 9), code=WORDS, message=WORDS, hint=WORDS,
        is_security_event=st.booleans(),
    )
)  # fmt: skip
def test_a_problem_comes_back_from_its_row(problem: SpecProblem) -> None:
    assert problem_of(json.loads(json.dumps(problem_row(problem)))) == problem
