"""The `raytree` command: look at a space before the search, and at the search while it runs and after it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

import raytree
from raytree.cli import experiments, targets, watch
from raytree.errors import RaytreeError

FINE, PROBLEM, USAGE, NOTHING_YET, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes. USAGE is argparse's own."""

EPILOG = """examples:
  raytree space my_project.tuning:space       check a space and draw it; also my_script.py:space
  raytree show ~/ray_results/my_run           the tree, the recommendation, health checks
  raytree report ~/ray_results/my_run         one HTML page with everything
  raytree watch ~/ray_results/my_run          the same as show, live, while it runs
  raytree best ~/ray_results/my_run > best.json
  raytree trials ~/ray_results/my_run --csv > trials.csv
  raytree export ~/ray_results/my_run --optuna study.db

exit codes: 0 fine; 1 something is wrong, said in one line; 2 wrong usage; 3 no trial has a value yet; 130 interrupted
"""
FOREIGN = """experiments of other searchers need their space, metric and mode:
  raytree {name} ~/ray_results/their_run --space my_script.py:space --metric loss --mode min
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code, see `EPILOG`."""
    arguments = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except RaytreeError as error:
        print(f"raytree: {' '.join(str(error).split())}", file=sys.stderr)
        return PROBLEM
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever was reading has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PROBLEM


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="raytree",
        description="Bayesian optimization for search spaces with structure.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"raytree {raytree.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    space = commands.add_parser(
        "space",
        help="check a search space and draw it as a tree",
        description="Checks a search space and draws it, with some random configurations.",
    )
    space.add_argument("target", metavar="MODULE:NAME", help="where it is: my_project.tuning:space, or my_script.py:space")
    space.add_argument("--samples", type=targets.samples, default=3, help="random configurations to show (default 3)")
    space.set_defaults(run=targets.run)

    def experiment(name: str, text: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=FOREIGN.format(name=name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.add_argument("experiment", metavar="EXPERIMENT", help="the folder that Tune wrote, or a URI such as s3://bucket/run")
        made.add_argument("--space", metavar="MODULE:NAME", help="the search space, if another searcher was used")
        made.add_argument("--metric", help="the metric, if another searcher was used")
        made.add_argument("--mode", choices=["min", "max"], help="whether the metric is to be small or large, the same")
        made.add_argument("--untrusted", action="store_true", help="read raytree's own JSON only, no pickles of Tune's")
        made.set_defaults(run=run)
        return made

    report = experiment(
        "report", "write one HTML page with everything: the tree, the recommendation, figures, trials", experiments.report
    )
    report.add_argument("--out", default="report.html", metavar="FILE", help="where to (default report.html)")
    experiment("show", "the tree with trials and best values, the recommendation, health checks", experiments.show)
    best = experiment("best", "the recommended configuration as JSON; what to expect of it on stderr", experiments.best)
    best.add_argument("--python", action="store_true", help="as Python instead")
    trials = experiment("trials", "all trials, a line each, active parameters only", experiments.trials)
    trials.add_argument("--csv", action="store_true", help="as CSV, with Tune's names of columns")
    export = experiment("export", "the search in a format of others", experiments.export)
    kinds = export.add_mutually_exclusive_group(required=True)
    kinds.add_argument("--optuna", metavar="FILE", help="an SQLite study that optuna-dashboard opens")
    kinds.add_argument("--configspace", metavar="FILE", help="the space as ConfigSpace's JSON")
    kinds.add_argument("--json", action="store_true", help="everything that the page shows, on stdout")
    live = experiment("watch", "a live view of a running experiment", watch.run)
    live.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="between two looks (default 5)")
    live.add_argument("--updates", type=int, metavar="N", help="end after so many looks; else when the experiment ends")
    return parser
