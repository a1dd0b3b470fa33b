"""`raytree watch`: the state of a running experiment, again and again."""

from __future__ import annotations

import argparse
import sys
import time

from raytree.cli import targets
from raytree.cli.experiments import NOTHING_YET, opened, paint
from raytree.errors import SettingError
from raytree.report import text
from raytree.report.view import View

LATEST = 8
"""Trials that are shown below the tree."""
HOME, REST = "\x1b[H", "\x1b[J"
"""Moves the cursor to the first line; clears what is below it."""


def run(arguments: argparse.Namespace) -> int:
    """Looks until the experiment ends, or as often as asked; in a pipe, one block a look that brings news."""
    if arguments.every <= 0:
        raise SettingError("--every", f"must be positive, got {arguments.every:g}.")
    terminal, looks, last = sys.stdout.isatty(), 0, ""
    if terminal:
        targets.show("\x1b[2J")
    while True:
        view: View = opened(arguments).view(details=False)
        shown = block(view, paint())
        if terminal:
            targets.show(HOME + shown.replace("\n", "\x1b[K\n") + REST)
        elif shown != last:
            targets.show(shown + "\n")
        looks, last = looks + 1, shown
        if not view.running or looks == arguments.updates:
            return 0 if view.choice is not None else NOTHING_YET
        time.sleep(arguments.every)


def block(view: View, painted: text.Paint) -> str:
    """What is shown of one look."""
    parts = [text.title(view, painted), text.tree(view, painted), text.recommendation(view, painted)]
    return "\n\n".join([*parts, text.trials_text(view, painted, LATEST)])
