"""Heteroscedastic treed Bayesian optimization (Assael et al. 2014): objectives that change character across the space.

A regression tree cuts the space where the values change; every leaf has a Gaussian process with hyperparameters of its own,
which borrow from the leaf's ancestors (`models.treed`). `HTBOOptimizer(space, **PAPER)` is the paper's method, `BO` and
`BO_WARP` are its baselines with the same inference. What is left of ours under `PAPER`: the chance of success, the priors of
hyperparameters (the paper does not give them), and that the best rows are refined by gradients inside their leaf.
"""

from __future__ import annotations

from typing import Any

from raytree.acquisition.pending import TREATMENTS
from raytree.errors import SettingError, one_of, yes_or_no
from raytree.gp.transform import TRANSFORMS
from raytree.models.treed import THIN
from raytree.optimizer import Optimizer
from raytree.strategies.base import Search
from raytree.strategies.pool import Pool
from raytree.strategies.treed import LARGEST_SOBOL, SOBOL, TreedInference, TreedStrategy

PAPER: dict[str, Any] = {
    "inference": "slice", "transform": "linear", "explore": False, "centred": False, "thin": False, "sobol": 20_000,
}  # fmt: skip
"""The method of Assael et al. 2014. What still differs:

- a threshold's data point belongs to both leaves;
- categories and decisions split by equality, and finite pools are searched as they are; the paper has real parameters;
- improvement is measured from the lowest mean; the best of the Sobol points is refined by gradients;
- trials that fail lower the chance of success around them, which multiplies EI.
"""
BO: dict[str, Any] = {"tree": False}
BO_WARP: dict[str, Any] = {"tree": False, "warp": True}


class HTBOOptimizer(Optimizer):
    """Bayesian optimization with a Gaussian process per leaf of a regression tree.

    Args:
        space: the search space.
        seed: see `Optimizer`, as for mode, num_initial, budget, on_error and max_t.
        mode: "min" or "max".
        num_initial: suggestions from the initial design.
        budget: how many trials there will be, if known.
        on_error: what a trial that ends in error means: "penalize" or "ignore".
        max_t: the t at which a trial is complete; only complete ones count.
        pending: what running trials are taken for, see `acquisition.pending`: "believer", "fantasy", "thompson" or "ignore".
        warp: whether ordered parameters are warped by Beta laws, estimated too.
        conditioning: what a leaf's predictions are conditioned on: "all" observations or those of the "leaf".
        inference: of hyperparameters: "map", or "slice" (EI is averaged over samples; the paper).
        tree: whether there is a tree at all.
        transform: of the losses, see `gp.transform`: "robust" (the data choose whether the worse half is bent), "bent", or
            "linear" (the paper).
        explore: whether every second suggestion goes where the model is least certain, once it expects nothing or only digits.
        centred: whether the prior of a leaf's hyperparameters is centred at those of the whole.
        thin: whether large nodes above a leaf take part with a sample of their points.
        sobol: points at which improvement is looked at (the paper: 20,000).
        candidates: if given, only these configurations are ever suggested, each once: a list of configurations, a DataFrame with
            a column per parameter, or an array (n, d) in the order of the space's parameters. Not part of a saved state: give
            them again to restore.
    """

    OBJECTS = ("candidates",)

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
        warp: bool = False,
        conditioning: str = "all",
        inference: str = "map",
        tree: bool = True,
        transform: str = "robust",
        explore: bool = True,
        centred: bool = True,
        thin: bool = True,
        sobol: int = SOBOL,
        candidates: Any = None,
    ) -> None:
        yes_or_no(warp=warp, tree=tree, explore=explore, centred=centred, thin=thin)
        one_of("pending", pending, TREATMENTS)
        one_of("conditioning", conditioning, ("all", "leaf"))
        one_of("inference", inference, ("map", "slice"))
        one_of("transform", transform, TRANSFORMS)
        if type(sobol) is not int or not 1 <= sobol <= LARGEST_SOBOL:
            raise SettingError("sobol", f"must be a number of points up to {LARGEST_SOBOL:,}, got {sobol!r}.")
        method = {
            "pending": pending, "warp": bool(warp), "conditioning": conditioning, "inference": inference, "tree": bool(tree),
            "transform": transform, "explore": bool(explore), "centred": bool(centred), "thin": bool(thin),
            "sobol": sobol,
        }  # fmt: skip

        def strategy(made: Search) -> TreedStrategy:
            sampled, most = inference == "slice", THIN if thin else None
            model = TreedInference(made, bool(warp), bool(tree), conditioning, sampled, transform, bool(centred), most)
            pool = Pool(made.space, candidates) if candidates is not None and made.space.d else None
            return TreedStrategy(made, model, pending, pool, explore, sobol)

        super().__init__(
            space, strategy, method, seed=seed, mode=mode, num_initial=num_initial, budget=budget, on_error=on_error,
            max_t=max_t,
        )  # fmt: skip
