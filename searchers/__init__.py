"""The Ray Tune face of raytree: pass one of these as `search_alg`. The only code here that imports Ray."""

from raytree.searchers.bosh import BOSHSearcher
from raytree.searchers.conditional import CondKernelSearcher
from raytree.searchers.htbo import HTBOSearcher
from raytree.searchers.progress import ProgressCallback
from raytree.searchers.random import RandomSearcher
from raytree.searchers.tree import TreeSearcher
from raytree.searchers.tune_space import to_space

__all__ = ["BOSHSearcher", "CondKernelSearcher", "HTBOSearcher", "ProgressCallback", "RandomSearcher", "TreeSearcher", "to_space"]
