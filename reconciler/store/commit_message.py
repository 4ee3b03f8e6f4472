"""How does ``git log`` of the status branch tell the story?  Writes and reads commit messages.

Subject ``status: <n> jobs (<count> <phase>, ...)``; one body line a job, at most 20; then trailers
with one value each, for machines: audit and replay read them back with :func:`parse_message`.
Every value is one line of printable text, so nothing a person wrote can forge a trailer.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.domain.plan import Action, Kill, Launch, Plan, Stop
from reconciler.domain.reservation import ReservationPhase
from reconciler.domain.status import JobPhase, StatusUpdate, Transition
from reconciler.domain.units import CommitId, Digest, rfc3339

LINES_SHOWN = 20
VALUES_SHOWN = 50
"""Of one trailer; the files of the commit say the rest."""
VALUE_LENGTH = 200

DESIRED = "Headway-Desired"
JOB = "Headway-Job"
ATTEMPT = "Headway-Attempt"
REASON = "Headway-Reason"
EPOCH = "Headway-Epoch"
INTENT = "Headway-Intent"
PLAN = "Headway-Plan"
INPUTS = "Headway-Inputs"

_TRAILER = re.compile(r"(Headway-[A-Z][A-Za-z-]*): (.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A status commit's message, taken apart."""

    subject: str
    body: tuple[str, ...] = ()
    """The lines between subject and trailers."""
    trailers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def desired(self) -> CommitId | None:
        """The main commit that was acted on."""
        value = self._first(DESIRED)
        return None if value is None else CommitId(value)

    @property
    def plan(self) -> Digest | None:
        """Digest of the plan this commit records; None: it records no decision."""
        value = self._first(PLAN)
        return None if value is None else Digest(value)

    @property
    def inputs(self) -> Digest | None:
        """Digest of the snapshot the plan was made from."""
        value = self._first(INPUTS)
        return None if value is None else Digest(value)

    @property
    def epoch(self) -> int | None:
        """Epoch of the reconciler that wrote it."""
        value = self._first(EPOCH)
        return int(value) if value is not None and value.isdecimal() else None

    def _first(self, name: str) -> str | None:
        values = self.trailers.get(name, ())
        return values[0] if values else None


def status_message(
    update: StatusUpdate,
    *,
    epoch: int,
    desired: CommitId,
    plan: Plan | None = None,
    inputs: Digest | None = None,
    note: str = "",
) -> str:
    """Return the message of the commit that records ``update``.

    ``plan`` gives the intents and the digest; ``note`` is a sentence for people, put before the
    job lines (a history accepted by hand, a security event).
    """
    actions = plan.actions if plan is not None else ()
    trailers = [
        (DESIRED, (desired,)),
        (
            JOB,
            sorted(
                {status.job for status in update.changed}
                | {status.reservation for status in update.reservations}
            ),
        ),
        (ATTEMPT, _attempts(update.transitions, actions)),
        (
            REASON,
            sorted(
                {str(each.reason) for each in update.transitions}
                | {str(each.reason) for each in update.occurrences}
            ),
        ),
        (INTENT, tuple(_intent(action) for action in actions)),
        (PLAN, (plan.digest,) if plan is not None and plan.digest else ()),
        (INPUTS, (inputs,) if inputs else ()),
        (EPOCH, (str(epoch),)),
    ]
    paragraphs = [
        _subject(update),
        one_line(note),
        "\n".join(_lines(update)),
        "\n".join(
            f"{name}: {one_line(value)}"
            for name, values in trailers
            for value in tuple(values)[:VALUES_SHOWN]
        ),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph) + "\n"


def parse_message(text: str) -> Message:
    """Return the parts of a status commit's message; trailers only from its last paragraph."""
    paragraphs = text.strip("\n").split("\n\n")
    trailers: dict[str, list[str]] = {}
    found = [_TRAILER.fullmatch(line) for line in paragraphs[-1].splitlines()]
    if len(paragraphs) > 1 and all(found):
        for match in found:
            if match is not None:
                trailers.setdefault(match[1], []).append(match[2])
        paragraphs = paragraphs[:-1]
    lines = [line for paragraph in paragraphs for line in paragraph.splitlines()]
    return Message(
        subject=lines[0] if lines else "",
        body=tuple(lines[1:]),
        trailers={name: tuple(values) for name, values in trailers.items()},
    )


def one_line(text: str) -> str:
    """Return ``text`` as one printable line of at most 200 characters."""
    kept = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(kept.split())[:VALUE_LENGTH]


def _subject(update: StatusUpdate) -> str:
    """Phases are counted in the order of a job's life, so equal updates read the same."""
    counts = Counter(status.phase for status in update.changed)
    phases = ", ".join(f"{counts[phase]} {phase}" for phase in JobPhase if counts[phase])
    parts = [f"{_counted(len(update.changed), 'job')} ({phases})"] if phases else []
    kept = Counter(status.phase for status in update.reservations)
    if kept:
        phases = ", ".join(f"{kept[phase]} {phase}" for phase in ReservationPhase if kept[phase])
        parts.append(f"{_counted(len(update.reservations), 'reservation')} ({phases})")
    return f"status: {', '.join(parts)}" if parts else "status: forecast"


def _counted(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _lines(update: StatusUpdate) -> list[str]:
    """Return one line a job, then one an occurrence of a reservation."""
    lines = [
        one_line(f"{each.job}: {each.before or 'new'} -> {each.after} ({each.reason})")
        for each in update.transitions
    ]
    lines += [
        one_line(
            f"{each.reservation} {rfc3339(each.start)}: {each.before or 'new'} -> {each.after}"
            f" ({each.reason})"
        )
        for each in update.occurrences
    ]
    if len(lines) > LINES_SHOWN:
        lines = [*lines[:LINES_SHOWN], f"+{len(lines) - LINES_SHOWN} more"]
    return lines


def _attempts(transitions: Iterable[Transition], actions: Iterable[Action]) -> list[str]:
    named = {str(each.attempt) for each in transitions if each.attempt is not None}
    return sorted(named | {str(action.attempt) for action in actions})


def _intent(action: Action) -> str:
    match action:
        case Launch():
            return f"launch {action.attempt}"
        case Stop():
            return f"stop {action.attempt} {action.cause}"
        case Kill():
            return f"kill {action.attempt}"
