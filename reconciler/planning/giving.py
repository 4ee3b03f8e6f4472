"""Devices given while one cycle is decided, and who has to leave for them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from reconciler.domain.units import JobId


@dataclass(slots=True, kw_only=True)
class Given:
    """Mutable, local to one planning call."""

    starts: dict[JobId, int] = field(default_factory=dict)
    """Devices of jobs that start now."""
    holds: dict[JobId, int] = field(default_factory=dict)
    """Devices kept for jobs that start later: for somebody's leaving, or their own."""
    waits_for: dict[JobId, tuple[JobId, ...]] = field(default_factory=dict)
    """Whom each of the holds waits for."""
    stops: dict[JobId, JobId] = field(default_factory=dict)
    """Each victim and whom it makes room for."""
    free: int = 0
    """Devices nobody has and nobody was given."""
    freeing: int = 0
    """Devices of this cycle's victims that nobody was given yet."""
    awaited: set[JobId] = field(default_factory=set)
    """Running jobs whose end somebody waits for: nobody else may make them leave."""

    def copy(self) -> "Given":
        """Return what was given so far, to go on from."""
        return Given(
            starts=dict(self.starts),
            holds=dict(self.holds),
            waits_for=dict(self.waits_for),
            stops=dict(self.stops),
            free=self.free,
            freeing=self.freeing,
            awaited=set(self.awaited),
        )

    def start(self, job: JobId, devices: int) -> None:
        """Give devices that are free."""
        self.starts[job] = devices
        self.free &= ~devices

    def hold(self, job: JobId, devices: int) -> None:
        """Keep devices for a job that starts later."""
        self.holds[job] = devices
        self.free &= ~devices
        self.freeing &= ~devices

    def await_ends(self, devices: int, jobs: Iterable[JobId]) -> None:
        """Let nobody begin on devices that somebody waits for until these jobs have ended."""
        self.free &= ~devices
        self.freeing &= ~devices
        self.awaited.update(jobs)

    def stop(self, victim: JobId, for_job: JobId, devices: int) -> None:
        """Ask a victim to leave its devices."""
        self.stops[victim] = for_job
        self.freeing |= devices
