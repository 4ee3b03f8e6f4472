"""``make demo``: the main job for real, on this machine, in a few minutes.

A scratch repository, two teams that commit, a reconciler that plans and launches, trainers that
train, one preemption, and the audit trail.  Exit 0 only if every expectation held.
"""

import argparse
import sys
from pathlib import Path

from tests.demo.display import Display
from tests.demo.ending import Ending
from tests.demo.fleet import ROOT, Fleet
from tests.demo.story import FROM_SAMPLES, Story, StoryError
from tests.demo.watch import Watch


def main() -> int:
    """Play the story in ``--folder`` and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "demo")
    folder = parser.parse_args().folder.absolute()
    fleet = Fleet(folder, FROM_SAMPLES)
    fleet.create()
    watch = Watch(fleet.origin, fleet.runs, fleet.cluster)
    with Display(watch) as display:
        display.say(f"scratch fleet: {fleet.origin}   log: {fleet.log}")
        story = Story(fleet, watch, display)
        fleet.start_reconciler()
        try:
            story.play()
        except StoryError as error:
            display.say(f"FAILED: {error}")
            print(f"the end of {fleet.log}:", file=sys.stderr)
            print("\n".join(fleet.log_tail()), file=sys.stderr)
            return 1
        finally:
            fleet.stop_reconciler()
    ending = Ending(fleet, story, display.console)
    ending.show()
    return ending.verdict()


if __name__ == "__main__":
    sys.exit(main())
