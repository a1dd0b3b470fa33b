"""Every searcher passes the conformance class."""

from __future__ import annotations

from raytree.searchers import RandomSearcher
from tests.conformance import SearcherConformance


class TestRandomSearcher(SearcherConformance):
    searcher_class = RandomSearcher
