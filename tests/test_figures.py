"""The pictures as plotly figures."""

from __future__ import annotations

import numpy as np
import pytest

from raytree.errors import SettingError
from raytree.report import figures, view_of
from tests import searches

pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def view():
    return view_of(searches.searched())


@pytest.mark.parametrize("name", [name for name in figures.FIGURES if name != "curves"])
def test_a_figure_of_the_whole_and_of_a_branch_has_data(view, name):
    from plotly.graph_objects import Figure

    whole, part = figures.FIGURES[name](view), figures.FIGURES[name](view, given={"model": "svm"})
    assert isinstance(whole, Figure)
    assert whole.data
    assert part.data
    assert whole.to_json() != part.to_json() or name == "slices"  # the leading branch is an SVM anyway


def test_given_keeps_the_trials_of_the_branch(view):
    names = {trace.name for trace in figures.left_out(view, given={"model": "knn"}).data if trace.name}
    assert names == {"model=knn"}
    rbf = figures.history(view, given={"model/kernel": "rbf"})
    points = sum(len(trace.x) for trace in rbf.data if trace.mode == "markers")
    assert points == sum(b.finished for b in view.branches if "rbf" in b.label)


def test_slices_show_the_models_line_and_the_trials(view):
    figure = figures.slices(view, given={"model": "knn"})
    cut = next(s for s in view.slices if view.parameters[s.parameter].key == "model/n_neighbors")
    lines = [trace for trace in figure.data if trace.name == "expected" and trace.mode == "lines"]
    assert any(np.allclose(trace.y, cut.mean) for trace in lines)
    assert figure.layout.title.text.endswith("model=knn")


def test_the_contour_of_any_pair_and_either_way_round(view):
    one, other = figures.contour(view, "C", "gamma"), figures.contour(view, "model/kernel/gamma", "model/C")
    np.testing.assert_allclose(np.array(one.data[0].z).T, np.array(other.data[0].z))
    assert one.layout.xaxis.type == "log"
    with pytest.raises(SettingError, match="no pair C, depth"):
        figures.contour(view, "C", "depth")


def test_curves_have_a_line_a_trial():
    assert len(figures.curves(searches.stopped()).data) == 24


@pytest.mark.parametrize(("given", "words"), [({"depth": 3}, "is no decision"), ({"model": "forest"}, "no branch with")])
def test_a_branch_that_is_not_there_is_explained(view, given, words):
    with pytest.raises(SettingError, match=words):
        figures.slices(view, given=given)


def test_what_is_no_search_is_refused():
    with pytest.raises(SettingError, match="expected a searcher"):
        figures.tree({"a": 1})


def test_names_from_users_are_no_html():
    from raytree import Categorical, Float, TreeOptimizer

    optimizer = TreeOptimizer({"m": Categorical([{"kind": "<b>x", "x": Float(0, 1)}, {"kind": "b"}])}, seed=0)
    for k in range(10):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, 0.1 * k)
    for name, figure in figures.FIGURES.items():
        assert "<b>x" not in str(figure(optimizer).to_dict()), name
