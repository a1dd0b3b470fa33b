"""Nine classifiers with fourteen hyperparameters: the CASH problem of Levesque et al. 2017, section V, on a local Ray.

    python examples/cash.py [--samples 40] [--data FILE.csv.gz]

The metric is the 5-fold error on standardised training data; the error on held-out data is reported beside it. QDA's
regularisation ends at 1, where scikit-learn's does, not at the paper's 1000.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from example_data import load
from ray import tune

from raytree.searchers import CondKernelSearcher, ProgressCallback


def space() -> dict[str, Any]:
    """The paper's space."""
    trees = {
        "max_depth": tune.randint(1, 11),
        "min_samples_split": tune.randint(2, 101),
        "min_samples_leaf": tune.randint(2, 101),
    }
    return {
        "classifier": tune.choice(
            [
                {"kind": "knn", "n_neighbors": tune.randint(1, 31)},
                {"kind": "svm", "C": tune.loguniform(1e-5, 1e5), "gamma": tune.loguniform(1e-5, 1e5)},
                {"kind": "linsvm", "C": tune.loguniform(1e-5, 1e5)},
                {"kind": "dt", **trees},
                {"kind": "rf", "n_estimators": tune.randint(1, 31), **trees},
                {"kind": "adab", "n_estimators": tune.randint(1, 31)},
                {"kind": "gnb"},
                {"kind": "lda"},
                {"kind": "qda", "reg_param": tune.loguniform(1e-3, 1.0)},
            ]
        )
    }


class Data(NamedTuple):
    """Standardised by the training part."""

    train: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    truth: np.ndarray


def split(features: np.ndarray, labels: np.ndarray, seed: int = 0, rows: int = 1000) -> Data:
    """20% to test, at most 5,000 rows; of the rest at most `rows` to train."""
    order = np.random.default_rng(seed).permutation(len(labels))
    cut = len(labels) // 5
    test, train = order[:cut][:5000], order[cut:][:rows]
    mean, sd = features[train].mean(axis=0), features[train].std(axis=0)
    scaled = (features - mean) / np.where(sd > 1e-12, sd, 1.0)
    return Data(scaled[train], labels[train], scaled[test], labels[test])


def build(config: dict[str, Any]) -> Any:
    """The configured classifier."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC, LinearSVC
    from sklearn.tree import DecisionTreeClassifier

    settings = dict(config["classifier"])
    kind = settings.pop("kind")
    if kind == "svm":
        return SVC(max_iter=100_000, **settings)
    if kind in ("dt", "rf", "adab", "linsvm"):
        made = {"dt": DecisionTreeClassifier, "rf": RandomForestClassifier, "adab": AdaBoostClassifier, "linsvm": LinearSVC}
        return made[kind](random_state=0, **settings)
    plain = {
        "knn": KNeighborsClassifier,
        "gnb": GaussianNB,
        "lda": LinearDiscriminantAnalysis,
        "qda": QuadraticDiscriminantAnalysis,
    }
    return plain[kind](**settings)


def errors(config: dict[str, Any], data: Data, limit: float = 20.0, seed: int = 0) -> float:
    """The 5-fold error; 1.0 if the folds take more than `limit` seconds of CPU, or if the classifier breaks down."""
    from sklearn.model_selection import StratifiedKFold

    began, wrong = time.process_time(), 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for fit, check in StratifiedKFold(5, shuffle=True, random_state=seed).split(data.train, data.labels):
            try:
                model = build(config).fit(data.train[fit], data.labels[fit])
                wrong += int(np.sum(model.predict(data.train[check]) != data.labels[check]))
            except (ValueError, np.linalg.LinAlgError):
                return 1.0
            if time.process_time() - began > limit:
                return 1.0
    return wrong / len(data.labels)


def test_error(config: dict[str, Any], data: Data) -> float:
    """The error on held-out data of the classifier trained on all of the rest."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return float(np.mean(build(config).fit(data.train, data.labels).predict(data.test) != data.truth))
        except (ValueError, np.linalg.LinAlgError):
            return 1.0


test_error.__test__ = False  # type: ignore[attr-defined]  # not for pytest


def objective(config: dict[str, Any], data: Data) -> None:
    tune.report({"error": errors(config, data), "test_error": test_error(config, data)})


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=40, help="trials to run (default 40)")
    parser.add_argument("--data", default="digits", help="a set that scikit-learn ships, or a CSV file (default digits)")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default 0)")
    parser.add_argument("--report", default="report.html", help="where the page goes (default report.html)")
    parser.add_argument("--short", action="store_true", help="a few trials only, to see that it runs")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.samples, arguments.data = 6, "wine"
    print("starting a local Ray ...", flush=True)
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    searcher = CondKernelSearcher(seed=arguments.seed)
    results = tune.Tuner(
        tune.with_parameters(objective, data=split(*load(arguments.data))),
        param_space=space(),
        tune_config=tune.TuneConfig(
            metric="error", mode="min", num_samples=arguments.samples, search_alg=searcher, reuse_actors=True
        ),
        run_config=tune.RunConfig(verbose=0, callbacks=[ProgressCallback(searcher)]),
    ).fit()
    best = results.get_best_result()
    print(f"\n{searcher.explain()}\n\nrecommended: {searcher.recommend()}")
    print(f"best trial: {best.config}, 5-fold error {best.metrics['error']:.4f}, held out {best.metrics['test_error']:.4f}")
    print(f"everything to look at: {searcher.report(arguments.report, experiment=results.experiment_path)}")
    ray.shutdown()


if __name__ == "__main__":
    main()
