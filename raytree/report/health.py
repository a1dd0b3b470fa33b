"""Health checks: what goes well or wrong with a search, in words, with what to do; and what to do next."""

from __future__ import annotations

from collections import Counter

import numpy as np

from raytree.report.view import Check, View

FEW = 3
"""So many trials without a value are no accident."""
EDGE = 0.02
"""Of a parameter's range: closer to a bound than this is on it."""
TIES = 0.2
"""A share of finished trials with the value of another one that is worth a note."""
MANY_FAILED = 0.3
OVERCONFIDENT = 0.8
"""Less than this share of left-out values inside the band that should hold 95% of them."""
LIKELY = 0.1
"""A chance to improve that is worth more trials."""
CONSISTENT = 0.5
"""Rank correlation between values at the first rung and at the end below which early stopping guesses."""
WORTH_SAVING = 60.0
"""Seconds of choosing configurations below which nobody minds."""
ENOUGH = 12
"""Left-out values below which nothing is said about the model."""
GOOD, NOTE, WARNING = "good", "note", "warning"


def checks(view: View, fell_back: int = 0) -> list[Check]:
    """All checks that say something, warnings first; one good one if none does.

    Args:
        view: everything but the checks.
        fell_back: how many proposals broke down.
    """
    found = [
        *_failures(view), *_never_completed(view), *_bounds(view), *_noise(view), *_ties(view), *_calibration(view),
        *_thinking(view), *_early_stopping(view),
    ]  # fmt: skip
    if fell_back:
        what = f"{fell_back} suggestion{'s' if fell_back > 1 else ''} came from random search because the method broke down."
        found.append(
            Check(WARNING, "The searcher fell back", f"{what} That is a fault in raytree: please report it with the log.")
        )
    if not found:
        found.append(
            Check(
                GOOD,
                "Nothing unusual",
                "No branch is stuck, the optimum is inside its bounds, the model's errors are as large as it says.",
            )
        )
    return sorted(found, key=lambda check: (WARNING, NOTE, GOOD).index(check.level))


def advice(view: View) -> list[str]:
    """What to do next, the most useful first."""
    if view.choice is None:
        return ["No trial has a value yet. Wait for the first ones, or look at the failed ones below."]
    found = []
    hopeful = sorted((b for b in view.branches if (b.chance or 0.0) >= LIKELY), key=lambda b: -(b.chance or 0.0))
    if hopeful:
        b = hopeful[0]
        where = "" if len(view.branches) == 1 else f", most likely with {b.label}"
        found.append(f"More trials are worth it: the chance that the next good guess is better is about {b.chance:.0%}{where}.")
    elif any(b.chance is not None for b in view.branches):
        found.append("More trials will probably bring little: nowhere does the model see a real chance of a better value.")
    found += [f"Widen a bound: {check.text}" for check in view.checks if check.title == "The best is on a bound"]
    found += [check.text for check in view.checks if check.title in ("Early results mislead", "Noise exceeds effects")]
    never = [check for check in view.checks if check.title == "A branch never completed"]
    if never:
        found.append("Find out why some branches never give a value (below): they cost trials and teach nothing.")
    return found


def _failures(view: View) -> list[Check]:
    failed = sum(b.failed for b in view.branches)
    ended = sum(b.trials - b.running for b in view.branches)
    if ended >= FEW and failed > MANY_FAILED * ended:
        return [
            Check(
                WARNING,
                "Many trials fail",
                f"{failed} of {ended} trials ended without a usable value. Look at their logs before spending more.",
            )
        ]
    return []


def _never_completed(view: View) -> list[Check]:
    found = []
    for k, b in enumerate(view.branches):
        ended = b.trials - b.running
        if ended >= FEW and not b.finished:
            found.append(
                Check(WARNING, "A branch never completed", f"None of the {ended} trials with {b.label} gave a value.", k)
            )
    return found


def _bounds(view: View) -> list[Check]:
    if view.choice is None:
        return []
    branch = view.branches[view.trials.branch[view.choice.trial]]
    found = []
    for i, value in zip(branch.active, view.trials.values[view.choice.trial], strict=True):
        p = view.parameters[i]
        if p.kind == "category" or value is None or p.low is None or p.high is None or i not in branch.free:
            continue
        margin = 0.0 if p.kind == "int" and p.high - p.low < 8 else EDGE
        forward = np.log if p.log else float
        span = forward(p.high) - forward(p.low)
        place = (forward(value) - forward(p.low)) / span if span > 0 else 0.5
        side = "lower" if place <= margin else "upper" if place >= 1.0 - margin else None
        if side and not _natural(p.low if side == "lower" else p.high, p.kind, side):
            bound = p.low if side == "lower" else p.high
            text = f"{p.key} = {value:.4g} sits at its {side} bound {bound:.4g}; a better value may lie beyond it."
            found.append(Check(NOTE, "The best is on a bound", text))
    return found


def _natural(bound: float, kind: str, side: str) -> bool:
    """Whether there is probably nothing beyond a bound: no share above 1, nothing below 0, no count below 1."""
    return bound == 0.0 or (bound == 1.0 and (kind == "float" or side == "lower"))


def _noise(view: View) -> list[Check]:
    values = [f.mean for f in view.fits]
    if view.noise is None or len(values) < ENOUGH or view.seeds is not None:
        return []
    effects = float(np.subtract(*np.quantile(values, [0.75, 0.25]))) / 1.349
    if view.noise > effects > 0.0 or (effects == 0.0 and view.noise > 0.0):
        text = (
            f"Repeating a trial moves {view.metric} by about {view.noise:.2g}, "
            f"more than most configurations differ ({effects:.2g}). "
            "Average over several runs a trial, or search with BOSHSearcher."
        )
        return [Check(WARNING, "Noise exceeds effects", text)]
    return []


def _ties(view: View) -> list[Check]:
    values = [
        v for v, status in zip(view.trials.value, view.trials.status, strict=True) if v is not None and status == "finished"
    ]
    if len(values) < 8:
        return []
    counts = Counter(values)
    if len(counts) == 1:
        return [
            Check(
                WARNING,
                "The metric never changes",
                f"All {len(values)} trials report {view.metric} = {values[0]:.6g}. Check what is reported.",
            )
        ]
    tied = sum(count for count in counts.values() if count > 1) / len(values)
    if tied > TIES:
        value, count = counts.most_common(1)[0]
        text = (
            f"{tied:.0%} of the trials share their {view.metric} with another one ({value:.6g} came {count} times). "
            "A finer metric would tell them apart."
        )
        return [Check(NOTE, "The metric has ties", text)]
    return []


def _calibration(view: View) -> list[Check]:
    if len(view.fits) < ENOUGH:
        return []
    inside = float(np.mean([abs(f.z) <= 2.0 for f in view.fits]))
    if inside < OVERCONFIDENT:
        text = (
            f"Only {inside:.0%} of the values that the model was not told of fall into its 95% bands. "
            "Read its bands as too narrow."
        )
        return [Check(NOTE, "The model is too sure", text)]
    return []


def _thinking(view: View) -> list[Check]:
    trained = sum(s for s in view.trials.seconds if s is not None)
    if view.thinking is None or trained <= 0.0 or view.thinking <= max(trained, WORTH_SAVING):
        return []
    text = (
        f"Choosing configurations took {view.thinking:.0f} s, running them {trained:.0f} s. "
        "For trials this short a simpler searcher may get further in the same time."
    )
    return [Check(NOTE, "Thinking takes longer than training", text)]


def _early_stopping(view: View) -> list[Check]:
    """Whether what is seen at the first rung agrees with the end, on trials that were not stopped."""
    if not view.rungs:
        return []
    first = view.rungs[0][0]
    last = max(max(curve.t) for curve in view.curves)
    pairs = []
    for curve in view.curves:
        early = [v for t, v in zip(curve.t, curve.value, strict=True) if t <= first]
        if early and curve.t[-1] >= 0.99 * last:
            pairs.append((early[-1], curve.value[-1]))
    if len(pairs) < 8:
        return []
    ranks = np.argsort(np.argsort(np.array(pairs), axis=0), axis=0)
    agreement = float(np.asarray(np.corrcoef(ranks.T))[0, 1])
    if agreement < CONSISTENT:
        text = (
            f"Values at {view.time_attr} = {first:g} say little about the end (rank correlation {agreement:.2f}). "
            "Give the scheduler a longer grace_period."
        )
        return [Check(WARNING, "Early results mislead", text)]
    return []


def why_not_best(sign: float, label: str, own: float, value: float, sd: float | None, best: float, same: bool) -> str:
    """How the recommendation differs from the best single trial, in a sentence or two.

    Args:
        sign: 1 where low values are good.
        label: the branch of the recommendation.
        own: what its trial reported.
        value, sd: what is expected of it.
        best: what the best single trial reported.
        same: whether they are one trial.
    """
    if sd is None:
        return "It is the best single trial: without a model there is nothing else to go by."
    lucky = sign * (value - own) > max(0.5 * sd, 1e-9 * abs(own))
    if same:
        text = f"It is also the best single trial, which reported {best:.4g}."
        return text + (" The model takes part of that for luck." if lucky else "")
    if own == best:
        return f"Several trials reported the best value, {best:.4g}. Of them the model expects most of this one ({label})."
    return (
        f"The best single trial reported {best:.4g}, this one {own:.4g}. The model takes the difference for luck: seen with its "
        f"neighbours, this configuration ({label}) is expected to be better."
    )
