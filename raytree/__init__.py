"""Bayesian optimization for search spaces with structure.

Start with `optimizer.py`: the loop of ask and tell. `space` says what can be searched; `optimizers` holds a file per method.
Nothing here imports Ray; the Ray Tune searchers are in `raytree.searchers`.
"""

from raytree.errors import RaytreeError
from raytree.optimizer import Optimizer, Recommendation, Suggestion
from raytree.optimizers.bosh import BOSHOptimizer
from raytree.optimizers.conditional import CondKernelOptimizer
from raytree.optimizers.htbo import HTBOOptimizer
from raytree.optimizers.random import DesignOptimizer, RandomOptimizer
from raytree.optimizers.tree import TreeOptimizer
from raytree.space import Categorical, Constant, Float, Integer, Normal, Space, when

__version__ = "0.2.0"

__all__ = [
    "BOSHOptimizer",
    "Categorical",
    "CondKernelOptimizer",
    "Constant",
    "DesignOptimizer",
    "Float",
    "HTBOOptimizer",
    "Integer",
    "Normal",
    "Optimizer",
    "RandomOptimizer",
    "RaytreeError",
    "Recommendation",
    "Space",
    "Suggestion",
    "TreeOptimizer",
    "when",
]
