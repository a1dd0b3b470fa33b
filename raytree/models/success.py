"""The chance that a trial gives a value at all, as a function of its row: crashes, and values that are no finite numbers.

Success and failure are taken for the numbers 1 and -1 and modelled as losses are, by the tree-structured Gaussian process of
`models.tree`: what fails on one path, in a region of it, or for some values of a shared parameter says so in the same way as
what is bad there. The chance of success is then the probability that a normal with the model's mean and variance, and the
`BLUR` of a border that nobody knows exactly, is positive. Before anything is known success is expected.

Least-squares classification (Rasmussen and Williams 2006, section 6.5): nothing has to be iterated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raytree.gp.linalg import Array
from raytree.lazy import special
from raytree.models.features import Features
from raytree.models.tree import Named, TreeModel
from raytree.space import Path, Space

BLUR = 0.3
"""The deviation of the border between success and failure, where they are two apart."""
EXPLAINED = 0.5
"""Trials fail because of where they are if that explains this share of the variance between success and failure."""
CAUTION = 4.0
"""The chance counts to this power: a failed trial takes as long as another one and says less."""
EVALUATIONS = 15
"""Of the likelihood in one fit."""
_LOG_ROOT_2PI = 0.5 * np.log(2.0 * np.pi)


class Success:
    """The chance of success on one data set.

    Args:
        space: the search space.
        rows: (n, d) of trials that have ended.
        paths: n paths.
        failed: (n,) which of them have failed.
        previous: hyperparameters of an earlier one, to start from.
        fit: whether to estimate hyperparameters again.
    """

    def __init__(
        self,
        space: Space,
        rows: Array,
        paths: Sequence[Path],
        failed: np.ndarray,
        previous: Named | None = None,
        fit: bool = True,
    ) -> None:
        model = TreeModel(space, Features(space), rows, np.where(failed, -2.0, 0.0), paths)
        theta = model.fit(previous, EVALUATIONS).theta if fit else model.start(previous)
        self.theta = model.named(theta)
        self._failed = failed
        self._posterior = model.posterior(theta)

    def by_place(self) -> bool:
        """Whether trials fail because of where they are; else failures are accidents, such as lost nodes.

        The model's mean of failed trials less that of the others, between 0 and 1, is the share of variance explained. What
        happens to most trials is no accident.
        """
        if not self._failed.any() or 2 * self._failed.sum() > len(self._failed):
            return True
        expected = -0.5 * self._posterior.observed_means()
        return bool(expected[self._failed].mean() - expected[~self._failed].mean() > EXPLAINED)

    def log_chance(self, path: Path, rows: Array) -> Array:
        """(m,) the log of the chance at rows (m, d) of one path, times `CAUTION`."""
        mean, sd = self._posterior.predict(path, rows)
        return np.asarray(CAUTION * special.log_ndtr((1.0 + mean) / np.sqrt(sd**2 + BLUR**2)))

    def log_chances(self, paths: Sequence[Path], rows: Array) -> Array:
        """(m,) the same at rows (m, d), each on its path."""
        out, groups = np.empty(len(rows)), dict[Path, list[int]]()
        for k, path in enumerate(paths):
            groups.setdefault(path, []).append(k)
        for path, index in groups.items():
            out[index] = self.log_chance(path, rows[index])
        return out

    def log_chance_slope(self, path: Path, row: Array) -> tuple[float, Array]:
        """`log_chance` at one row (d,), and its gradient (d,)."""
        mean, sd, by_mean, by_sd = self._posterior.gradient(path, row)
        total = float(np.sqrt(sd**2 + BLUR**2))
        z = (1.0 + mean) / total
        value = float(special.log_ndtr(z))
        hazard = float(np.exp(-0.5 * z**2 - _LOG_ROOT_2PI - value))
        return CAUTION * value, CAUTION * hazard * (by_mean / total - z * sd / total**2 * by_sd)
