"""Lines that say what happens: one a trial, and a live block in terminals and notebooks.

    #37 scaler=none model=svm C=12.3 -> error 0.113 (best 0.108 @ #29) | svm 22, knn 15 | 41 ms to choose

`ProgressCallback(searcher)` goes into Tune's callbacks; `TreeSearcher(verbose=1)` prints the same lines without one.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, TextIO

from ray.tune import Callback
from ray.tune.experiment import Trial as TuneTrial

from raytree.report.space_view import cells_of, keys_of
from raytree.report.text import number, safe, seconds
from raytree.space.flat import flatten
from raytree.space.naming import name_of
from raytree.store import Status, Trial

if TYPE_CHECKING:
    from raytree.searchers.base import RaytreeSearcher

MOST_BRANCHES = 6
"""Branches whose counts are in a line."""
BAR = 30
"""Characters of the longest bar."""


def line_of(searcher: RaytreeSearcher, trial: Trial) -> str:
    """What became of a trial, in one line."""
    seen = searcher._ready().observations
    got = flatten(searcher._got(trial))
    config = " ".join(
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={name_of(value)}" for key, value in got.items()
    )
    best = seen.best()
    ending = f"{searcher._metric} {trial.value:.6g}" if trial.value is not None else str(trial.status)
    record = f" (best {best.value:.6g} @ #{best.number + 1})" if best is not None and best.value is not None else ""
    counts = ", ".join(f"{name} {count}" for name, count in branches_of(searcher)[:MOST_BRANCHES])
    thought = seconds(searcher._thinking / max(1, len(seen)))
    return safe(
        f"#{trial.number + 1} {config} -> {ending}{record}" + (f" | {counts}" if counts else "") + f" | {thought} to choose"
    )


def branches_of(searcher: RaytreeSearcher) -> list[tuple[str, int]]:
    """How many trials each branch has, most first; nothing for a space without decisions."""
    optimizer = searcher._ready()
    space = optimizer.given_space
    if not space.decisions:
        return []
    keys = keys_of(space)
    counts = Counter(trial.path[: len(space.decisions)] for trial in optimizer.observations)
    return [(" ".join(label for _, _, label in cells_of(space, keys, path)), count) for path, count in counts.most_common()]


def block_of(searcher: RaytreeSearcher, total: int | None) -> list[str]:
    """The state of a search in a few lines: counts, the best, a bar for each branch."""
    seen = searcher._ready().observations
    failed = len(seen.with_status(Status.ERRORED, Status.INVALID))
    running = len(seen.with_status(Status.RUNNING))
    of = f" of {total}" if total else ""
    lines = [f"{len(seen)}{of} trials, {running} running, {failed} failed, {seconds(searcher._thinking)} to choose them"]
    best = seen.best()
    if best is not None and best.value is not None:
        config = " ".join(
            f"{key}={number(v) if isinstance(v, float) else name_of(v)}" for key, v in flatten(searcher._got(best)).items()
        )
        lines.append(f"best {searcher._metric} {best.value:.6g} @ #{best.number + 1}: {config}")
    counts = branches_of(searcher)[:MOST_BRANCHES]
    width = max((len(name) for name, _ in counts), default=0)
    most = max((count for _, count in counts), default=1)
    lines += [f"  {name:<{width}} {'█' * max(1, round(BAR * count / most))} {count}" for name, count in counts]
    return [safe(line) for line in lines]


class ProgressCallback(Callback):
    """A Tune callback: a readable line a trial, and below them a block with the state of the search.

    Use it with `RunConfig(verbose=0)`, which keeps Tune's own tables away.

    Args:
        searcher: the searcher of the run.
        stream: where to print; stdout if left out.
        live: whether the block is shown and renewed; by default in terminals and notebooks.
    """

    def __init__(self, searcher: RaytreeSearcher, stream: TextIO | None = None, live: bool | None = None) -> None:
        self._searcher, self._stream = searcher, stream
        self._live = live
        self._height = 0
        self._shown: Any = None  # of a notebook
        self._total: int | None = None
        self._told: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles callbacks; streams and notebook cells stay behind."""
        return {**self.__dict__, "_stream": None, "_shown": None}

    def setup(self, stop: Any = None, num_samples: int | None = None, total_num_samples: int | None = None, **info: Any) -> None:
        self._total = total_num_samples if isinstance(total_num_samples, int) and total_num_samples > 0 else None

    def on_trial_complete(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        self._tell(trial)

    def on_trial_error(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        self._tell(trial)

    def _tell(self, trial: TuneTrial) -> None:
        seen = self._searcher._optimizer.observations if self._searcher._optimizer is not None else None
        if seen is None or trial.trial_id not in seen or trial.trial_id in self._told:
            return
        self._told.add(trial.trial_id)
        known = seen.trials[trial.trial_id]
        self.show(line_of(self._searcher, known), block_of(self._searcher, self._total))

    def show(self, line: str, block: list[str]) -> None:
        """Prints a line, and the block below it where that can be renewed."""
        stream = self._stream or sys.stdout
        notebook = _in_notebook() and self._stream is None
        live = self._live if self._live is not None else notebook or stream.isatty()
        if live and notebook:
            print(line, file=stream)
            self._show_in_notebook(block)
        elif live:
            up = f"\x1b[{self._height}A\x1b[J" if self._height else ""
            print(up + "\n".join([line, *block]), file=stream, flush=True)
            self._height = len(block)
        else:
            print(line, file=stream, flush=True)

    def _show_in_notebook(self, block: list[str]) -> None:
        from IPython.display import Pretty, display  # there, since this is a notebook

        class Block(Pretty):
            def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
                printer.text(str(self.data))

        if self._shown is None:
            self._shown = display(Block("\n".join(block)), display_id=True)
        else:
            self._shown.update(Block("\n".join(block)))


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")
