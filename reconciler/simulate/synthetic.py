"""Makes up a load: ``synthetic:JOBS[,key=value]``, the same for the same words and seed.

Arrivals are Poisson with the rhythm of a day, durations log-normal (median ``median`` seconds,
sigma ``sigma``: a few last a hundred times the median), gangs powers of two, the wide ones rare.
"""

from math import exp, log, pi, sin

from reconciler.simulate.asks import DAY_S
from reconciler.simulate.chance import normal, uniform
from reconciler.simulate.load import Load, LoadError, TraceJob, in_order

MADE_UP = "synthetic:"
SIZES = ((1, 0.45), (2, 0.15), (4, 0.15), (8, 0.15), (16, 0.06), (32, 0.03), (64, 0.01))
SETTINGS = {"per_hour": 40.0, "median": 1800.0, "sigma": 1.8, "widest": 64.0, "rhythm": 0.5}


def made_up(words: str, *, seed: int) -> Load:
    """Return the load that ``words`` describe.  Raises ``LoadError`` on words it does not know."""
    count, settings = _parsed(words)
    jobs, now = [], 0.0
    for number in range(count):
        name = f"s{number:06d}"
        rate = settings["per_hour"] / 3600
        rate *= 1 + settings["rhythm"] * sin(2 * pi * (now % DAY_S) / DAY_S)
        now += -log(1 - uniform(seed, "arrival", name)) / max(rate, 1e-9)
        jobs.append(
            TraceJob(
                id=name,
                submit_s=round(now),
                duration_s=max(
                    round(settings["median"] * exp(settings["sigma"] * normal(seed, "span", name))),
                    1,
                ),
                gpus=min(_size(uniform(seed, "size", name)), int(settings["widest"])),
            )
        )
    return in_order(jobs)


def _size(u: float) -> int:
    for gpus, share in SIZES:
        if u < share:
            return gpus
        u -= share
    return SIZES[-1][0]


def _parsed(words: str) -> tuple[int, dict[str, float]]:
    first, *rest = words.removeprefix(MADE_UP).split(",")
    settings = dict(SETTINGS)
    try:
        count = int(first)
        for word in rest:
            key, value = word.split("=")
            if key not in settings:
                raise LoadError(f"{words}: no setting {key}; there are {', '.join(SETTINGS)}")
            settings[key] = float(value)
    except ValueError:
        raise LoadError(f"{words}: write synthetic:JOBS, or synthetic:JOBS,per_hour=60") from None
    if count < 1 or settings["widest"] < 1 or not 0 <= settings["rhythm"] < 1:
        raise LoadError(f"{words}: needs a job or more, widest >= 1 and 0 <= rhythm < 1")
    return count, settings
