"""Landing a module with seven gains: a stochastic objective, seed by seed (Moss et al. 2020, section 4), on a local Ray.

    pip install "raytree[examples]"
    python examples/lunar_lander.py [--samples 60]

A seed is one start of LunarLander; the return of one episode says little about a controller, and the best single episode was
mostly an easy start. The searcher chooses gains and seed together, four episodes at a time; the recommended gains are then flown
on 100 seeds that the search has not seen, beside the controller that gymnasium ships.
"""

from __future__ import annotations

import argparse
import logging
from typing import Any

import numpy as np
from ray import tune

from raytree.searchers import BOSHSearcher, ProgressCallback

GAINS = ("kx", "kvx", "hover", "kang", "kangv", "khov", "kvy")
HAND_TUNED = {"kx": 0.5, "kvx": 1.0, "hover": 0.55, "kang": 0.5, "kangv": 1.0, "khov": 0.5, "kvy": 0.5}
HELD_OUT = range(100)


def space() -> dict[str, Any]:
    return {gain: tune.uniform(0.0, 2.0) for gain in GAINS}


def action(gains: dict[str, float], state: np.ndarray) -> int:
    """A proportional-derivative controller: tilt towards the pad, hold a height that falls with the distance to it."""
    x, y, vx, vy, angle, spin, left, right = (float(value) for value in state)
    tilt = min(0.4, max(-0.4, gains["kx"] * x + gains["kvx"] * vx))
    turn = gains["kang"] * (tilt - angle) - gains["kangv"] * spin
    lift = gains["khov"] * (gains["hover"] * abs(x) - y) - gains["kvy"] * vy
    if left or right:  # on the ground: only slow the fall
        turn, lift = 0.0, -gains["kvy"] * vy
    if lift > abs(turn) and lift > 0.05:
        return 2
    if turn < -0.05:
        return 3
    return 1 if turn > 0.05 else 0


def episode(gains: dict[str, float], seed: int, environment: Any = None) -> float:
    """The return of one landing; the same for the same gains and seed."""
    import gymnasium

    environment = environment or gymnasium.make("LunarLander-v3")
    state, _ = environment.reset(seed=int(seed))
    total, over = 0.0, False
    while not over:
        state, reward, terminated, truncated, _ = environment.step(action(gains, state))
        total += float(reward)
        over = terminated or truncated
    return total


def average(gains: dict[str, float], seeds: Any = HELD_OUT) -> float:
    """The mean return over seeds."""
    import gymnasium

    environment = gymnasium.make("LunarLander-v3")
    return float(np.mean([episode(gains, seed, environment) for seed in seeds]))


def objective(config: dict[str, Any]) -> None:
    tune.report({"reward": episode(config, config["seed"])})


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=60, help="trials to run (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default 0)")
    parser.add_argument("--report", default="report.html", help="where the page goes (default report.html)")
    parser.add_argument("--short", action="store_true", help="a few trials only, to see that it runs")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.samples = 10
    print("starting a local Ray ...", flush=True)
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    searcher = BOSHSearcher(seed=arguments.seed)
    results = tune.Tuner(
        objective,
        param_space=space(),
        tune_config=tune.TuneConfig(
            metric="reward", mode="max", num_samples=arguments.samples, search_alg=searcher, reuse_actors=True,
            max_concurrent_trials=4,
        ),
        run_config=tune.RunConfig(verbose=0, callbacks=[ProgressCallback(searcher)]),
    ).fit()  # fmt: skip
    held_out = HELD_OUT[:5] if arguments.short else HELD_OUT
    recommended = searcher.recommend()
    lucky = results.get_best_result()
    print(f"\n{searcher.explain()}\n\nflying on {len(held_out)} held-out seeds ...", flush=True)
    rows = [("recommended", recommended.config), ("best single trial", lucky.config), ("hand-tuned", HAND_TUNED)]
    for name, gains in rows:
        print(f"{name}: {average(gains, held_out):.1f}")
    print(f"the best single trial had claimed {lucky.metrics['reward']:.1f}\nbest configuration: {recommended.config}")
    print(f"everything to look at: {searcher.report(arguments.report, experiment=results.experiment_path)}")
    ray.shutdown()


if __name__ == "__main__":
    main()
