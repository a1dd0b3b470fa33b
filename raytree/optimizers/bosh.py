"""Bayesian optimization by sampling hierarchically (Moss et al. 2020): which configuration, on which realization.

A stochastic objective with a seed is many functions, one per seed, scattered around the one that matters. The hierarchical
model of `models.hierarchical` tells them apart. What is wanted is one configuration to deploy: the acquisition is how much an
evaluation of some configuration on some seed would improve the mean of what is recommended (`acquisition.knowledge`). A known
configuration on another seed, a new one on a known seed and a fresh seed all compete, and nothing else decides how often
something is repeated or how many seeds are used. Running trials count as evaluated, at their means.

The paper's acquisitions, how much an evaluation tells about the best value of the target (`acquisition.entropy`) with the batch
term of its eq. (2), are settings; `BOSHOptimizer(space, **PAPER)` is the paper's method. What is left of ours under `PAPER`: the
level of the target, the priors of hyperparameters, and the chance of success.

The seed is a parameter of the search like any other here, `space` with it and `given_space` without, so that configurations,
duplicates, states and histories know it; only the model and the maximiser look at it in a way of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from raytree.acquisition.entropy import ACQUISITIONS
from raytree.acquisition.maximize import box_of
from raytree.design import MAX_INITIAL
from raytree.errors import SettingError, one_of
from raytree.gp.linalg import Array
from raytree.gp.transform import TRANSFORMS
from raytree.optimizer import Optimizer
from raytree.space import Space
from raytree.space.added import Added
from raytree.strategies.base import Search
from raytree.strategies.realizations import Realizations, Seeds, domain_of
from raytree.strategies.seeds import Entropy, HierarchicalInference, SeedStrategy, View

PAPER: dict[str, Any] = {
    "acquisition": "mumbo", "initial_realizations": 2, "maxima": "gumbel", "maximizer": "direct", "transform": "linear",
}  # fmt: skip
"""The method of Moss et al. 2020. What still differs:

- the target has a level of its own, with a prior, where the paper standardises;
- at most 24 realizations are in use at a time;
- hyperparameters have priors, and are estimated again when the data have grown by a twentieth;
- trials that fail lower the chance of success around them.
"""


class BOSHOptimizer(Optimizer):
    """Optimizes the mean of a stochastic objective over seeds, and decides which seed to evaluate next.

    Args:
        space: the search space, without the seed.
        seed: see `Optimizer`, as for mode, num_initial, budget, on_error and max_t.
        mode: "min" or "max".
        num_initial: suggestions from the initial design; with the paper's acquisitions d + 5 by default.
        budget: how many trials there will be, if known.
        on_error: what a trial that ends in error means: "penalize" or "ignore".
        max_t: the t at which a trial is complete; only complete ones count.
        pending: what running trials are taken for: "believer" (they come out as expected) or "ignore".
        seed_key: where the seed stands in a configuration.
        realizations: the only seeds there are, such as the numbers of K folds: what counts is then the mean over them. Any
            31-bit integer but the largest if left out: what counts is the mean over all that might be.
        max_realizations: how many different seeds are used at most: a number, or "all" (no limit: what they are worth decides).
        initial_realizations: over how many seeds the initial design is spread.
        acquisition: "knowledge" (gain of the recommended mean), or the paper's "gibbon" (closed form) and "mumbo" (quadrature).
        maxima: of the paper's, how the target's maximum is sampled: "exact" (joint samples) or "gumbel".
        diversity: of the paper's, the weight of the batch term of eq. (2): 1, or "1/B^2" (Moss et al. 2021, appendix D: for
            batches much larger than ten; B counts the running trials and the one asked for).
        maximizer: "gradient" (Sobol points, the best refined) or "direct" (the paper; spaces of real parameters without
            decisions only).
        transform: of the losses, see `gp.transform`: "robust" (the data choose whether the worse half is bent), "bent", or
            "linear" (the paper).
    """

    strategy: SeedStrategy

    def __init__(
        self,
        space: Any,
        *,
        seed: int | None = None,
        mode: str = "min",
        num_initial: int | None = None,
        budget: int | None = None,
        on_error: str = "penalize",
        max_t: float | str | None = None,
        pending: str = "believer",
        seed_key: str = "seed",
        realizations: Sequence[Any] | None = None,
        max_realizations: int | str = "all",
        initial_realizations: int = 1,
        acquisition: str = "knowledge",
        maxima: str = "exact",
        diversity: float | str = 1.0,
        maximizer: str = "gradient",
        transform: str = "robust",
    ) -> None:
        one_of("pending", pending, ("believer", "ignore"))
        one_of("acquisition", acquisition, (*ACQUISITIONS, "knowledge"))
        one_of("maxima", maxima, ("exact", "gumbel"))
        one_of("maximizer", maximizer, ("gradient", "direct"))
        one_of("transform", transform, TRANSFORMS)
        number = isinstance(diversity, (int, float)) and not isinstance(diversity, bool) and 0 <= diversity < math.inf
        if diversity != "1/B^2" and not number:
            raise SettingError("diversity", f"must be a weight of at least 0 or '1/B^2', got {diversity!r}.")
        given = space if isinstance(space, Space) else Space(space)
        if maximizer == "direct" and given.d:  # else the space is not known yet
            box = box_of(given, ()) if given.n_paths == 1 else None
            if box is None or box.discrete:
                raise SettingError("maximizer", "DIRECT needs real parameters and no decisions.", "Use 'gradient'.")
        domain = domain_of(realizations)
        method = {
            "pending": pending, "seed_key": seed_key, "realizations": None if realizations is None else list(realizations),
            "max_realizations": max_realizations, "initial_realizations": initial_realizations, "acquisition": acquisition,
            "maxima": maxima, "diversity": diversity, "maximizer": maximizer, "transform": transform,
        }  # fmt: skip
        if num_initial is None and acquisition != "knowledge":
            num_initial = _default_length(given, budget)

        def strategy(made: Search) -> SeedStrategy:
            seeds = Seeds(made, domain, Realizations(domain, max_realizations, initial_realizations, made.seed))
            entropy = None if acquisition == "knowledge" else Entropy(acquisition, maxima, diversity)
            inference = HierarchicalInference(made.given, seeds, made.seed, transform)
            return SeedStrategy(made, seeds, inference, entropy, maximizer == "direct", pending, seed_key)

        super().__init__(
            given, strategy, method, Added("seed_key", seed_key, domain), seed=seed, mode=mode, num_initial=num_initial,
            budget=budget, on_error=on_error, max_t=max_t,
        )  # fmt: skip

    def look(self, rows: Array) -> View:
        """What the optimizer sees at rows (m, d) of one path, without the seed: to draw it. Leaves no trace."""
        return self.strategy.look(rows)


def _default_length(space: Space, budget: int | None) -> int:
    """d + 5, and at least one per path; at most a third of a known budget and at most 32."""
    wanted = min(max(space.n_paths, space.dimension + 5), MAX_INITIAL)
    return wanted if budget is None else max(1, min(wanted, budget // 3))
