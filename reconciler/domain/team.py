"""Tenants: a team is a folder under ``jobs/`` with members, a quota and its own weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.policy import ScoreWeights
from reconciler.domain.units import TeamName


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A person of a team.  E-mails are compared in lower case."""

    name: str
    role: str
    emails: tuple[str, ...] = ()
    signing_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A tenant, as ``conf/teams/<name>.yaml`` declares it."""

    name: TeamName
    members: tuple[Member, ...] = ()
    quota_gpus: Mapping[str, int] = field(default_factory=dict)
    """GPUs by type the team may hold at once; the key ``*`` bounds all types together.
    Empty: no quota."""
    cohort: str | None = None
    """Teams that borrow from and lend to each other (used by the planner's later stages)."""
    max_request_gpus: Mapping[str, int] = field(default_factory=dict)
    """Largest gang by member role; the key ``*`` holds for every other role."""
    may_use_p0: bool = False
    may_run_command: bool = False
    weights: ScoreWeights | None = None
    """The team's own score weights; None: the policy's."""
    interruptions_per_day: int | None = None
