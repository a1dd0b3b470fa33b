"""What a search believes, in the user's sign and units. The only file here that looks inside optimizers and posteriors.

Everything else in `report` asks a `Belief`. A method without a model of its own (random search, somebody else's searcher) is
looked at through a `TreeOptimizer` that was told the same trials.

Notation: n trials, m rows (m, d) of one path; z, losses on the scale of the model, where lower is better.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from raytree.gp.linalg import Array, one_thread
from raytree.gp.posterior import Gaussian, Mixture, Posterior
from raytree.lazy import special
from raytree.models.hierarchical import HierarchicalPosterior
from raytree.models.treed import Partitioned
from raytree.optimizer import Optimizer, Recommendation
from raytree.optimizers.tree import TreeOptimizer
from raytree.space import Path, Space
from raytree.store import Status, Trial
from raytree.strategies.fitted import Fitted, Modelled
from raytree.strategies.pool import Pool
from raytree.strategies.seeds import SeedStrategy
from raytree.strategies.treed import TreedStrategy

NEVER = 10**9
"""As the number of trials of the last fit: hyperparameters stay as they are."""
FOLDS = 10
"""Parts of the trials that are left out in turn."""
MOST_LEFT_OUT = 400
"""Trials that are left out in all, evenly spread over the search."""


class Outlook(NamedTuple):
    """Predictions at m rows in the user's units: mean (m,), standard deviation (m,), and two of them to either side."""

    mean: Array
    sd: Array
    low: Array
    high: Array


class LeftOut(NamedTuple):
    """What the model says of a trial that it was not told of: the trial, and mean, low and high (95%) of a value there.

    `z` is how many standard deviations the value is from the mean, positive where it was worse than expected.
    """

    trial: Trial
    mean: float
    low: float
    high: float
    z: float


class Leaf(NamedTuple):
    """A part of an HTBO partition: the rules that lead to it, its points, its mean in the user's units, its length-scales."""

    rules: tuple[str, ...]
    points: int
    mean: float
    lengths: dict[str, float]


class Belief:
    """The posterior of a search, to be asked.

    Args:
        optimizer: one with a model; see `believe`.
        fitted: its posterior.
    """

    def __init__(self, optimizer: Optimizer, fitted: Fitted[Any]) -> None:
        self._optimizer, self._fitted = optimizer, fitted
        self._strategy = modelled(optimizer)
        self._sign = optimizer.observations.sign

    @property
    def space(self) -> Space:
        """The space as the user gave it."""
        return self._optimizer.given_space

    @property
    def lower_is_better(self) -> bool:
        return self._sign > 0

    def row(self, trial: Trial) -> Array:
        """(d,) a trial's row in that space."""
        return np.asarray(self._strategy.search.given_row(trial)[0])

    def z(self, path: Path, rows: Array) -> tuple[Array, Array]:
        """Mean (m,) and sd (m,) at rows (m, d) of one path, on the scale of the model."""
        with one_thread():
            prediction = self._fitted.posterior.predict(path, rows)
        return np.asarray(prediction.mean), np.asarray(prediction.sd)

    def predict(self, path: Path, rows: Array) -> Outlook:
        """What the metric is expected to be at rows (m, d) of one path, noise left out."""
        return self._in_units(*self.z(path, rows))

    def at(self, trials: Sequence[Trial]) -> Outlook:
        """The same at the configurations of some trials."""
        mean, sd = np.empty(len(trials)), np.empty(len(trials))
        for path, index in grouped([trial.path for trial in trials]).items():
            plain = path[: len(self.space.decisions)]
            mean[index], sd[index] = self.z(plain, np.array([self.row(trials[k]) for k in index]))
        return self._in_units(mean, sd)

    def recommend(self, optimizer: Optimizer) -> Recommendation | None:
        """What an optimizer recommends, from this posterior instead of another one of the same data."""
        if optimizer is not self._optimizer:
            return optimizer.recommend()
        return optimizer.recommended(self._strategy.answer_from(lambda: self._fitted))

    @property
    def _pool(self) -> Pool | None:
        return self._strategy.pool if isinstance(self._strategy, TreedStrategy) else None

    def candidates(self) -> Array | None:
        """(m, d) the rows that can still be tried, of a finite pool; None without one."""
        pool = self._pool
        return None if pool is None else pool.rows[pool.left(self._optimizer.observations)]

    def chance_below(self, path: Path, rows: Array, value: float) -> Array:
        """(m,) the probability that rows (m, d) are better than a value in the user's units."""
        mean, sd = self.z(path, rows)
        target = float(self._fitted.scale.forward(np.array([self._sign * value]))[0])
        return np.asarray(special.ndtr((target - mean) / sd))

    @property
    def noise(self) -> float:
        """The standard deviation of a repeated trial, in the user's units, around the best configuration."""
        z = np.array([self._fitted.best, self._fitted.best + noise_of(self._fitted.posterior)])
        low, high = self._fitted.scale.backward(z).tolist()
        return float(abs(high - low))

    def _in_units(self, mean: Array, sd: Array) -> Outlook:
        back = self._fitted.scale.backward
        middle, low, high = back(mean), back(mean - 2.0 * sd), back(mean + 2.0 * sd)
        one = np.maximum(middle - back(mean - sd), (back(mean + sd) - back(mean - sd)) / 2.0)
        ends = (low, high) if self._sign > 0 else (-high, -low)
        return Outlook(self._sign * middle, one, *ends)

    def left_out(self) -> list[LeftOut]:
        """Predictions of trials that the model was not told of, hyperparameters as estimated from all of them."""
        trials = [trial for trial in self._optimizer.observations.complete() if trial.value is not None]
        if len(trials) < 4:
            return []
        chosen = [trials[k] for k in np.unique(np.linspace(0, len(trials) - 1, min(len(trials), MOST_LEFT_OUT)).astype(int))]
        with one_thread():
            whole = modelled(copied(self._optimizer, lambda trial: True))
            whole.fit()
            estimated = {**whole.inference.state(), "fitted_to": NEVER}
            found: list[LeftOut] = []
            for k in range(min(FOLDS, len(chosen))):
                fold = chosen[k :: min(FOLDS, len(chosen))]
                out = {trial.id for trial in fold}
                part = modelled(copied(self._optimizer, lambda trial, out=out: trial.id not in out))  # type: ignore[misc]
                part.inference.restore(estimated)
                if part.ready():
                    found += self._predicted(part, fold)
        return sorted(found, key=lambda entry: entry.trial.number)

    def _predicted(self, part: Modelled, fold: Sequence[Trial]) -> list[LeftOut]:
        fitted = part.fit()
        around = noise_of(fitted.posterior)
        found = []
        for trial in fold:
            prediction = fitted.posterior.predict(trial.path[: len(self.space.decisions)], self.row(trial)[None])
            mean, sd = float(prediction.mean[0]), float(np.hypot(prediction.sd[0], around))
            low, middle, high = (self._sign * v for v in fitted.scale.backward(np.array([mean - 2 * sd, mean, mean + 2 * sd])))
            assert trial.value is not None
            z = float(fitted.scale.forward(np.array([self._sign * trial.value]))[0] - mean) / max(sd, 1e-12)
            found.append(LeftOut(trial, float(middle), float(min(low, high)), float(max(low, high)), z))
        return found

    # What single methods know

    @property
    def seed_key(self) -> str | None:
        """Where BOSH puts the seed; None for other methods."""
        return self._strategy.seed_key if isinstance(self._strategy, SeedStrategy) else None

    def shares_of_variance(self) -> dict[str, float]:
        """What the values of BOSH's trials vary by, in shares: the configuration, the seed, both together, noise."""
        p = self._fitted.posterior
        if not isinstance(p, HierarchicalPosterior):
            return {}
        parts = {"configuration": p.target, "seed": p.offset, "seed and configuration together": p.deviation, "noise": p.noise}
        total = sum(parts.values())
        return {name: float(value / total) for name, value in parts.items()}

    def partition(self) -> list[Leaf]:
        """The leaves of HTBO's partition, best mean first; none for other methods."""
        strategy, posterior = self._strategy, self._fitted.posterior
        if not isinstance(strategy, TreedStrategy) or not isinstance(posterior, Partitioned):
            return []
        leaves, means, inputs = [], posterior.target_means(), strategy.inference.inputs
        for leaf, path in zip(posterior.leaves, posterior.root.walk(), strict=True):
            rules = tuple(strategy.inference.rule(node, child) for node, child in itertools.pairwise(path))
            theta = np.mean([part.process.kernel.theta for part in leaf.parts], axis=0)  # type: ignore[attr-defined]
            lengths = np.exp(theta[3 : 3 + inputs.n_lengths]).tolist()
            mean = float(np.mean(means[path[-1].rows]))
            shown = dict(zip(inputs.labels, lengths, strict=True))
            leaves.append((mean, Leaf(rules, len(path[-1].rows), self._value(mean), shown)))
        return [leaf for _, leaf in sorted(leaves, key=lambda pair: pair[0])]

    def pool(self) -> tuple[int, list[tuple[Any, float, float]]] | None:
        """Of a finite pool how many are left, and the most promising ones: configuration, mean, sd. None without a pool."""
        pool = self._pool
        if pool is None:
            return None
        left = pool.left(self._optimizer.observations)
        if not len(left):
            return 0, []
        mean, sd = self.z((), pool.rows[left])
        order = np.argsort(mean, kind="stable")[:10]
        units = self._in_units(mean[order], sd[order])
        configs = [self.space.config(pool.points[k]) for k in left[order]]
        return len(left), list(zip(configs, units.mean.tolist(), units.sd.tolist(), strict=True))

    def _value(self, z: float) -> float:
        return float(self._sign * self._fitted.scale.backward(np.array([z]))[0])


def modelled(optimizer: Optimizer) -> Modelled:
    """The strategy of an optimizer with a model."""
    assert isinstance(optimizer.strategy, Modelled)
    return optimizer.strategy


def believe(optimizer: Optimizer) -> Belief | None:
    """What a search believes; None while there is nothing to learn from. Leaves no trace in the optimizer."""
    if not isinstance(optimizer.strategy, Modelled):
        optimizer = retold(optimizer)
    strategy = modelled(optimizer)
    if not strategy.ready() or not optimizer.observations.complete() or not optimizer.given_space.d:
        return None
    with one_thread():
        return Belief(optimizer, strategy.final())


def noise_of(posterior: Posterior) -> float:
    """The standard deviation of a value around the function that is predicted, on the scale of the model."""
    if isinstance(posterior, HierarchicalPosterior):
        return float(np.sqrt(posterior.deviation + posterior.offset + posterior.noise))
    if isinstance(posterior, Partitioned):
        return float(np.sqrt(np.mean([_noise(part) for leaf in posterior.leaves for part in leaf.parts])))
    assert isinstance(posterior, Mixture)
    return float(np.sqrt(np.average([_noise(part) for part in posterior.parts], weights=posterior.weights)))


def _noise(part: Gaussian) -> float:
    """The variance of a complete evaluation around the function."""
    block = next(iter(part.blocks))
    row = part.full(part.observed.rows[part.observed.members[block][:1], : part.process.d])
    return float(part.process.kernel.noise(block, part.process.kernel.inputs(block, row))[0])


def retold(optimizer: Optimizer) -> TreeOptimizer:
    """A `TreeOptimizer` that was told the trials of another optimizer."""
    seen = optimizer.observations
    other = TreeOptimizer(optimizer.given_space, seed=optimizer.seed, mode=seen.mode, on_error=seen.on_error, max_t=seen.max_t)
    _tell(other, seen)
    return other


def copied(optimizer: Optimizer, kept: Callable[[Trial], bool]) -> Optimizer:
    """The optimizer without its history, told of some of its trials; running ones are left out."""
    other = type(optimizer)(optimizer.given_space, **optimizer.settings())
    _tell(other, [trial for trial in optimizer.observations if trial.status is not Status.RUNNING and kept(trial)])
    return other


def _tell(optimizer: Optimizer, trials: Iterable[Trial]) -> None:
    """Puts copies of trials of the same space into an optimizer that has none."""
    for trial in trials:
        optimizer.observations.take(trial)


def grouped(paths: Sequence[Path]) -> dict[Path, list[int]]:
    """The places of equal paths."""
    groups: dict[Path, list[int]] = {}
    for k, path in enumerate(paths):
        groups.setdefault(path, []).append(k)
    return groups
