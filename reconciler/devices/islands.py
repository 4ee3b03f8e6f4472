"""Which GPUs of a node reach each other over NVLink?  Pure.

Two GPUs are on one island when a chain of links joins them: direct links name the other GPU's
bus id, links to a switch name the switch's, which its other GPUs name as well.
"""

from collections.abc import Collection, Mapping

from reconciler.domain.units import DeviceId


def islands(
    bus_ids: Mapping[DeviceId, str], links: Mapping[DeviceId, Collection[str]]
) -> dict[DeviceId, str]:
    """Return the island of each device of ``bus_ids``; empty for one without NVLink peers.

    ``links`` holds the bus ids at the far ends of a device's active links.  Islands are named
    ``nvlink-0`` and on, in the order of their smallest device id.
    """
    group: dict[str, str] = {}

    def root(bus: str) -> str:
        while (above := group.setdefault(bus, bus)) != bus:
            bus = above
        return bus

    buses = {device: normal_bus_id(bus) for device, bus in bus_ids.items()}
    for device, ends in links.items():
        for end in ends:
            if device in buses:
                group[root(normal_bus_id(end))] = root(buses[device])
    found: dict[str, list[DeviceId]] = {}
    for device in sorted(buses):
        found.setdefault(root(buses[device]), []).append(device)
    together = [devices for devices in found.values() if len(devices) > 1]
    names = {device: f"nvlink-{i}" for i, devices in enumerate(together) for device in devices}
    return {device: names.get(device, "") for device in buses}


def normal_bus_id(bus: str) -> str:
    """Return a PCI bus id in one spelling: drivers write 4 or 8 digits of domain."""
    domain, _, rest = bus.strip().lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}"
