"""The customer-service story in small: T1, T2, T3, then an urgent T4 while T2 trains.

Each ``wait`` states what must become true; when it does not within its time, the demo fails and
says what it was waiting for.  Nothing here acts on the fleet but commits.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from reconciler.domain.attempt import AttemptPhase
from reconciler.domain.status import JobPhase
from tests.demo.display import Display
from tests.demo.fleet import Fleet, Person
from tests.demo.watch import Watch

T1, T2, T3, T4 = "support/t1-sft", "search/t2-intents", "search/t3-ranking", "support/t4-urgent-dpo"
GREEDY = "labs/everything"
SAM = Person("Sam Support", "sam@example.com")
SEA = Person("Sea Search", "sea@example.com")
LEE = Person("Lee Labs", "lee@example.com")
POLL_S = 0.5
FROM_SAMPLES = frozenset({T1, T2, T3})
DEADLINE_IN = timedelta(minutes=45)


class StoryError(Exception):
    """The fleet did not do what the story expects."""


@dataclass(slots=True)
class Story:
    """Plays the story and keeps the list of expectations with their verdicts."""

    fleet: Fleet
    watch: Watch
    display: Display
    expectations: list[tuple[str, bool]] = field(default_factory=list)

    def play(self) -> None:
        """Play it all.  Raises :class:`StoryError` when the fleet gets stuck."""
        self._ordinary_work()
        self._urgent_work()
        self._afterwards()

    def expect(self, text: str, held: bool) -> None:
        """Note one expectation."""
        self.expectations.append((text, held))
        self.display.say(f"{'ok ' if held else 'NOT'} {text}")

    def wait(self, what: str, reached: Callable[[], bool], *, within_s: float) -> None:
        """Look at the fleet until ``reached``.  Raises :class:`StoryError` after ``within_s``."""
        end = time.monotonic() + within_s
        while True:
            for change in self.watch.look():
                self.display.changed(change)
            self.display.refresh()
            if reached():
                return
            code = self.fleet.reconciler_ended()
            if code is not None:
                raise StoryError(f"the reconciler left with code {code} while waiting until {what}")
            if time.monotonic() > end:
                raise StoryError(f"not within {within_s:.0f} s: {what}")
            time.sleep(POLL_S)

    def _ordinary_work(self) -> None:
        for team in ("support", "search", "labs"):
            self.fleet.clone(team)
        self.display.say(
            "support commits T1: fine-tune a real model on support chats (P1, 4 cards)"
        )
        self.fleet.write("support", T1, self.fleet.job_text(T1))
        self.fleet.commit("support", SAM, "Fine-tune the support assistant on chats")
        self.wait("T1 runs", lambda: self._is(T1, JobPhase.RUNNING), within_s=60)
        self.display.say(
            "search commits T2, an embedding (P2, 6 cards, may be preempted), and T3, a reranker "
            "(P3, 4 cards)"
        )
        for job in (T2, T3):
            self.fleet.write("search", job, self.fleet.job_text(job))
        self.fleet.commit(
            "search", SEA, "Train the embedding of searches and the reranker of answers"
        )
        self.wait("T2 and T3 wait", lambda: self._is(T2, JobPhase.PENDING), within_s=60)
        self.expect(
            "T2 wants more cards than are left, so it waits", self._is(T1, JobPhase.RUNNING)
        )
        self.wait("T1 is trained", lambda: self._is(T1, JobPhase.SUCCEEDED), within_s=240)
        self.wait("T2 runs", lambda: self._is(T2, JobPhase.RUNNING), within_s=60)
        self.expect("T2 takes T1's cards, T3 goes on waiting", self._is(T3, JobPhase.PENDING))
        self.wait("T2 is at work", lambda: self.watch.progress(T2).step >= 8, within_s=120)

    def _urgent_work(self) -> None:
        at = self.watch.progress(T2).step
        self.display.say(f"support commits T4, urgent (P0, deadline soon), with T2 at step {at}")
        deadline = (datetime.now(UTC) + DEADLINE_IN).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.fleet.write("support", T4, urgent_job(deadline))
        self.fleet.commit("support", SAM, "Urgent: teach the assistant the preferred answers")
        self.display.say('labs commits a job that asks for `gpus: "*"`')
        self.fleet.write("labs", GREEDY, greedy_job())
        self.fleet.commit("labs", LEE, "Take everything")
        self.wait(
            "T2 left with a checkpoint",
            lambda: any(a.phase is AttemptPhase.PREEMPTED for a in self.watch.attempts(T2)),
            within_s=90,
        )
        first = self.watch.attempts(T2)[0]
        self.expect(
            f"T2 was asked to leave and saved step {first.checkpoint_step}",
            first.checkpoint_step is not None and first.checkpoint_step >= at,
        )
        self.wait("T4 runs", lambda: self._is(T4, JobPhase.RUNNING), within_s=60)
        self.expect("T4 runs on the cards T2 left", T4 in self.watch.phases)
        self.wait("the greedy job is refused", lambda: GREEDY in self.watch.phases, within_s=60)
        refused = self.watch.statuses.get(GREEDY)  # type: ignore[call-overload]
        self.expect(
            f"the greedy job is refused and recorded with its author: {refused.reason}",
            refused.phase is JobPhase.INVALID and LEE.email in refused.message,
        )

    def _afterwards(self) -> None:
        self.wait("T4 is trained", lambda: self._is(T4, JobPhase.SUCCEEDED), within_s=180)
        self.wait("T2 runs again", lambda: len(self.watch.attempts(T2)) == 2, within_s=60)
        self.wait("T2 is trained", lambda: self._is(T2, JobPhase.SUCCEEDED), within_s=240)
        self.wait("T3 is trained", lambda: self._is(T3, JobPhase.SUCCEEDED), within_s=240)
        self.expect("every job but the refused one is trained", True)

    def _is(self, job: str, phase: JobPhase) -> bool:
        now = self.watch.phase(job)
        if now in (JobPhase.FAILED, JobPhase.DIVERGED, JobPhase.CANCELLED) and now != phase:
            status = self.watch.statuses[job]  # type: ignore[index]
            raise StoryError(f"{job} {now}: {status.reason} {status.message}")
        return now is phase


def urgent_job(deadline: str) -> str:
    """Return T4: preference training of the small model, urgent."""
    return f"""\
defaults: [/model: tiny-qwen3, /task: dpo, /tuner: lora, /data: support-pairs, _self_]
api_version: headway/v1
kind: Job
priority: P0
serves_online: true
deadline: "{deadline}"
preemption: {{allowed: false}}
resources: {{gpus: 4, within: node}}
time: {{estimate: 1m, limit: 10m}}
train: {{max_steps: 12, per_device_train_batch_size: 1, max_length: 128}}
"""


def greedy_job() -> str:
    """Return the job that asks for every card there is."""
    return """\
defaults: [/model: tiny-qwen3, /task: sft, /tuner: full, /data: support-chats, _self_]
api_version: headway/v1
kind: Job
resources: {gpus: "*"}
train: {max_steps: 10}
"""
