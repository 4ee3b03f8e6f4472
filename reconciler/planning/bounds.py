"""How many GPU-seconds may a job use at most, by its own limits?

``max_gpu_hours`` bounds them as they are; ``time.limit`` bounds the time: the largest gang counts.
"""

from reconciler.domain.job import JobSpec


def most_gpus(spec: JobSpec) -> int:
    """Return the largest gang a job may be started at."""
    return max(spec.gpus.count, spec.elastic.max_gpus if spec.elastic else 0)


def own_bound_gpu_s(spec: JobSpec | None, gpus: int, *, ran_s: int, used_gpu_s: int) -> int | None:
    """Return the GPU-seconds a job's own limits leave it on ``gpus``; None where it has none."""
    if spec is None:
        return None
    bounds = []
    if spec.limit_s is not None:
        bounds.append((spec.limit_s - ran_s) * gpus)
    if spec.max_gpu_hours is not None:
        bounds.append(int(spec.max_gpu_hours * 3600) - used_gpu_s)
    return max(min(bounds), 0) if bounds else None
