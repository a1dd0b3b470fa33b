"""Every searcher passes the conformance class."""

from __future__ import annotations

from ray import tune
from ray.tune.search.searcher import Searcher

from raytree.searchers import BOSHSearcher, CondKernelSearcher, HTBOSearcher, RandomSearcher, TreeSearcher
from tests.conformance import SearcherConformance


class TestRandomSearcher(SearcherConformance):
    searcher_class = RandomSearcher


class TestTreeSearcher(SearcherConformance):
    searcher_class = TreeSearcher
    sequences = 50


class TestCondKernelSearcher(SearcherConformance):
    searcher_class = CondKernelSearcher
    sequences = 50


class TestBOSHSearcher(SearcherConformance):
    searcher_class = BOSHSearcher
    sequences = 30
    added = ("seed",)

    def test_a_finite_space_ends_the_search(self):
        space = {"a": tune.choice([1, 2]), "b": tune.choice([{"x": tune.randint(0, 2)}, None])}
        searcher = self.make(space=space, num_initial=2, realizations=[0, 1])
        configs = []
        while (config := searcher.suggest(f"t{len(configs)}")) != Searcher.FINISHED:
            configs.append(str(config))
            searcher.on_trial_complete(trial_id=f"t{len(configs) - 1}", result={"loss": 0.1 * len(configs)}, error=False)
            assert len(configs) <= 12
        assert len(set(configs)) == 12  # six configurations on two realizations


class TestHTBOSearcher(SearcherConformance):
    searcher_class = HTBOSearcher
    sequences = 25
