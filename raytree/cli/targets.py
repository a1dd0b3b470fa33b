"""`raytree space`, and where a space is: MODULE:NAME, or file.py:NAME."""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from raytree.errors import SettingError, SpaceError
from raytree.space import Space

MOST_SAMPLES = 10_000


def run(arguments: argparse.Namespace) -> int:
    """`raytree space`."""
    show(show_space(arguments.target, arguments.samples))
    return 0


def show_space(target: str, samples: int) -> str:
    """Checks the search space at MODULE:NAME or file.py:NAME, draws it, and shows some configurations from it.

    Raises:
        RaytreeError: if there is none, or it cannot be searched.
    """
    space = load_space(target)
    rng = np.random.default_rng(0)
    shown = [f"  {space.config(space.decode(row))}" for row in space.sample(rng, samples)]
    size = f"{int(space.size):,} configurations" if np.isfinite(space.size) else "infinitely many configurations"
    return "\n".join([str(space), f"{size}, at most {space.dimension} free parameters at once", "for example", *shown])


def samples(text: str) -> int:
    """A number of samples, for the parser of arguments."""
    if not text.isdecimal() or int(text) > MOST_SAMPLES:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to {MOST_SAMPLES}, got {text}")
    return int(text)


def show(text: str) -> None:
    """Prints; characters that the terminal does not know become question marks."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, errors="replace").decode(encoding), flush=True)


def load_space(target: str) -> Space:
    """The space at MODULE:NAME or file.py:NAME.

    Raises:
        RaytreeError: if there is none, or it cannot be searched.
    """
    return _as_space(_load(target), target)


def _load(target: str) -> Any:
    """The value at MODULE:NAME or file.py:NAME. Importing runs the user's code, which may raise anything."""
    module_name, _, name = target.rpartition(":")
    folder = Path.cwd()
    if module_name.endswith(".py"):
        file = Path(module_name).expanduser()
        if not file.is_file():
            raise SettingError(target, f"there is no file {module_name}.", "Check the path.")
        folder, module_name = file.resolve().parent, file.stem
        if not module_name.isidentifier():
            raise SettingError(target, f"{file.name} is no name of a module.", "Rename the file.")
    if not all(part.isidentifier() for part in (*module_name.split("."), *name.split("."))):
        raise SettingError(target or "''", "expected MODULE:NAME or file.py:NAME.", "For example my_project.tuning:space.")
    sys.path.insert(0, str(folder))
    try:
        value: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise SettingError(target, f"cannot import {module_name} ({error}).", "Run from the folder it is in.") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever the user's module raises
        raise SettingError(target, f"cannot be loaded: {_told(error)}.", "Mend the module.") from None
    finally:
        sys.path.pop(0)
    try:
        for part in name.split("."):
            value = getattr(value, part)
    except AttributeError:
        raise SettingError(target, f"{module_name} has no {name}.", "Check the name.") from None
    except Exception as error:  # noqa: BLE001  a property of the user's
        raise SettingError(target, f"cannot be loaded: {_told(error)}.", "Mend the module.") from None
    return value


def _told(error: BaseException) -> str:
    """An exception of the user's code in one line, with the place it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}" + ("" if isinstance(error, SyntaxError) else place)


def _as_space(value: Any, target: str) -> Space:
    """The space of a value that is meant as one: a `Space`, a dict with domains in it, or a ConfigurationSpace."""
    if isinstance(value, Space):
        return value
    foreign = type(value).__module__.split(".")[0] == "ConfigSpace" and type(value).__name__ == "ConfigurationSpace"
    if not isinstance(value, Mapping) and not foreign:
        kind = type(value).__name__
        article = "an" if kind[0].lower() in "aeiou" else "a"
        raise SpaceError(
            target, f"is {article} {kind}, not a search space.", "Name a dict with domains in it, such as tune.uniform."
        )
    try:  # a Tune space needs Ray to be understood; the engine itself does without
        convert = importlib.import_module("raytree.searchers.tune_space").to_space
    except ImportError:
        convert = Space
    space: Space = convert(value)
    if space.d == 0:
        raise SpaceError(target, "nothing in it can be searched.", "Put domains into it, such as tune.uniform(0, 1).")
    return space
