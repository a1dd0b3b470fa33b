"""Fuzz at scale: random event sequences on every searcher, and random spaces through everything a space can do.

    python benchmarks/fuzz.py                        10,000 of each; about an hour on two cores
    python benchmarks/fuzz.py --count 500            a taste

Sequences are those of tests/events.py: suggest, report, finish, fail, repeat, unknown and foreign trials, pause, save,
restore, pickle, in any order on random spaces, on the searcher alone and inside Tune's limiter and repeater. After every event
the oracle of tests/oracle.py says what must be known of every trial. A failure prints its seed and stops; the counts of what
agreed are the result, a line for every 50 sequences in results/fuzz.csv. Runs go on where they were.
"""

from __future__ import annotations

import argparse
import csv
import logging
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import harness  # noqa: F401  one BLAS thread
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

BLOCK = 50  # sequences or spaces per unit of work


def sequences(name: str, block: int) -> int:
    """Plays a block of sequences on a searcher; returns the number of events."""
    import raytree.searchers
    from tests.conformance import SPACE
    from tests.events import WRAPPERS, play
    from tests.spaces import random_space

    logging.getLogger("raytree").setLevel(logging.CRITICAL)
    searcher_class = getattr(raytree.searchers, name)
    events = 0
    for k in range(BLOCK):
        seed = block * BLOCK + k
        rng = np.random.default_rng([seed, 7])
        space = SPACE if seed % 5 == 0 else random_space(rng)
        length = int(rng.integers(5, 30))
        try:
            play(
                lambda s=space, **settings: searcher_class(space=s, metric="loss", seed=1, num_initial=3, **settings),
                searcher_class,
                rng,
                length,
                ("seed",) if name == "BOSHSearcher" else (),
                WRAPPERS[seed % len(WRAPPERS)],
            )
        except Exception as error:
            raise RuntimeError(f"{name}, sequence {seed}: {type(error).__name__}: {error}") from error
        events += length
    return events


def spaces(name: str, block: int) -> int:
    """Builds, samples, encodes, decodes, saves and restores a block of random spaces; returns the configurations tried."""
    from raytree import Optimizer, RandomOptimizer, state
    from raytree.space import Space
    from raytree.space.serial import dump, load
    from tests.spaces import random_space

    tried = 0
    for k in range(BLOCK):
        seed = block * BLOCK + k
        rng = np.random.default_rng([seed, 8])
        try:
            space = random_space(rng)
            str(space)
            assert Space(load(dump(space.structure))).parameters == space.parameters
            for row in space.sample(rng, 10):
                point = space.decode(row)
                assert space.admits(point)
                assert space.contains(space.config(point))
                np.testing.assert_allclose(space.encode(point), row, atol=1e-9)
                np.testing.assert_array_equal(~np.isnan(row), space.active(space.path(point)))
                tried += 1
            optimizer = RandomOptimizer(space, seed=seed)
            for value in (1.0, 0.5):
                if (suggestion := optimizer.ask()) is not None:
                    optimizer.tell(suggestion.id, value)
            restored = Optimizer.from_state(state.read(optimizer.save()))
            assert restored.save() == optimizer.save()
            assert restored.ask() == optimizer.ask()
        except Exception as error:
            raise RuntimeError(f"space {seed}: {type(error).__name__}: {error}") from error
    return tried


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--count", type=int, default=10_000, help="sequences per searcher, and spaces")
    made.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    made.add_argument("--searchers", default="RandomSearcher,TreeSearcher,CondKernelSearcher,HTBOSearcher,BOSHSearcher")
    made.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "fuzz.csv")
    arguments = made.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    done: dict[tuple[str, int], int] = {}
    if arguments.out.exists():
        for row in csv.DictReader(arguments.out.open()):
            done[row["what"], int(row["block"])] = int(row["count"])
    else:
        arguments.out.write_text("what,block,count\n")
    blocks = -(-arguments.count // BLOCK)
    jobs = [(name, block) for block in range(blocks) for name in ["spaces", *arguments.searchers.split(",")]]
    left = [job for job in jobs if job not in done]
    print(f"{len(jobs) - len(left)} of {len(jobs)} blocks of {BLOCK} done", flush=True)
    began = time.time()
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool, arguments.out.open("a") as file:
        futures = {pool.submit(spaces if name == "spaces" else sequences, name, block): (name, block) for name, block in left}
        for count, future in enumerate(as_completed(futures), start=1):
            name, block = futures[future]
            if future.exception() is not None:
                pool.shutdown(wait=False, cancel_futures=True)
            done[name, block] = future.result()
            file.write(f"{name},{block},{done[name, block]}\n")
            file.flush()
            if count % 20 == 0:
                rest = (time.time() - began) / count * (len(left) - count)
                print(f"[{count}/{len(left)}] {name}, about {rest / 60:.1f} min left", flush=True)
    for name in dict.fromkeys(name for name, _ in jobs):
        mine = [events for (who, _), events in done.items() if who == name]
        what = "configurations" if name == "spaces" else "events"
        print(f"{name}: {len(mine) * BLOCK:,} agreed with the oracle, {sum(mine):,} {what}")


if __name__ == "__main__":
    main()
