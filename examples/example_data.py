"""Classification data for the examples and benchmarks: gzipped CSV files, or the sets that scikit-learn ships."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np

SHIPPED = ("breast_cancer", "digits", "odd_digits", "wine")
"""Names of scikit-learn's own sets; `odd_digits` asks whether a digit is odd."""


def load(source: str) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, k) and labels (n,) of a set.

    Args:
        source: one of `SHIPPED`, or the path of a CSV file (gzipped or not) with a header and the label in the last column.
    """
    if source in SHIPPED:
        from sklearn import datasets

        name = "digits" if source == "odd_digits" else source
        features, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
        return features, (labels % 2).astype(int) if source == "odd_digits" else labels
    opened = gzip.open(source, "rt") if source.endswith(".gz") else open(source)  # noqa: SIM115
    with opened as file:
        next(file)
        table = list(csv.reader(file))
    columns = [list(column) for column in zip(*table, strict=True)]
    features = np.column_stack([_numbers(column) for column in columns[:-1]])
    return features, np.unique(columns[-1], return_inverse=True)[1]


def _numbers(column: list[str]) -> np.ndarray:
    """A column as numbers, gaps filled with the mean; text by its rank."""
    try:
        values = np.array([float(value) if value not in ("", "?") else np.nan for value in column])
    except ValueError:
        values = np.unique(column, return_inverse=True)[1].astype(float)
    return np.where(np.isnan(values), np.nanmean(values), values)


def listed(folder: Path, classes: int | None = None) -> list[str]:
    """The files that a folder's INDEX.csv (name, file, rows, features, classes) lists, or those with so many classes."""
    with (folder / "INDEX.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [str(folder / row["file"]) for row in rows if classes is None or int(row["classes"]) == classes]
