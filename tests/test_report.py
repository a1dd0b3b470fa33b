"""What people look at: the View, its numbers, the checks in words, the page's source, figures, notebook views."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from raytree import Categorical, CondKernelOptimizer, Float, Integer, RandomOptimizer, Space, TreeOptimizer
from raytree.errors import SettingError
from raytree.report import Source, health, page_of, text, view_of, words, write_page
from raytree.report.belief import believe
from raytree.report.importance import shares
from raytree.report.python_code import code_of
from raytree.report.space_view import keys_of
from raytree.report.view import View
from tests import searches


@pytest.fixture(scope="module")
def optimizer() -> Any:
    return searches.searched()


@pytest.fixture(scope="module")
def view(optimizer: Any) -> View:
    return view_of(optimizer, Source(title="usual", metric="error"))


# The numbers


def test_every_trial_is_in_one_branch_and_in_the_nodes_above_it(view, optimizer):
    assert view.trials.id == [trial.id for trial in optimizer]
    assert sum(b.trials for b in view.branches) == len(view.trials) == 42
    assert view.nodes[0].trials == 42
    for k, node in enumerate(view.nodes):
        below = [child for child in view.nodes if child.parent == k]
        assert not below or sum(child.trials for child in below) == node.trials
    assert {status: view.trials.status.count(status) for status in set(view.trials.status)} == {
        "finished": sum(b.finished for b in view.branches),
        "errored": sum(b.failed for b in view.branches),
        "running": 2,
    }


def test_values_of_parameters_are_those_of_the_configuration(view, optimizer):
    for k, trial in enumerate(optimizer):
        config = optimizer.space.config(trial.point)
        shown = view.config_of(k)
        assert shown["scaler"] == config["scaler"]
        assert shown["model"] == config["model"]["kind"]
        assert ("model/C" in shown) == ("C" in config["model"])
        if "C" in config["model"]:
            assert shown["model/C"] == pytest.approx(config["model"]["C"])


def test_cells_that_were_never_tried_are_in_the_tree():
    optimizer = TreeOptimizer(searches.SPACE, seed=0)
    optimizer.give({"scaler": "none", "model": {"kind": "bayes"}}, 0.1)
    nodes = view_of(optimizer).nodes
    assert {node.label for node in nodes if node.untried} == {"svm", "knn", "logistic"}


def test_a_decision_with_very_many_cells_has_one_node_for_those_never_tried():
    space = {"m": Categorical([{"kind": f"k{k}", "x": Float(0, 1)} for k in range(200)])}
    optimizer = TreeOptimizer(space, seed=0)
    for k in range(40):
        optimizer.give({"m": {"kind": f"k{k}", "x": 0.5}}, float(k))
    nodes = view_of(optimizer, details=False).nodes
    assert len(nodes) < 40
    assert sum(node.trials for node in nodes if node.depth == 1) == 40
    assert any(node.untried == 160 for node in nodes)


def test_maximising_shows_the_same_upside_down():
    down, up = (view_of(searches.searched(16, mode)) for mode in ("min", "max"))
    assert [b.label for b in up.branches] == [b.label for b in down.branches]
    assert up.choice is not None
    assert down.choice is not None
    assert up.choice.value == pytest.approx(-down.choice.value)
    assert up.choice.sd == pytest.approx(down.choice.sd)
    for a, b in zip(up.slices, down.slices, strict=True):
        np.testing.assert_allclose(a.mean, np.negative(b.mean), rtol=1e-6)
        np.testing.assert_allclose(a.low, np.negative(b.high), rtol=1e-6)
    for branch in up.branches:
        if branch.best is not None and branch.reachable is not None:
            assert branch.best == max(
                v for v, b in zip(up.trials.value, up.trials.branch, strict=True) if v is not None and up.branches[b] is branch
            )


def test_the_first_branch_is_that_of_the_recommendation(view, optimizer):
    recommended = optimizer.recommend()
    assert view.choice is not None
    assert view.trials.id[view.choice.trial] == recommended.trial_id
    assert view.choice.value == pytest.approx(recommended.value)
    assert view.trials.branch[view.choice.trial] == 0
    assert view.branches[0].leader == view.choice.trial
    expected = [b.expected for b in view.branches if b.expected is not None]
    assert expected == sorted(expected)


def test_the_code_of_the_recommendation_is_the_configuration(view, optimizer):
    space: dict[str, Any] = {}
    exec(view.choice.code, space)
    assert space["config"] == optimizer.recommend().config


@pytest.mark.parametrize(
    "value", [{"a": [1, (2,), None, True, "it's\n"], "b": {"c": -1.5e-9}}, {}, [], (1,), {"long": ["x" * 30] * 9}]
)
def test_python_code_is_the_value(value):
    assert eval(code_of(value)) == value


def test_slices_go_through_the_leader(view, optimizer):
    belief = believe(optimizer)
    trials = list(optimizer)
    for cut in view.slices:
        branch = view.branches[cut.branch]
        at = view.trials.values[branch.leader][branch.active.index(cut.parameter)]
        near = int(np.argmin(np.abs(np.subtract(cut.x, at))))
        if abs(cut.x[near] - at) < 1e-12:  # the place itself is in the grid
            assert cut.mean[near] == pytest.approx(belief.at([trials[branch.leader]]).mean[0], rel=1e-6)
        assert all(low <= mean <= high for low, mean, high in zip(cut.low, cut.mean, cut.high, strict=True))
    assert {(c.branch, view.parameters[c.parameter].key) for c in view.slices if c.branch == 0} == {
        (0, "scaler"), (0, "model/C"), (0, "model/kernel/gamma"),
    }  # fmt: skip


def test_contours_hold_the_models_expectation(view, optimizer):
    import base64

    belief = believe(optimizer)
    c = next(c for c in view.contours if {view.parameters[i].key for i in (c.across, c.up)} == {"model/C", "model/kernel/gamma"})
    levels = np.frombuffer(base64.b64decode(c.levels), dtype=np.uint8).reshape(len(c.y), len(c.x))
    leader = list(optimizer)[view.branches[c.branch].leader]
    row = belief.row(leader).copy()
    for i, value in ((c.across, c.x[3]), (c.up, c.y[17])):
        row[i] = belief.space.parameters[i].domain.unit(value)
    expected = float(belief.predict(leader.path, row[None]).mean[0])
    shown = c.low + levels[17, 3] / 255 * (c.high - c.low)
    assert shown == pytest.approx(np.clip(expected, c.low, c.high), abs=(c.high - c.low) / 200)


def test_looking_leaves_no_trace():
    looked, other = searches.searched(14), searches.searched(14)
    view_of(looked)
    words.explain(looked)
    assert looked.state() == other.state()
    assert [looked.ask() for _ in range(2)] == [other.ask() for _ in range(2)]


def test_a_trial_is_predicted_without_its_own_value():
    """An outlier among smooth values is far from what the model expects of it; without leaving it out it would be near."""
    optimizer = TreeOptimizer({"x": Float(0.0, 1.0)}, seed=0)
    for k, x in enumerate(np.linspace(0.0, 1.0, 21)):
        optimizer.give({"x": float(x)}, 5.0 if k == 10 else float(x), trial_id=str(k))
    found = {fit.trial: fit for fit in view_of(optimizer).fits}
    assert len(found) == 21
    assert found[10].mean < 1.5
    assert found[10].z > 2.0
    smooth = TreeOptimizer({"x": Float(0.0, 1.0)}, seed=0)
    for x in np.linspace(0.0, 1.0, 11):
        smooth.give({"x": float(x)}, math.sin(6 * x))
    errors = [abs(fit.mean - math.sin(6 * fit.trial / 10)) for fit in view_of(smooth).fits]
    assert float(np.median(errors)) < 0.2
    assert max(errors) > 0.01  # at the ends: told of them, it would know them to many digits


@pytest.mark.parametrize("make", [searches.seeded, searches.pooled, lambda: searches.searched(20, kind=CondKernelOptimizer)])
def test_every_method_can_be_looked_at(make):
    view = view_of(make())
    assert view.choice is not None
    assert view.choice.sd is not None
    assert view.slices
    assert view.fits
    json.loads(view.to_json())


def test_a_method_without_a_model_is_seen_through_the_tree():
    view = view_of(searches.searched(20, kind=RandomOptimizer))
    assert view.choice is not None
    assert view.choice.sd is None  # what it recommends is its own
    assert view.slices
    assert view.branches[0].expected is not None


def test_importance_is_that_of_the_ishigami_function():
    """Sobol indices of a function for which they are known in closed form (Ishigami and Homma 1990, a = 7, b = 0.1)."""

    def ishigami(units: np.ndarray) -> np.ndarray:
        x = (2.0 * units - 1.0) * np.pi
        return np.sin(x[:, 0]) + 7.0 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])

    found = shares(ishigami, [0, 1, 2], 4)
    np.testing.assert_allclose([alone for alone, _ in found], [0.3139, 0.4424, 0.0], atol=0.06)
    np.testing.assert_allclose([total for _, total in found], [0.5576, 0.4424, 0.2437], atol=0.06)


def test_what_does_not_matter_has_no_share_and_the_choice_of_a_branch_has_its_own():
    space = {"idle": Float(0.0, 1.0), "m": Categorical([{"k": "a", "x": Float(0.0, 1.0)}, {"k": "b"}])}
    optimizer = TreeOptimizer(space, seed=0)
    rng = np.random.default_rng(0)
    for k in range(40):
        m = {"k": "a", "x": float(rng.random())} if k % 2 else {"k": "b"}
        optimizer.give({"idle": float(rng.random()), "m": m}, 1.0 if m["k"] == "b" else 0.1 * m["x"])
    view = view_of(optimizer)
    whole = {view.parameters[s.parameter].name: s.total for s in view.importance if s.branch is None}
    assert whole["m"] > 0.9
    assert whole["idle"] < 0.05
    on_a = {view.parameters[s.parameter].name: s.total for s in view.importance if s.branch == 0}
    assert on_a["m[0].x"] > 0.8
    assert on_a["idle"] < 0.2


def test_keys_are_places_in_configurations():
    space = Space({"a": [Float(0, 1), {"b": Integer(1, 3)}], "m": Categorical([{"x": Float(0, 1)}, {"x": Float(0, 1)}])})
    assert keys_of(space) == ["a[0]", "a[1]/b", "m", "m/x", "m/x"]


def test_learning_curves_and_rungs():
    view = view_of(searches.stopped(), Source(time_attr="epoch"))
    assert len(view.curves) == 24
    assert view.rungs == [(3.0, 8), (9.0, 8)]
    assert max(c.t[-1] for c in view.curves) == 27
    assert view.trials.status.count("stopped") == 16


def test_what_was_never_seen_at_its_end_does_not_lead_a_branch():
    optimizer = searches.stopped()
    optimizer.adopt("short", {"lr": 0.02, "width": 99})
    optimizer.report("short", -4.0, 1)
    optimizer.tell("short", -5.0, 9)
    view = view_of(optimizer, details=False)
    assert view.trials.status[view.branches[0].leader] == "finished"
    assert view.trials.id[view.branches[0].leader] != "short"


def test_seeds_partition_and_pool():
    seeds = view_of(searches.seeded()).seeds
    assert seeds is not None
    assert seeds.mean == sorted(seeds.mean)
    assert sum(seeds.shares.values()) == pytest.approx(1.0)
    assert len(seeds.cells) == 24
    pooled = view_of(searches.pooled())
    assert pooled.pool is not None
    assert pooled.pool.left == 20
    assert sum("x <=" in rule for part in pooled.partition for rule in part.rules) >= 1


# Health, in words


def titles(view: View, fell_back: int = 0) -> list[str]:
    return [check.title for check in health.checks(view, fell_back)]


def test_a_search_that_is_well_says_so(view):
    assert "warning" not in [check.level for check in view.checks]


def test_a_branch_that_never_completes_is_named():
    optimizer = searches.searched(10)
    for _ in range(3):
        trial = optimizer.adopt(optimizer.fresh_id(), {"scaler": "none", "model": {"kind": "bayes"}})
        optimizer.fail(trial.id)
    for trial in optimizer:
        if "bayes" in str(optimizer.space.config(trial.point)):
            optimizer.tell(trial.id, math.nan)
    found = [check for check in view_of(optimizer).checks if check.title == "A branch never completed"]
    assert len(found) == 1
    assert "model=bayes" in found[0].text


def test_an_optimum_on_a_bound_is_noticed_and_a_natural_bound_is_not():
    def best_at(domain: Any, value: float) -> list[str]:
        optimizer = TreeOptimizer({"x": domain}, seed=0)
        for k in range(1, 10):
            optimizer.give({"x": domain.render(domain.code(k / 10))}, abs(k / 10 - domain.unit(value)))
        optimizer.give({"x": value}, 0.0)
        return titles(view_of(optimizer))

    assert "The best is on a bound" in best_at(Float(1e-5, 10.0, log=True), 1e-5)
    assert "The best is on a bound" in best_at(Float(2.0, 3.0), 3.0)
    assert "The best is on a bound" not in best_at(Float(2.0, 3.0), 2.5)
    assert "The best is on a bound" not in best_at(Float(0.0, 3.0), 0.0)


def test_noise_that_exceeds_effects_is_noticed():
    def noticed(sd: float) -> bool:
        optimizer = TreeOptimizer({"x": Float(0.0, 1.0)}, seed=0)
        rng = np.random.default_rng(1)
        for x in rng.random(40):
            optimizer.give({"x": float(x)}, (x - 0.5) ** 2 + sd * rng.normal())
        return "Noise exceeds effects" in titles(view_of(optimizer))

    assert noticed(1.0)
    assert not noticed(0.001)


def test_ties_constants_failures_fall_backs_and_thinking(view):
    n = len(view.trials)
    done = replace(view.trials, status=["finished"] * n)
    assert "The metric has ties" in titles(replace(view, trials=replace(done, value=[float(k % 7) for k in range(n)])))
    assert "The metric has ties" not in titles(replace(view, trials=replace(done, value=[float(k) for k in range(n)])))
    assert "The metric never changes" in titles(replace(view, trials=replace(done, value=[1.0] * n)))
    assert "The searcher fell back" in titles(view, fell_back=2)
    assert "The searcher fell back" not in titles(view)
    assert "Thinking takes longer than training" in titles(replace(view, thinking=1e6))
    assert "Thinking takes longer than training" not in titles(replace(view, thinking=1.0))
    instant = replace(done, seconds=[0.001] * n)
    assert "Thinking takes longer than training" not in titles(replace(view, trials=instant, thinking=50.0))
    assert "Thinking takes longer than training" in titles(replace(view, trials=instant, thinking=70.0))
    bad = [replace(b, failed=b.trials - b.running) for b in view.branches]
    assert "Many trials fail" in titles(replace(view, branches=bad))
    wrong = [replace(f, z=5.0) for f in view.fits]
    assert "The model is too sure" in titles(replace(view, fits=wrong))


def test_early_results_that_mislead_ask_for_a_longer_grace_period():
    view = view_of(searches.stopped(), details=False)
    complete = [c for c in view.curves if c.t[-1] == 27]
    turned = [replace(c, value=[-v for v in c.value[:-1]] + c.value[-1:]) for c in complete]
    assert "Early results mislead" not in titles(replace(view, curves=complete))
    assert "Early results mislead" in titles(replace(view, curves=turned))
    found = replace(view, curves=turned)
    assert any("grace_period" in line for line in health.advice(replace(found, checks=health.checks(found))))


def test_the_difference_to_the_best_single_trial_is_said():
    def why(own: float, value: float, sd: float | None, same: bool) -> str:
        return health.why_not_best(1.0, "model=svm", own, value, sd, 0.1, same)

    assert "also the best single trial" in why(0.1, 0.1, 0.01, True)
    assert "luck" not in why(0.1, 0.1, 0.01, True)
    assert "luck" in why(0.1, 0.2, 0.01, True)
    assert "Several trials reported the best value, 0.1" in why(0.1, 0.1, 0.01, False)
    assert "reported 0.1, this one 0.12" in why(0.12, 0.13, 0.01, False)
    assert "without a model" in why(0.1, 0.1, None, True)


# Explanations


def test_explain_ranks_as_the_recommendation_and_knows_the_mode():
    for mode in ("min", "max"):
        optimizer = searches.searched(16, mode)
        explanation = words.explain(optimizer, Source(metric="error"))
        table = explanation.table
        assert list(table.columns) == list(words.COLUMNS)
        best = optimizer.observations.trials[optimizer.recommend().trial_id]
        assert table["branch"][0] == view_of(optimizer, details=False).branches[0].label
        assert table["expected"][0] == pytest.approx(optimizer.recommend().value)
        assert best.value is not None
        assert ("lower" if mode == "min" else "higher") + " is better" in str(explanation)
        assert "log" not in str(explanation).replace("logistic", "")
        assert table["chance_to_improve"].between(0.0, 1.0).all() or table["chance_to_improve"].isna().any()


# Text


def test_the_summary_has_the_tree_the_recommendation_and_the_checks(view):
    shown = text.summary(view)
    assert "├─ model=svm" in shown
    assert "config = {" in shown
    assert "Health" in shown
    assert "\x1b" not in shown
    assert "\x1b[1m" in text.summary(view, text.ansi)


def test_names_cannot_command_a_terminal():
    optimizer = TreeOptimizer({"m": Categorical([{"kind": "\x1b[2Jx\n", "x": Float(0, 1)}, {"kind": "b"}])}, seed=0)
    for k in range(4):
        suggestion = optimizer.ask(f"\x1b]0;{k}")
        optimizer.tell(suggestion.id, 0.1 * k)
    shown = text.summary(view_of(optimizer, Source(title="\x1b[31m"))) + text.trials_text(view_of(optimizer, details=False))
    assert "\x1b" not in shown


def test_csv_has_active_values_only_and_no_formulas(view):
    import csv
    import io

    rows = list(csv.DictReader(io.StringIO(text.trials_csv(view))))
    assert len(rows) == 42
    for k, row in enumerate(rows):
        config = view.config_of(k)
        assert {key for key, cell in row.items() if key.startswith("config/") and cell} == {f"config/{key}" for key in config}
    evil = TreeOptimizer({"m": Categorical(["=1+1", "-x"])}, seed=0)
    evil.give({"m": "=1+1"}, -0.5)
    evil.give({"m": "-x"}, -0.25)
    made = text.trials_csv(view_of(evil, details=False))
    assert "'=1+1" in made
    assert "'-x" in made
    assert ",-0.5," in made


# The page's source


def test_the_page_is_one_file_that_names_nobody_else(view):
    page = page_of(view)
    assert page.replace("http://www.w3.org/2000/svg", "").count("http") == 0
    assert '<link rel="icon" href="data:,">' in page
    assert page.count("<script") == 2
    assert "@@" not in page
    assert len(page) < 400_000


def test_what_users_write_never_becomes_a_tag():
    evil = "</script><script>alert(1)</script><!--"
    optimizer = TreeOptimizer({evil: Float(0, 1)}, seed=0)
    optimizer.give({evil: 0.5}, 1.0, trial_id=evil)
    page = page_of(view_of(optimizer, Source(title=evil, metric=evil, method="@@JS@@")))
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert "<!--" not in page


def test_a_page_that_cannot_be_written_says_so(view, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="cannot be written"):
        write_page(view, tmp_path / "file" / "report.html")
    assert write_page(view, tmp_path) == tmp_path / "report.html"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_values_without_end_and_nothing_at_all_still_make_json():
    optimizer = TreeOptimizer({"x": Float(0.0, 1.0)}, seed=0)
    json.loads(view_of(optimizer).to_json())
    for k, value in enumerate([1e300, -1e300, 0.0, 1e-300, float("nan"), float("inf"), 5.0, 5.0]):
        optimizer.give({"x": k / 10}, value)
    assert "NaN" not in view_of(optimizer).to_json()


# Notebooks


def test_notebook_views_escape_what_users_write():
    evil = "<script>alert(1)</script>"
    optimizer = TreeOptimizer({"m": Categorical([{"kind": evil, "x": Float(0, 1)}, {"kind": "b"}])}, seed=0)
    optimizer.give({"m": {"kind": evil, "x": 0.5}}, 1.0, trial_id=evil)
    shown = [optimizer.space._repr_html_(), optimizer.recommend()._repr_html_(), words.explain(optimizer)._repr_html_()]
    for made in shown:
        assert "&lt;script&gt;" in made
        assert "<script>" not in made
