"""Which classifier, with which hyperparameters? A tuning job on a local Ray with data that scikit-learn ships.

    python examples/classifiers.py [--samples 40] [--report report.html]

Each model has parameters of its own; the scaler is shared by all of them. The trials run in parallel and asynchronously. At
the end there is a page to look at.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings

import ray
from ray import tune

from raytree.searchers import ProgressCallback, TreeSearcher

SPACE = {
    "scaler": tune.choice(["none", "standard", "minmax"]),
    "model": tune.choice(
        [
            {"kind": "svm", "C": tune.loguniform(1e-3, 1e4), "gamma": tune.loguniform(1e-5, 1e2)},
            {
                "kind": "forest",
                "trees": tune.lograndint(8, 128),
                "max_features": tune.uniform(0.05, 1.0),
                "min_samples_leaf": tune.lograndint(1, 20),
            },
            {"kind": "knn", "n_neighbors": tune.randint(1, 31), "weights": tune.choice(["uniform", "distance"])},
            {"kind": "logistic", "C": tune.loguniform(1e-4, 1e4)},
            {"kind": "naive_bayes"},
        ]
    ),
}


def objective(config: dict) -> None:
    """Reports the 5-fold classification error of the configured pipeline."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler
    from sklearn.svm import SVC

    warnings.filterwarnings("ignore")
    scalers = {"none": "passthrough", "standard": StandardScaler(), "minmax": MinMaxScaler()}
    settings = dict(config["model"])
    kind = settings.pop("kind")
    if kind == "svm":
        model = SVC(**settings, max_iter=20_000)
    elif kind == "forest":
        model = RandomForestClassifier(settings.pop("trees"), random_state=0, **settings)
    elif kind == "knn":
        model = KNeighborsClassifier(**settings)
    elif kind == "logistic":
        model = LogisticRegression(**settings, max_iter=500)
    else:
        model = GaussianNB()
    features, labels = load_breast_cancer(return_X_y=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    accuracy = cross_val_score(make_pipeline(scalers[config["scaler"]], model), features, labels, cv=folds)
    tune.report({"error": 1.0 - float(accuracy.mean())})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=40, help="trials to run (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default 0)")
    parser.add_argument("--short", action="store_true", help="a few trials only, to see that it runs")
    parser.add_argument("--report", default="report.html", help="where the page goes (default report.html)")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.samples = 4

    print("starting a local Ray ...", flush=True)
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    searcher = TreeSearcher(seed=arguments.seed)
    began = time.time()
    tuner = tune.Tuner(
        objective,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="error", mode="min", num_samples=arguments.samples, search_alg=searcher, reuse_actors=True
        ),
        run_config=tune.RunConfig(verbose=0, callbacks=[ProgressCallback(searcher)]),
    )
    results = tuner.fit()
    recommended = searcher.recommend()
    print(f"\n{len(results)} trials in {time.time() - began:.0f} s\n\n{searcher.explain()}\n")
    if recommended is not None:
        print(f"best configuration: {recommended.config}\nerror: {recommended.value:.4f}")
    print(f"everything to look at: {searcher.report(arguments.report, experiment=results.experiment_path)}")
    ray.shutdown()


if __name__ == "__main__":
    main()
