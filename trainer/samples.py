"""The samples of a training: rows read, tokenised, cut or packed, and mapped from disk.

Rule kept: rows go through memory a thousand at a time and samples are mapped from files, so the
size of the data does not matter; every row that gave no sample is counted and some are named.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from trainer import data, packing, token_cache
from trainer.checkpoints import sha256_of
from trainer.config import Request, RequestError
from trainer.files import read_json, write_json

ROWS = 1000
"""Rows in memory at a time."""
NAMED = 5
META = "meta.json"
TOO_LONG = "too long"
EMPTY = "nothing to learn"

Sample = Mapping[str, Any]


@dataclass(slots=True)
class Lost:
    """Rows that gave no sample: how many, and the first few."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, list[str]] = field(default_factory=dict)

    def add(self, why: str, sources: tuple[str, ...]) -> None:
        """Count rows lost for a reason."""
        self.counts[why] = self.counts.get(why, 0) + len(sources)
        shown = self.first.setdefault(why, [])
        shown.extend(sources[: NAMED - len(shown)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What there is to train and to evaluate on."""

    dataset: Any
    eval_dataset: Any
    """None where nothing is evaluated."""
    digest: str
    """Of everything the samples were made from."""
    files: Mapping[str, str]
    """Name of each data file and its sha256."""
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Makes the samples of one request."""

    recipe: Any
    request: Request
    tokenizer: Any
    sources: Mapping[str, data.Source]
    """Of ``train``, and of ``eval`` where the request names data for it."""

    def make(self, folder: Path) -> None:
        """Write the samples, and what should be said of them, to ``folder``."""
        kept_back = self._kept_back()
        warnings = self._part("train", folder, leaves_out=kept_back)
        if "eval" in self.sources:
            warnings += self._part("eval", folder)
        elif kept_back:
            self._part("eval", folder, takes_only=kept_back)
        write_json(folder / META, {"warnings": warnings})

    def _kept_back(self) -> frozenset[int]:
        ratio = self.request.train["split_dataset_ratio"]
        if "eval" in self.sources or ratio <= 0:
            return frozenset()
        # which rows are kept back depends on how many there are, so they are counted first
        count = sum(1 for _ in self.sources["train"].rows(data.Tally()))
        return data.held_out(count, ratio=ratio, seed=self.request.seed)

    def _part(
        self,
        name: str,
        folder: Path,
        *,
        leaves_out: frozenset[int] = frozenset(),
        takes_only: frozenset[int] | None = None,
    ) -> list[str]:
        """Write one part and return what should be said of it."""
        train = self.request.train
        source = self.sources.get(name, self.sources["train"])
        tally, lost = data.Tally(), Lost()
        rows = (
            row
            for number, row in enumerate(source.rows(tally))
            if number not in leaves_out and (takes_only is None or number in takes_only)
        )
        plain, final = folder / f"{name}.plain.arrow", folder / f"{name}.arrow"
        found = write(plain, self._encoded(rows, tally, lost, strict=source.strict))
        tally.check(source.names, task=train["task"], strict=source.strict)
        if not found:
            raise RequestError(
                f"train.dataset: no sample is left: {lost.counts.get(TOO_LONG, 0)} are longer than "
                f"max_length {train['max_length']}, {lost.counts.get(EMPTY, 0)} have no token to "
                "learn"
            )
        dataset = opened(plain)
        arranged = self.recipe.arrange(dataset, train)
        warnings = _told(tally, lost, train, _pieces(dataset, train))
        if arranged is dataset:
            plain.rename(final)
        else:
            write(final, (part.to_pylist() for part in _tables(arranged)))
            plain.unlink()
        return warnings

    def _encoded(
        self, rows: Iterator[Any], tally: data.Tally, lost: Lost, *, strict: bool
    ) -> Iterator[list[Sample]]:
        while some := list(islice(rows, ROWS)):
            if tally.refused and strict:
                continue  # the request will be refused: only the counting goes on
            encoded = self.recipe.encode(some, tokenizer=self.tokenizer, train=self.request.train)
            lost.add(TOO_LONG, encoded.too_long)
            lost.add(EMPTY, encoded.nothing_to_learn)
            yield list(encoded.samples)


def prepare(recipe: Any, request: Request, tokenizer: Any) -> Prepared:
    """Return the samples of a request, from the cache or made now.

    Raises RequestError where data are missing, rows are refused or no sample is left.
    """
    sources = _sources(recipe, request)
    digests = {path: sha256_of(path) for source in sources.values() for path in source.files}
    digest = token_cache.digest_of(
        request,
        tokenizer,
        {part: [digests[path] for path in source.files] for part, source in sources.items()}
        | ({"recipe": [recipe.stamp]} if recipe.stamp else {}),
    )
    maker = Maker(recipe=recipe, request=request, tokenizer=tokenizer, sources=sources)
    folder = token_cache.entry(digest, maker.make)
    held = folder / "eval.arrow"
    return Prepared(
        dataset=opened(folder / "train.arrow"),
        eval_dataset=opened(held) if held.is_file() else None,
        digest=digest,
        files={path.name: sha256 for path, sha256 in digests.items()},
        warnings=tuple((read_json(folder / META) or {"warnings": []})["warnings"]),
    )


def _sources(recipe: Any, request: Request) -> dict[str, data.Source]:
    train = request.train
    named = {"train": train["dataset"], "eval": train["val_dataset"]}
    return {
        part: data.source(
            names,
            root=request.data_root,
            task=train["task"],
            system=train["system"],
            strict=train["strict"],
            columns=train["columns"],
            parse=recipe.parse,
        )
        for part, names in named.items()
        if names
    }


def _pieces(dataset: Any, train: Mapping[str, Any]) -> int:
    """Return how many samples are longer than a packed row."""
    if not train["packing"]:
        return 0
    limit = packing.packing_length(train)
    if limit >= train["max_length"]:
        return 0
    return sum(len(sample["input_ids"]) > limit for sample in dataset)


def _told(tally: data.Tally, lost: Lost, train: Mapping[str, Any], pieces: int) -> list[str]:
    """Return a warning for each kind of row that is not trained on as it is."""
    told = []
    for count, first, words in (
        (tally.refused, tally.first_refused, "rows are unusable and were dropped"),
        (tally.set_aside, tally.first_set_aside, "rows were left out"),
    ):
        if count:
            told.append(f"{count} {words}: {'; '.join(first[:3])}")
    for why, words in (
        (TOO_LONG, f"are longer than max_length {train['max_length']}"),
        (EMPTY, "have no token to learn"),
    ):
        if lost.counts.get(why):
            shown = ", ".join(lost.first[why])
            told.append(f"{lost.counts[why]} samples {words} and were dropped: {shown}")
    if pieces:
        limit = packing.packing_length(train)
        told.append(
            f"{pieces} samples are longer than packing_length {limit} and were cut into pieces"
        )
    return told


def write(path: Path, parts: Iterable[list[Sample]]) -> int:
    """Write samples as one Arrow stream and return their number.

    A column that is empty in one part and filled in another takes the type of the filled one.
    """
    import pyarrow  # type: ignore[import-untyped]

    pieces: list[Path] = []
    schemas = []
    count = 0
    for part in parts:
        if not part:
            continue
        table = pyarrow.Table.from_pylist([dict(sample) for sample in part])
        pieces.append(path.with_name(f"{path.name}.{len(pieces)}"))
        _stream(pieces[-1], table.schema, [table])
        schemas.append(table.schema)
        count += len(part)
    if count:
        whole = pyarrow.unify_schemas(schemas, promote_options="permissive")
        _stream(path, whole, (_read(piece).cast(whole) for piece in pieces))
    for piece in pieces:
        piece.unlink()
    return count


def _stream(path: Path, schema: Any, tables: Iterable[Any]) -> None:
    import pyarrow

    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, schema) as stream:
        for table in tables:
            stream.write_table(table)


def _read(path: Path) -> Any:
    import pyarrow

    with pyarrow.memory_map(str(path)) as file:
        return pyarrow.ipc.open_stream(file).read_all()


def _tables(dataset: Any) -> Iterator[Any]:
    for start in range(0, len(dataset), ROWS):
        yield dataset.with_format("arrow")[start : start + ROWS]


def opened(path: Path) -> Any:
    """Return the samples of a file as a ``datasets.Dataset`` that maps it."""
    from datasets import Dataset

    return Dataset.from_file(str(path))
