"""Comparing methods over data sets: average ranks, Friedman, Nemenyi and Wilcoxon tests (Demsar 2006)."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from harness import curves, markdown
from scipy import stats


def average_ranks(scores: np.ndarray) -> np.ndarray:
    """(k,) mean rank of each of k methods over N sets, from scores (N, k), lower is better; ties share a rank."""
    return stats.rankdata(scores, axis=1).mean(axis=0)


def friedman(scores: np.ndarray) -> tuple[float, float]:
    """The chi-square statistic and p-value of Friedman's test that all methods are alike."""
    result = stats.friedmanchisquare(*scores.T)
    return float(result.statistic), float(result.pvalue)


def critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """Nemenyi: average ranks of k methods over n sets that are further apart differ significantly."""
    q = stats.studentized_range.ppf(1.0 - alpha, k, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(k * (k + 1) / (6.0 * n)))


def wilcoxon_table(methods: Sequence[str], scores: np.ndarray) -> str:
    """p-values of pairwise signed-rank tests; in brackets where the row's method has the worse average rank."""
    ranks = average_ranks(scores)
    p = np.ones((len(methods), len(methods)))
    for a, b in itertools.combinations(range(len(methods)), 2):
        if np.any(scores[:, a] != scores[:, b]):
            p[a, b] = p[b, a] = stats.wilcoxon(scores[:, a], scores[:, b], zero_method="zsplit").pvalue
    lines = []
    for a, method in enumerate(methods):
        cells = ["" if a == b else f"({p[a, b]:.2f})" if ranks[a] > ranks[b] else f"{p[a, b]:.2f}" for b in range(len(methods))]
        lines.append([f"{a + 1} {method}", *cells])
    return markdown(["", *map(str, range(1, len(methods) + 1))], lines)


def difference_plot(methods: Sequence[str], scores: np.ndarray, target: Path, title: str) -> None:
    """Average ranks on a line, bars over groups that the Nemenyi test does not tell apart. Needs plotly."""
    try:
        import plotly.graph_objects as go
    except ImportError:
        print("no plot: pip install raytree[bench]", file=sys.stderr)
        return
    ranks = average_ranks(scores)
    order = np.argsort(ranks)
    cd = critical_difference(len(methods), len(scores))
    figure = go.Figure()
    figure.add_scatter(
        x=ranks[order], y=[0] * len(order), mode="markers+text", marker={"size": 9, "color": "#1f77b4"},
        text=[f" {methods[k]} {ranks[k]:.2f}" for k in order], textposition="bottom right", textfont={"size": 10},
    )  # fmt: skip
    height, reached = 0.1, -1
    for start in range(len(order)):
        end = max(j for j in range(len(order)) if ranks[order[j]] - ranks[order[start]] <= cd)
        if end > start and end > reached:
            ends = [ranks[order[start]] - 0.03, ranks[order[end]] + 0.03]
            figure.add_scatter(x=ends, y=[height] * 2, mode="lines", line={"width": 5, "color": "black"})
            height, reached = height + 0.1, end
    shown = f"{title}: critical difference {cd:.2f}"
    figure.update_layout(title=shown, showlegend=False, template="plotly_white", height=320, xaxis_title="average rank")
    figure.update_yaxes(visible=False, range=[-1, max(1.0, height)])
    figure.write_html(target)
    print(f"plot: {target}")


def finals(rows: Sequence[dict[str, str]], column: str) -> tuple[list[str], list[str], np.ndarray]:
    """Tasks, methods, and (tasks, methods) the final value of a column averaged over repetitions; complete tasks only."""
    final = {key: float(curve[:, -1].mean()) for key, curve in curves(rows, column).items()}
    methods = list(dict.fromkeys(method for _, method in final))
    tasks = [t for t in dict.fromkeys(task for task, _ in final) if all((t, m) in final for m in methods)]
    return tasks, methods, np.array([[final[t, m] for m in methods] for t in tasks])


def rank_table(rows: Sequence[dict[str, str]], columns: dict[str, str]) -> str:
    """Average ranks over tasks and mean errors, best first by the first of `columns` (name: title); "" if there is too little."""
    seconds = curves(rows, "seconds")
    found = {column: finals(rows, column) for column in columns}
    tasks, methods, _ = found[next(iter(columns))]
    if len(tasks) < 2 or len(methods) < 3:
        return ""
    ranks = {column: average_ranks(values) for column, (_, _, values) in found.items()}
    lines = []
    for k in np.argsort(ranks[next(iter(columns))]).tolist():
        shown = [text for c in columns for text in (f"{ranks[c][k]:.2f}", f"{100 * found[c][2][:, k].mean():.2f}")]
        time_of = np.median([np.median(v) for (_, m), v in seconds.items() if m == methods[k]])
        lines.append([methods[k], len(tasks), *shown, f"{1e3 * time_of:.0f}"])
    header = [text for title in columns.values() for text in (f"average rank, {title}", "mean %")]
    return markdown(["method", "sets", *header, "ms"], lines)
