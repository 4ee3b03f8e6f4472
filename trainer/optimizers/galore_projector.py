"""Which few directions hold most of a gradient: the subspace GaLore keeps its states in.

A gradient G of m x n is projected on its r dominant left singular vectors where m <= n, on the
right ones elsewhere (Zhao et al. 2024, "GaLore", section 4): the basis always spans the smaller
side.  A full SVD costs minutes where a training step costs seconds, so the basis comes from a
random sketch with power iterations (Halko, Martinsson and Tropp 2011, algorithms 4.4 and 5.1).

Rule kept: equal gradients and an equal generator give an equal basis, bit for bit.
"""

import torch

OVERSAMPLING = 16
"""Sketch columns beyond the rank."""
POWER_ITERATIONS = 2


def dominant_basis(
    gradient: torch.Tensor,
    rank: int,
    *,
    generator: torch.Generator,
    power_iterations: int = POWER_ITERATIONS,
) -> torch.Tensor:
    """Return ``rank`` orthonormal columns, (smaller side, rank) in float32, strongest first.

    Where the sketch would be half as wide as the smaller side or wider, the eigenvectors of the
    Gram matrix are cheaper and exact, and no random numbers are drawn.
    """
    wide = oriented(gradient).float()
    sketched = rank + OVERSAMPLING
    if 2 * sketched >= wide.shape[0]:
        return _strongest(wide @ wide.T, rank)
    sketch = torch.randn(
        (wide.shape[1], sketched), generator=generator, device=wide.device, dtype=torch.float32
    )
    span = torch.linalg.qr(wide @ sketch).Q
    for _ in range(power_iterations):
        # orthonormal again after each product: plain powers lose the weak directions to rounding
        span = torch.linalg.qr(wide @ torch.linalg.qr(wide.T @ span).Q).Q
    inside = span.T @ wide
    return span @ _strongest(inside @ inside.T, rank)


def exact_basis(gradient: torch.Tensor, rank: int) -> torch.Tensor:
    """Return the same from a full SVD: what ``dominant_basis`` is measured against."""
    return torch.linalg.svd(oriented(gradient).float(), full_matrices=False).U[:, :rank]


def _strongest(gram: torch.Tensor, rank: int) -> torch.Tensor:
    return torch.linalg.eigh(gram).eigenvectors.flip(-1)[:, :rank].contiguous()


def oriented(matrix: torch.Tensor) -> torch.Tensor:
    """Return the matrix with its smaller side first."""
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T


def project(gradient: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
    """Return the gradient in the coordinates of the basis: (rank, n) or (m, rank)."""
    if gradient.shape[0] <= gradient.shape[1]:
        return basis.T @ gradient
    return gradient @ basis


def project_back(update: torch.Tensor, basis: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Return an update of the projected states as one of the whole matrix of ``shape``."""
    return basis @ update if shape[0] <= shape[1] else update @ basis.T


def captured_energy(gradient: torch.Tensor, basis: torch.Tensor) -> float:
    """Return the share of the gradient's squared Frobenius norm inside the basis, 0 to 1."""
    inside = project(gradient.float(), basis.float())
    return float(inside.square().sum() / gradient.float().square().sum())


def overlap(new: torch.Tensor, old: torch.Tensor) -> float:
    """Return the mean squared cosine of the principal angles between two bases, 0 to 1.

    1 for the same subspace however its columns are turned or signed; rank / side for two random
    ones.
    """
    return float((new.float().T @ old.float()).square().sum() / new.shape[1])
