"""How long is a job expected to run, and at which gang sizes?

The duration rests on what the document says: its estimate, else half its limit, else the
policy's default.  The bound p90 is the limit, else one and a half times p50: a limit is what a
person is sure to need at most, an estimate is what one hopes for.
"""

from reconciler.domain.job import GangSize, JobSpec
from reconciler.domain.policy import Policy
from reconciler.domain.units import Seconds


def gang_sizes(spec: JobSpec, policy: Policy) -> tuple[GangSize, ...]:
    """Return the legal sizes of ``spec``, the requested one first; durations in seconds.

    Without an elastic range there is one size.
    """
    p50, p90 = expected_duration_s(spec, policy)
    only = spec.gpus.types[0] if len(spec.gpus.types) == 1 else ""
    return (GangSize(gpus=spec.gpus.count, gpu_type=only, duration_p50_s=p50, duration_p90_s=p90),)


def expected_duration_s(spec: JobSpec, policy: Policy) -> tuple[Seconds, Seconds]:
    """Return (p50, p90) of the running time of one generation, in seconds, p50 <= p90."""
    limit = spec.limit_s
    if spec.estimate_s is not None:
        p50 = int(spec.estimate_s)
    elif limit is not None:
        p50 = limit // 2
    else:
        p50 = int(policy.default_duration_s)
    if limit is not None:
        p50 = min(p50, limit)
    p50 = max(p50, 1)
    p90 = int(limit) if limit is not None else p50 * 3 // 2
    return Seconds(p50), Seconds(max(p90, p50))
