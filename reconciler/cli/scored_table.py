"""Predicts and scores a table of measured runs: ``headway estimate --csv``.

The columns are those of the public table (``docs/estimating.md``); measured ones are read for
the scores alone, and a table without them is predicted all the same.
"""

import csv
from dataclasses import asdict
from pathlib import Path

import click

from reconciler.cli.output import emit
from reconciler.errors import NotFoundError, UsageError
from reconciler.estimating.margins import margin
from reconciler.estimating.score_text import lines
from reconciler.estimating.scoring import Case, case, scores
from reconciler.specs.model_catalogue import shipped_constants, shipped_gpus, shipped_models

ADDED = (
    "predicted_mem_gb_p50",
    "predicted_mem_gb_p90",
    "predicted_fits",
    "predicted_tokens_per_s_per_gpu",
)
NEEDED = ("model", "gpu", "seq_len")


def score_table(table: Path, out: Path | None, output: str) -> None:
    """Write predictions to ``out`` and print the scores.

    Raises ``NotFoundError`` where there is no such table, ``UsageError`` that names the row and
    column of what cannot be read.
    """
    rows, columns = _read(table)
    constants = shipped_constants()
    found = []
    for number, row in enumerate(rows, start=2):
        try:
            found.append(case(row, shipped_models(), shipped_gpus(), constants))
        except ValueError as error:
            raise UsageError(f"{table}, line {number}: {error}") from error
    if out is not None:
        _write(out, columns, rows, found)
    result = scores(found, constants)
    if output == "json":
        emit({"kind": "EstimateScores", **asdict(result)}, "json")
    else:
        click.echo("\n".join(lines(result)))


def _read(table: Path) -> tuple[list[dict[str, str]], list[str]]:
    try:
        with table.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            rows = [{key: value or "" for key, value in row.items() if key} for row in reader]
            columns = list(reader.fieldnames or ())
    except FileNotFoundError as error:
        raise NotFoundError(f"{table}: no such file") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{table} cannot be read as CSV: {error}") from error
    missing = [column for column in NEEDED if column not in columns]
    if missing:
        raise UsageError(f"{table} has no column {', '.join(missing)}")
    return rows, columns


def _write(out: Path, columns: list[str], rows: list[dict[str, str]], cases: list[Case]) -> None:
    names = [column for column in columns if column not in ADDED]
    with out.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, [*names, *ADDED], extrasaction="ignore")
        writer.writeheader()
        for row, one in zip(rows, cases, strict=True):
            writer.writerow({**row, **predictions(one)})


def predictions(one: Case) -> dict[str, str]:
    """Return the added columns of one row: GiB as the row's instrument shows, tokens a second."""
    factor = margin(one.run.training, shipped_constants().margins).p90
    return {
        "predicted_mem_gb_p50": f"{one.p50_gib:.3f}",
        "predicted_mem_gb_p90": f"{one.p50_gib * factor:.3f}",
        "predicted_fits": "yes" if one.estimate.fit.fits else "no",
        "predicted_tokens_per_s_per_gpu": f"{one.estimate.speed.tokens_per_s_per_gpu:.1f}",
    }
