"""The event fuzz notices every way in which `tests.mutations` breaks the store."""

from __future__ import annotations

import ast

import pytest

from tests.mutations import MUTATIONS, ROOT, fuzz, notices


def test_every_mutation_changes_one_place_and_is_python():
    assert len({mutation.says for mutation in MUTATIONS}) == len(MUTATIONS) >= 20
    for mutation in MUTATIONS:
        text = (ROOT / mutation.file).read_text()
        assert text.count(mutation.old) == 1, mutation.says
        ast.parse(text.replace(mutation.old, mutation.new))


@pytest.mark.slow  # a process for each
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.says)
def test_the_fuzz_notices(mutation):
    noticed, words = notices(mutation)
    assert noticed
    assert "Error" in words


def test_the_fuzz_agrees_with_the_code_as_it_is():
    fuzz(40)
