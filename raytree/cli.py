"""The `raytree` command: look at a space before spending machine time on it."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import raytree
from raytree.errors import RaytreeError, SettingError
from raytree.space import Space


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="raytree", description="Bayesian optimization for search spaces with structure.")
    parser.add_argument("--version", action="version", version=f"raytree {raytree.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    space = commands.add_parser("space", help="check a search space and draw it as a tree")
    space.add_argument("target", metavar="MODULE:NAME", help="where the space is, such as my_project.tuning:space")
    space.add_argument("--samples", type=int, default=3, help="random configurations to show (default 3)")
    arguments = parser.parse_args(argv)
    try:
        print(show_space(arguments.target, arguments.samples))
    except RaytreeError as error:
        print(f"raytree: {error}", file=sys.stderr)
        return 1
    return 0


def show_space(target: str, samples: int) -> str:
    """The drawing of the space at MODULE:NAME, and some configurations from it."""
    space = _as_space(_load(target))
    rng = np.random.default_rng(0)
    shown = [f"  {space.config(space.decode(row))}" for row in space.sample(rng, samples)]
    size = f"{int(space.size):,} configurations" if np.isfinite(space.size) else "infinitely many configurations"
    return "\n".join([str(space), f"{size}, at most {space.dimension} free parameters at once", "for example", *shown])


def _load(target: str) -> Any:
    module_name, _, name = target.partition(":")
    if not name:
        raise SettingError(target, "expected MODULE:NAME.", "For example my_project.tuning:space.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        value: Any = importlib.import_module(module_name)
        for part in name.split("."):
            value = getattr(value, part)
    except ImportError as error:
        raise SettingError(target, f"cannot import {module_name} ({error}).", "Run from the folder it is in.") from None
    except AttributeError:
        raise SettingError(target, f"{module_name} has no {name}.") from None
    finally:
        sys.path.pop(0)
    return value


def _as_space(value: Any) -> Space:
    if isinstance(value, Space):
        return value
    try:  # a Tune space needs Ray to be understood; the engine itself does without
        convert = importlib.import_module("raytree.searchers.tune_space").to_space
    except ImportError:
        return Space(value)
    space: Space = convert(value)
    return space
