"""Does the event fuzz notice a broken store? Breaks the code in many ways, one at a time, and plays events on each.

    python -m tests.mutations            all of them; a few minutes
    python -m tests.mutations --only 3   one, with what the oracle says

A mutation is a line of the code replaced by a wrong one, in a copy. The fuzz must fail on every copy, and pass on the code as
it is. Lines are found by their text: one that is gone or not alone is an error, so that this list cannot rot.
"""

# ruff: noqa: E501  a line for every mutation

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
STORE, LOOP, FACE = "raytree/store.py", "raytree/optimizer.py", "raytree/searchers/base.py"
ELSEWHERE, RESULTS = "raytree/searchers/elsewhere.py", "raytree/searchers/results.py"
SEQUENCES = 400


class Mutation(NamedTuple):
    """What it does, the file, and the text to replace, of which there must be one."""

    says: str
    file: str
    old: str
    new: str


MUTATIONS = [
    # Reports
    Mutation("reports are dropped", STORE, "        self._store(trial, t, value)\n", ""),
    Mutation("reports are negated", STORE, "        self._store(trial, t, value)\n", "        self._store(trial, t, value and -value)\n"),
    Mutation("reports are doubled", STORE, "        self._store(trial, t, value)\n", "        self._store(trial, t, value and 2 * value)\n"),
    Mutation("reports are late by one", STORE, "        self._store(trial, t, value)\n", "        self._store(trial, t + 1, value)\n"),
    Mutation("the second report at a t is ignored", STORE, "        trial.reports[t] = value\n", "        trial.reports.setdefault(t, value)\n"),
    Mutation("a finished trial takes earlier values", STORE, "value is not None and t >= (trial.t or 0)", "value is not None and t <= (trial.t or 0)"),
    Mutation("a finished trial takes no later value", STORE, "            trial.value, trial.t = value, t\n", "            pass\n"),
    Mutation("a finished trial takes what is no number", STORE, "trial.status is Status.FINISHED and value is not None and", "trial.status is Status.FINISHED and"),
    Mutation("t of a finished trial stays", STORE, "            trial.value, trial.t = value, t\n", "            trial.value = value\n"),
    # Trials that are taken up again
    Mutation("an errored trial that reports is running for ever", STORE, "            trial.provisional = True\n", "            trial.status = Status.RUNNING\n"),
    Mutation("what an errored trial had said counts", STORE, "if at < t}", "if True}"),
    Mutation("what an errored trial had said is all forgotten", STORE, "if at < t}", "if False}"),
    Mutation("an error does not take back what counted provisionally", STORE, "trial.status is Status.RUNNING or trial.provisional:\n", "trial.status is Status.RUNNING:\n"),
    Mutation("a proper end stays provisional", STORE, "trial.value, trial.t, trial.provisional = value, at, False", "trial.value, trial.t = value, at"),
    Mutation("found trials are running for ever", FACE, "provisional=True)", "provisional=False)"),
    # Ends
    Mutation("the last value is negated", STORE, "trial.value, trial.t, trial.provisional = value, at, False", "trial.value, trial.t, trial.provisional = value and -value, at, False"),
    Mutation("the end is ignored", STORE, "        trial.status = Status.INVALID if value is None else Status.FINISHED\n        trial.value", "        trial.value"),
    Mutation("what is no number is finished", STORE, "        trial.status = Status.INVALID if value is None else Status.FINISHED\n        trial.value", "        trial.status = Status.FINISHED\n        trial.value"),
    Mutation("the end is not among the reports", STORE, "        self._store(trial, at, value)\n", ""),
    Mutation("t of the end is ignored", STORE, "at = t if t is not None else max(", "at = max("),
    Mutation("what an earlier attempt said later stays", STORE, "            del trial.reports[later]", "            pass"),
    Mutation("an end without a word is ignored", STORE, "            if trial.reports or by_itself:\n                self._settle(trial)\n", "            if trial.reports or by_itself:\n                pass\n"),
    Mutation("the first report counts, not the last", STORE, "trial.t = max(finite, default=None)", "trial.t = min(finite, default=None)"),
    Mutation("what never began is invalid", STORE, "                trial.status = Status.STOPPED\n", "                trial.status = Status.INVALID\n"),
    Mutation("what never began is running for ever", STORE, "                trial.status = Status.STOPPED\n", "                pass\n"),
    Mutation("an end without the metric is one without a word", FACE, "by_itself=result is not None", "by_itself=False"),
    Mutation("errors are ignored", STORE, "            trial.status, trial.value, trial.t = Status.ERRORED, None, None\n        trial.provisional", "            pass\n        trial.provisional"),
    Mutation("errors are ends", FACE, "            optimizer.fail(trial_id)\n        elif", "            optimizer.end(trial_id)\n        elif"),
    Mutation("a finished trial can err", STORE, "trial.status is Status.RUNNING or trial.provisional:\n", "True:\n"),
    Mutation("values of failed evaluations from elsewhere count", ELSEWHERE, "    if entry.error:\n", "    if False:\n"),
    # Who is who
    Mutation("values go to the first trial", LOOP, "self.observations.finish(trial_id, value, None if t is None else float(t))", "self.observations.finish(next(iter(self.observations.trials)), value, None if t is None else float(t))"),
    Mutation("reports go to the last trial", LOOP, "self.observations.report(trial_id, value, float(t))", "self.observations.report(list(self.observations.trials)[-1], value, float(t))"),
    Mutation("configurations are not remembered as used", STORE, "        self._used.add(self.space.key(point))\n", ""),
    Mutation("unknown trials are ignored", FACE, "                found = optimizer.recovered(", "                return None\n                found = optimizer.recovered("),
    Mutation("t is not read", RESULTS, "    t = as_value(result.get(time_attr))\n", "    t = None\n"),
    # Values
    Mutation("text is a number", STORE, "isinstance(raw, (str, bytes, bytearray, memoryview))", "isinstance(raw, bytearray)"),
    Mutation("infinity is a number", STORE, "return value if math.isfinite(value) else None", "return value if value == value else None"),
    Mutation("arrays of one number are none", STORE, 'getattr(raw, "size", None) == 1', "False"),
    # What is made of it
    Mutation("short trials are complete", STORE, "finished & (times >= self.full_t * (1.0 - 1e-9))", "finished & (times >= 0.0)"),
    Mutation("no trial is complete before one is", STORE, "finished & (times > times[finished].max() / RUNGS)", "finished & (times < 0.0)"),
    Mutation("stopped trials are finished", STORE, "Status.STOPPED if early(trial) else trial.status", "trial.status"),
    Mutation("trials that ended by themselves are stopped", STORE, "trial.ending is Ending.AT_A_REPORT and reached", "reached"),
    Mutation("larger is better though smaller is", STORE, 'return 1.0 if self.mode == "min" else -1.0', 'return 1.0 if self.mode == "max" else -1.0'),
    Mutation("errors count as bad though they are to be ignored", STORE, 'return FAILED if self.on_error == "penalize" else', "return FAILED if True else"),
    Mutation("bad trials are good", STORE, "return float(worst + (", "return float(losses.min() - ("),
    Mutation("what is told of a trial is not taken over", STORE, "        self._columns.set(trial)\n", "        pass\n"),
    Mutation("what is reported is taken over at the end only", STORE, "            trial.value, trial.t = value, t\n        self.note(trial)\n", "            trial.value, trial.t = value, t\n"),
    Mutation("the longest trial is the longest for ever", STORE, "self._furthest[k] = max(trial.reports, default=1.0)", "self._furthest[k] = max(self._furthest[k], max(trial.reports, default=1.0))"),
    # States
    Mutation("what was restored is not taken over", LOOP, "        self.observations.note(trial)\n", ""),
    Mutation("reports are not saved", LOOP, '"reports": [[t, value] for t, value in trial.reports.items()]', '"reports": []'),
    Mutation("values are saved as t", LOOP, '        "t": trial.t,\n', '        "t": trial.value,\n'),
    Mutation("who was taken up again is not saved", LOOP, '"provisional": trial.provisional', '"provisional": False'),
    Mutation("how trials ended is not saved", LOOP, '"ending": str(trial.ending)', '"ending": "by itself"'),
    Mutation("errored trials are running again after a restore", LOOP, 'trial.status = Status(saved["status"])', 'trial.status = Status(saved["status"].replace("errored", "running"))'),
    Mutation("max_t is not saved", LOOP, '            "max_t": self.observations.max_t,\n', ""),
    Mutation("the last trial is not saved", LOOP, "[_dump_trial(trial) for trial in self.observations]", "[_dump_trial(trial) for trial in self.observations][:-1]"),
]  # fmt: skip


def fuzz(sequences: int = SEQUENCES) -> None:
    """Plays sequences of events on a searcher; raises at the first that the oracle does not agree with."""
    import numpy as np

    from raytree.searchers import RandomSearcher
    from tests.events import WRAPPERS, play
    from tests.spaces import random_space

    for k in range(sequences):
        rng = np.random.default_rng([k, 11])
        space = random_space(rng)
        play(
            lambda space=space, **settings: RandomSearcher(space=space, metric="loss", seed=1, **settings),
            RandomSearcher,
            rng,
            events=int(rng.integers(5, 30)),
            wrapper=WRAPPERS[k % len(WRAPPERS)],
        )


def source_of(file: str) -> Path:
    """Where a file of the package is in the repository."""
    return ROOT / file.replace("raytree/searchers/", "searchers/")


def mutated(mutation: Mutation, folder: Path) -> None:
    """A copy of the package and the tests in a folder, with one line broken."""
    ignore = shutil.ignore_patterns("__pycache__", "searchers")
    shutil.copytree(ROOT / "raytree", folder / "raytree", ignore=ignore)
    shutil.copytree(ROOT / "searchers", folder / "raytree" / "searchers", ignore=ignore)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignore)
    path = folder / mutation.file
    path.write_text(path.read_text().replace(mutation.old, mutation.new))


def notices(mutation: Mutation | None) -> tuple[bool, str]:
    """Whether the fuzz fails on the code with a mutation (on the code as it is, for None), and its last words."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mutated(mutation or Mutation("", STORE, "", ""), folder)
        environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
        quiet = "import logging; logging.getLogger('raytree').setLevel(logging.CRITICAL)"
        code = f"{quiet}; from tests.mutations import fuzz; fuzz()"
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
    words = (done.stderr.strip().splitlines() or [""])[-1]
    if words.startswith(("ImportError", "ModuleNotFoundError", "SyntaxError", "NameError")):
        raise RuntimeError(f"{mutation and mutation.says}: {words}")  # broken, but not as it was meant
    return done.returncode != 0, words


def main() -> int:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--only", type=int, help="the number of one mutation")
    made.add_argument("--workers", type=int, default=2)
    arguments = made.parse_args()
    chosen = MUTATIONS if arguments.only is None else [MUTATIONS[arguments.only]]
    broken, words = notices(None)
    if broken:
        print(f"the fuzz fails on the code as it is: {words}")
        return 1
    with ThreadPoolExecutor(arguments.workers) as pool:
        found = list(pool.map(notices, chosen))
    for mutation, (noticed, words) in zip(chosen, found, strict=True):
        print(
            f"{'noticed' if noticed else 'NOT NOTICED':12} {mutation.says}"
            + (f"\n    {words}" if arguments.only is not None else "")
        )
    print(f"{sum(noticed for noticed, _ in found)} of {len(found)} noticed")
    return 0 if all(noticed for noticed, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
