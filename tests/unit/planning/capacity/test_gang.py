import pytest

from reconciler.planning.capacity.gang import Domain, Gangs, gang_of, split
from tests.unit.planning.capacity.small import a_grid
from tests.values import a_spec


@pytest.mark.parametrize(
    ("devices", "size", "told"),
    [
        (1, 8, (1, 1)),
        (8, 8, (1, 8)),
        (9, 8, (3, 3)),
        (12, 8, (2, 6)),
        (16, 8, (2, 8)),
        (11, 8, (11, 1)),
    ],
)
def test_a_gang_is_split_into_the_fewest_equal_shares(
    devices: int, size: int, told: tuple[int, int]
) -> None:
    assert split(devices, size) == told


def ways(nodes: object, **asked: object) -> list[tuple[int, int, Domain, bool]]:
    gang = gang_of(a_spec(**asked).gpus, a_grid(nodes))  # type: ignore[arg-type]
    return [(way.width, way.count, way.domain, way.is_loose) for way in gang.ways]


def test_a_gang_that_one_row_holds_is_on_one_row() -> None:
    assert ways({"n1": 8, "n2": 8}, gpus=8, within="cluster") == [(1, 8, Domain.ROW, False)]


def test_rows_of_different_sizes_give_a_gang_several_ways() -> None:
    assert ways({"n1": 8, "n2": 4, "n3": 4}, gpus=8, within="rack") == [
        (1, 8, Domain.ROW, False),
        (2, 4, Domain.RACK, False),
    ]


def test_a_node_of_several_islands_holds_a_gang_in_equal_shares() -> None:
    assert ways({"n1": {"gpus": 8, "islands": 2}}, gpus=8) == [(2, 4, Domain.NODE, False)]


def test_what_no_equal_shares_hold_is_laid_out_loosely() -> None:
    nodes = {"n1": {"gpus": 4}, "n2": {"gpus": 2}, "n3": {"gpus": 2}}

    assert ways(nodes, gpus=7, within="rack") == [(2, 7, Domain.RACK, True)]


def test_nvlink_means_one_island_and_a_lone_device_is_one() -> None:
    lone = {"n1": {"gpus": 8, "islands": 0}}

    assert ways(lone, gpus=2, interconnect="nvlink") == []
    assert ways(lone, gpus=1, within="nvlink") == [(1, 1, Domain.ROW, False)]
    assert ways({"n1": {"gpus": 8, "islands": 2}}, gpus=5, within="nvlink") == []


def test_a_gang_that_never_fits_says_so() -> None:
    grid = a_grid({"n1": 8, "n2": {"gpus": 8, "state": "down"}})

    assert not gang_of(a_spec(gpus=9).gpus, grid).fits
    assert not gang_of(a_spec(gpus=16, within="cluster").gpus, grid).fits
    assert not gang_of(a_spec(gpus=1, types=("B200",)).gpus, grid).fits
    assert not gang_of(a_spec(gpus=1, min_memory_gib=200).gpus, grid).fits


def test_types_are_tried_in_the_order_of_the_request() -> None:
    grid = a_grid({"n1": {"gpu_type": "A100-80GB"}, "n2": {"gpu_type": "H100-80GB"}})
    gang = gang_of(a_spec(gpus=1, types=("H100-80GB", "A100-80GB")).gpus, grid)

    assert [grid.types[way.type] for way in gang.ways] == ["H100-80GB", "A100-80GB"]


def test_equal_requests_share_one_gang() -> None:
    gangs = Gangs(a_grid())

    assert gangs.of(a_spec(gpus=2).gpus) is gangs.of(a_spec("other", gpus=2).gpus)
