"""How many tokens each sample has, read from the mapped file without making Python lists of it."""

from typing import Any

ANSWERS = ("chosen_ids", "rejected_ids")
"""Of a pair, both are padded to the longer one."""


def of_samples(dataset: Any) -> list[int]:
    """Return the tokens of each sample: of its text, or of its question and longer answer."""
    import pyarrow.compute as compute  # type: ignore[import-untyped]

    table = dataset.with_format("arrow")[:]
    columns = set(table.column_names)

    def tokens(name: str) -> Any:
        return compute.list_value_length(table[name])

    if "input_ids" in columns:
        found = tokens("input_ids")
    else:
        found = compute.max_element_wise(*(tokens(name) for name in ANSWERS))
        if "prompt_ids" in columns:
            found = compute.add(found, tokens("prompt_ids"))
    lengths: list[int] = found.to_pylist()
    return lengths
