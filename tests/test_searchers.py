"""Every searcher passes the conformance class."""

from __future__ import annotations

from raytree.searchers import BOSHSearcher, CondKernelSearcher, RandomSearcher, TreeSearcher
from tests.conformance import SearcherConformance


class TestRandomSearcher(SearcherConformance):
    searcher_class = RandomSearcher


class TestTreeSearcher(SearcherConformance):
    searcher_class = TreeSearcher
    sequences = 150


class TestCondKernelSearcher(SearcherConformance):
    searcher_class = CondKernelSearcher
    sequences = 100


class TestBOSHSearcher(SearcherConformance):
    searcher_class = BOSHSearcher
    sequences = 60
