"""Two hyperparameters of a support vector machine, one train-test split per seed (Moss et al. 2020, section 4), on a local Ray.

    python examples/svm_text.py [--samples 40] [--data sentence_polarity.zip]

A seed is a split of a pool of 1,000 documents into 900 to train and 100 to test; the truth is the error on all other
documents. `--data` is the sentence-polarity zip, or a folder with `pos` and `neg` folders of reviews; without it, the images of
digits that scikit-learn ships stand in.
"""

from __future__ import annotations

import argparse
import logging
import math
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ray import tune

from raytree.searchers import BOSHSearcher, ProgressCallback

POOL, TEST = 1000, 100


def space() -> dict[str, Any]:
    return {"C": tune.loguniform(math.exp(-5), math.exp(25)), "gamma": tune.loguniform(math.exp(-25), math.exp(5))}


class Problem(NamedTuple):
    """Squared distances (1000, 1000) inside the pool and (k, 1000) from held-out examples to it, with labels."""

    inside: np.ndarray
    labels: np.ndarray
    outside: np.ndarray
    truth: np.ndarray


def load(source: str | None, seed: int = 0) -> Problem:
    """The pool and everything else."""
    if source is None:
        from sklearn.datasets import load_digits

        features, labels = load_digits(return_X_y=True)
        features = features / np.linalg.norm(features, axis=1, keepdims=True)
    else:
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts, labels = _texts(Path(source))
        features = TfidfVectorizer(min_df=2, sublinear_tf=True).fit_transform(texts)
    order = np.random.default_rng(seed).permutation(len(labels))
    pool, rest = order[:POOL], order[POOL:]
    products = [features[part] @ features[pool].T for part in (pool, rest)]
    inside, outside = (np.maximum(0.0, 2.0 - 2.0 * np.asarray(p.todense() if hasattr(p, "todense") else p)) for p in products)
    return Problem(inside, labels[pool], outside, labels[rest])


def _texts(source: Path) -> tuple[list[str], np.ndarray]:
    if source.is_dir():
        found = {kind: [p.read_text(errors="replace") for p in sorted(source.rglob(f"{kind}/*.txt"))] for kind in ("pos", "neg")}
    else:
        with zipfile.ZipFile(source) as archive:
            found = {}
            for kind in ("pos", "neg"):
                (name,) = (name for name in archive.namelist() if name.endswith(f".{kind}"))
                found[kind] = archive.read(name).decode("latin-1").splitlines()
    texts = found["pos"] + found["neg"]
    if len(texts) <= POOL:
        raise SystemExit(f"{source}: {len(texts)} texts found; more than {POOL} are needed, in pos and neg.")
    return texts, np.array([1] * len(found["pos"]) + [0] * len(found["neg"]))


def _machine(config: dict[str, float], distances: np.ndarray, labels: np.ndarray) -> Any:
    from sklearn.svm import SVC

    return SVC(C=config["C"], kernel="precomputed", max_iter=200_000).fit(np.exp(-config["gamma"] * distances), labels)


def error(config: dict[str, float], seed: int, problem: Problem) -> float:
    """The error on one split of the pool."""
    order = np.random.default_rng(int(seed)).permutation(POOL)
    test, train = order[:TEST], order[TEST:]
    machine = _machine(config, problem.inside[np.ix_(train, train)], problem.labels[train])
    kernel = np.exp(-config["gamma"] * problem.inside[np.ix_(test, train)])
    return float(np.mean(machine.predict(kernel) != problem.labels[test]))


def true_error(config: dict[str, float], problem: Problem) -> float:
    """The error of a machine trained on the pool, on everything else."""
    machine = _machine(config, problem.inside, problem.labels)
    return float(np.mean(machine.predict(np.exp(-config["gamma"] * problem.outside)) != problem.truth))


def objective(config: dict[str, Any], problem: Problem) -> None:
    tune.report({"error": error(config, config["seed"], problem)})


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=40, help="trials to run (default 40)")
    parser.add_argument("--data", help="the sentence-polarity zip, or a folder with pos and neg")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default 0)")
    parser.add_argument("--report", default="report.html", help="where the page goes (default report.html)")
    parser.add_argument("--short", action="store_true", help="a few trials only, to see that it runs")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.samples = 8
    problem = load(arguments.data)
    print("starting a local Ray ...", flush=True)
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    searcher = BOSHSearcher(seed=arguments.seed)
    results = tune.Tuner(
        tune.with_parameters(objective, problem=problem),
        param_space=space(),
        tune_config=tune.TuneConfig(
            metric="error", mode="min", num_samples=arguments.samples, search_alg=searcher, reuse_actors=True,
            max_concurrent_trials=4,
        ),
        run_config=tune.RunConfig(verbose=0, callbacks=[ProgressCallback(searcher)]),
    ).fit()  # fmt: skip
    recommended = searcher.recommend()
    lucky = results.get_best_result()
    print(f"\n{searcher.explain()}\n\nrecommended: true error {true_error(recommended.config, problem):.4f}")
    print(f"best single trial: {true_error(lucky.config, problem):.4f}, where its split had said {lucky.metrics['error']:.4f}")
    print(f"best configuration: {recommended.config}")
    print(f"everything to look at: {searcher.report(arguments.report, experiment=results.experiment_path)}")
    ray.shutdown()


if __name__ == "__main__":
    main()
