"""Commands that look at an experiment. What they print in colour to a terminal they print plainly into a pipe."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from typing import Any

from raytree.cli import targets
from raytree.errors import SettingError
from raytree.report import text, write_page
from raytree.report.export import to_configspace_file, to_optuna
from raytree.report.view import View

NOTHING_YET = 3


def opened(arguments: argparse.Namespace) -> Any:
    """The search of the experiment that the arguments name (a `searchers.experiment.Opened`)."""
    try:  # the engine itself does without Ray; folders of Tune need it
        experiment = importlib.import_module("raytree.searchers.experiment")
    except ImportError as error:
        raise SettingError("ray", f"cannot be imported ({error}).", "pip install 'ray[tune]'") from None
    space = None if arguments.space is None else targets.load_space(arguments.space)
    return experiment.open_experiment(
        arguments.experiment, space=space, metric=arguments.metric, mode=arguments.mode, trusted=not arguments.untrusted
    )


def paint() -> text.Paint:
    """Colours where stdout is a terminal and nobody has said NO_COLOR."""
    return text.ansi if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text.plain


def report(arguments: argparse.Namespace) -> int:
    path = write_page(opened(arguments).view(), arguments.out)
    targets.show(f"{path}")
    return 0


def show(arguments: argparse.Namespace) -> int:
    view: View = opened(arguments).view()
    targets.show(text.summary(view, paint()))
    return 0 if view.choice is not None else NOTHING_YET


def best(arguments: argparse.Namespace) -> int:
    view: View = opened(arguments).view(details=False)
    choice = view.choice
    if choice is None:
        print("raytree: no trial has a value yet", file=sys.stderr)
        return NOTHING_YET
    targets.show(choice.code if arguments.python else json.dumps(choice.config, indent=2))
    around = "" if choice.sd is None else f" ± {text.number(choice.sd, 2)}"
    print(
        f"expected {view.metric}: {text.number(choice.value, 5)}{around}, trial {view.trials.id[choice.trial]}", file=sys.stderr
    )
    return 0


def trials(arguments: argparse.Namespace) -> int:
    view: View = opened(arguments).view(details=False)
    targets.show(text.trials_csv(view).rstrip("\n") if arguments.csv else text.trials_text(view, paint()))
    return 0


def export(arguments: argparse.Namespace) -> int:
    found = opened(arguments)
    if arguments.configspace is not None:
        to_configspace_file(found.optimizer.given_space, arguments.configspace)
        targets.show(arguments.configspace)
    elif arguments.optuna is not None:
        count = to_optuna(found.optimizer, found.view(details=False), arguments.optuna)
        targets.show(f"{arguments.optuna}: {count} trials; look with: optuna-dashboard sqlite:///{arguments.optuna}")
    else:
        targets.show(found.view().to_json())
    return 0
