"""Snapshots: whole or not at all, the newest good one counts, everything that waits is in them, and one driver at a time."""

from __future__ import annotations

import errno
import json
import logging
import os
import resource
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from raytree import state as document
from raytree.errors import SettingError, StateError
from raytree.searchers import RandomSearcher, TreeSearcher, driver
from tests.events import restored, saved

SPACE = {"x": tune.uniform(0, 1), "m": tune.choice([{"kind": "a"}, {"kind": "b", "y": tune.randint(1, 100)}])}


def started(make: Any = TreeSearcher, trials: int = 3, **settings: Any) -> Any:
    searcher = make(SPACE, metric="loss", mode="min", seed=0, num_initial=2, **settings)
    for k in range(trials):
        tried(searcher, f"t{k}")
    return searcher


def tried(searcher: Any, trial_id: str) -> None:
    config = searcher.suggest(trial_id)
    searcher.on_trial_complete(trial_id, {"loss": config["x"], "training_iteration": 1})


def warnings(caplog: Any) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING and record.name == "raytree"]


@contextmanager
def full_disk(at: int = 1000):
    """No file grows beyond some bytes: the kernel refuses what comes after them, as a full disk does in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# Writing


def test_a_full_disk_leaves_the_older_snapshot_whole_and_the_search_going(tmp_path, caplog):
    searcher = started()
    searcher.save_to_dir(str(tmp_path), "2026")
    file = tmp_path / "searcher-state-2026.json"
    before = file.read_bytes()
    assert len(before) > 1000
    with full_disk():
        for k in range(3):
            tried(searcher, f"later{k}")
            searcher.save_to_dir(str(tmp_path), "2026")
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.glob("*state*")] + [path.name for path in tmp_path.glob(".*")] == [file.name]
    assert len([message for message in warnings(caplog) if "File too large" in message]) == 1
    assert len(warnings(caplog)) == 1
    searcher.save_to_dir(str(tmp_path), "2026")  # there is room again
    assert len(json.loads(file.read_text())["payload"]["optimizer"]["trials"]) == 6
    with full_disk():
        searcher.save_to_dir(str(tmp_path), "2026")
    assert len(warnings(caplog)) == 2  # a new trouble is a new warning


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_saving_by_hand_on_a_full_disk_does_not_raise_either(number, tmp_path, caplog, monkeypatch):
    searcher = started()
    file = tmp_path / "state.json"
    searcher.save(str(file))
    before = file.read_bytes()
    tried(searcher, "later")

    def refuse(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    searcher.save(str(file))
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    assert os.strerror(number) in warnings(caplog)[0]
    assert str(file) in warnings(caplog)[0]


def test_a_wrong_path_is_said_so(tmp_path):
    with pytest.raises(StateError, match="cannot be written"):
        started().save(str(tmp_path / "absent" / "state.json"))
    with pytest.raises(StateError, match="cannot be written"):
        started().save(str(tmp_path))


def test_what_cannot_be_saved_does_not_end_a_run(tmp_path, caplog, monkeypatch):
    searcher = started()
    monkeypatch.setattr(type(searcher._optimizer), "state", lambda self: {"object": object()})
    for _ in range(2):
        searcher.save_to_dir(str(tmp_path), "2026")
    assert not list(tmp_path.glob("searcher-state*"))
    assert len(warnings(caplog)) == 1


def test_a_kill_in_the_middle_of_a_save_leaves_the_older_snapshot_whole(tmp_path):
    program = """
import os, sys
from tests.test_saving import started, tried
searcher = started()
searcher.save(sys.argv[1])
print(open(sys.argv[1]).read(), flush=True)
tried(searcher, "later")
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)
searcher.save(sys.argv[1])
"""
    file = tmp_path / "state.json"
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, cwd=Path(__file__).parent.parent
    )
    assert done.returncode == -9
    assert file.read_text().strip() == done.stdout.strip()
    TreeSearcher().restore(str(file))


# Reading


def damaged(path: Path, how: str) -> None:
    content = path.read_bytes()
    path.write_bytes({"cut": content[: len(content) // 2], "empty": b"", "flipped": content.replace(b'"t1"', b'"t9"', 1)}[how])


@pytest.mark.parametrize("how", ["cut", "empty", "flipped"])
def test_a_damaged_newest_snapshot_is_passed_over(how, tmp_path, caplog):
    searcher = started()
    searcher.save_to_dir(str(tmp_path), "2026-01-01")
    tried(searcher, "later")
    searcher.save_to_dir(str(tmp_path), "2026-01-02")
    damaged(tmp_path / "searcher-state-2026-01-02.json", how)
    for again in (TreeSearcher(), TreeSearcher(SPACE, metric="loss", mode="min")):
        caplog.clear()
        again.restore_from_dir(str(tmp_path))
        assert again.observations()["trial_id"].tolist() == ["t0", "t1", "t2"]
        assert len(warnings(caplog)) == 1
        assert "searcher-state-2026-01-02.json" in warnings(caplog)[0]
        assert "searcher-state-2026-01-01.json" in warnings(caplog)[0]
    assert TreeSearcher.from_experiment(tmp_path).recommend() is not None


def test_of_good_snapshots_the_newest_counts_and_nothing_is_said(tmp_path, caplog):
    searcher = started()
    searcher.save_to_dir(str(tmp_path), "2026-01-01")
    tried(searcher, "later")
    searcher.save_to_dir(str(tmp_path), "2026-01-02")
    again = TreeSearcher.from_experiment(tmp_path)
    assert len(again.observations()) == 4
    assert warnings(caplog) == []


def test_without_any_good_snapshot_the_newest_one_says_why(tmp_path):
    started().save_to_dir(str(tmp_path), "2026-01-01")
    started().save_to_dir(str(tmp_path), "2026-01-02")
    for path in tmp_path.glob("searcher-state-*"):
        damaged(path, "cut")
    with pytest.raises(StateError, match=r"2026-01-02\.json.*cut short"):
        TreeSearcher().restore_from_dir(str(tmp_path))
    with pytest.raises(SettingError, match="not a directory"):
        TreeSearcher.from_experiment(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SettingError, match="no raytree searcher was saved"):
        TreeSearcher().restore_from_dir(str(tmp_path / "empty"))


def test_a_snapshot_that_is_whole_but_not_yours_is_not_passed_over(tmp_path):
    """An older one would be somebody else's search, or an older space."""
    started(TreeSearcher).save_to_dir(str(tmp_path), "2026-01-01")
    started(RandomSearcher).save_to_dir(str(tmp_path), "2026-01-02")
    with pytest.raises(StateError, match="RandomSearcher"):
        TreeSearcher().restore_from_dir(str(tmp_path))
    newer = tmp_path / "searcher-state-2026-01-03.json"
    newer.write_text(saved(started()).replace('"version": 2', '"version": 99', 1))
    with pytest.raises(StateError, match="newer raytree"):
        TreeSearcher().restore_from_dir(str(tmp_path))


# What is in a snapshot


def test_without_a_time_attribute_snapshots_come_back():
    searcher = started(time_attr=None)
    again = restored(saved(searcher), TreeSearcher)
    assert saved(again) == saved(searcher)
    tried(again, "next")
    assert len(again.observations()) == 4


def test_points_that_wait_for_the_space_are_saved():
    def waiting() -> TreeSearcher:
        return TreeSearcher(
            seed=0, num_initial=3, points_to_evaluate=[{"x": 0.25, "m": {"kind": "a"}}, {"x": 0.75, "m": {"kind": "a"}}],
            evaluated_rewards=[1.0],
        )  # fmt: skip

    searcher = waiting()
    searcher.add_evaluated_point({"x": 0.5, "m": {"kind": "b", "y": 7}}, 2.0, intermediate_values=[3.0, 2.0])
    searcher.add_evaluated_point({"x": 0.1, "m": {"kind": "a"}}, 0.0, error=True)
    blank = restored(saved(searcher), TreeSearcher)
    assert saved(blank) == saved(searcher)
    for again in (searcher, blank):
        assert again.set_search_properties("loss", "min", SPACE)
        assert again.suggest("first") == {"x": 0.75, "m": {"kind": "a"}}
    columns = ["status", "value", "t"]
    assert blank.observations()[columns].equals(searcher.observations()[columns])
    assert blank.observations()["value"].dropna().tolist() == [1.0, 2.0]


def test_requested_points_are_saved():
    points = [{"x": 0.25, "m": {"kind": "a"}}, {"x": 0.75, "m": {"kind": "b", "y": 3}}]
    searcher = TreeSearcher(SPACE, metric="loss", mode="min", seed=0, points_to_evaluate=points)
    again = restored(saved(searcher), TreeSearcher)
    assert [again.suggest("a"), again.suggest("b")] == points


def test_points_that_hold_objects_are_left_out_with_a_warning(caplog):
    searcher = TreeSearcher(points_to_evaluate=[{"x": object()}])
    text = saved(searcher)
    assert "cannot be saved" in warnings(caplog)[0]
    restored(text, TreeSearcher)


def test_waiting_points_of_a_forged_file_must_fit_your_space(tmp_path):
    searcher = TreeSearcher()
    searcher.add_evaluated_point({"x": 0.5, "m": {"kind": "a"}}, 1.0)
    payload = json.loads(saved(searcher))["payload"]
    for wrong in (
        {"points": [{"x": 7}]},
        {"points": 3},
        {"given": [1]},
        {"rewards": [1.0, 2.0]},
        {"given": [[{"x": 7}, 1.0, False, None]]},
    ):
        path = tmp_path / "forged.json"
        path.write_text(document.write({**payload, "waiting": {**payload["waiting"], **wrong}}))
        yours = TreeSearcher(SPACE, metric="loss", mode="min", seed=0)
        before = saved(yours)
        with pytest.raises(StateError):
            yours.restore(str(path))
        assert saved(yours) == before


# Two drivers


def live(folder: str, session: str) -> None:
    """A driver that saves once and goes on living until its input ends."""
    started().save_to_dir(folder, session)
    print("saved", flush=True)
    sys.stdin.read()


def other_process(folder: Path, session: str) -> subprocess.Popen:
    """Another driver on this machine, which has saved and lives."""
    program = "import sys; from tests.test_saving import live; live(*sys.argv[1:])"
    made = subprocess.Popen(
        [sys.executable, "-c", program, str(folder), session],
        cwd=Path(__file__).parent.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert made.stdout.readline() == "saved\n"
    return made


def test_a_second_driver_on_one_directory_is_refused_while_the_first_lives(tmp_path):
    first = other_process(tmp_path, "2026-01-01")
    try:
        with pytest.raises(StateError, match=f"process {first.pid} on {socket.gethostname()}"):
            TreeSearcher().restore_from_dir(str(tmp_path))
        assert len(TreeSearcher.from_experiment(tmp_path).observations()) == 3  # looking is allowed
    finally:
        first.kill()
        first.wait()
    TreeSearcher().restore_from_dir(str(tmp_path))  # at once: the process is gone


def test_a_driver_goes_on_with_its_own_directory(tmp_path):
    started().save_to_dir(str(tmp_path), "2026-01-01")
    TreeSearcher().restore_from_dir(str(tmp_path))


def note(folder: Path, **changes: Any) -> None:
    path = folder / "searcher-driver-2026-01-01.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_driver_elsewhere_is_believed_to_live_for_a_while(tmp_path):
    started().save_to_dir(str(tmp_path), "2026-01-01")
    note(tmp_path, machine="another", host="elsewhere", saved_at=time.time() - 5)
    with pytest.raises(StateError, match=r"on elsewhere.*wait"):
        TreeSearcher().restore_from_dir(str(tmp_path))
    for moment in (time.time() - 2 * driver.LEASE, time.time() + 10 * driver.LEASE):  # over, or a clock that is wrong
        note(tmp_path, saved_at=moment)
        TreeSearcher().restore_from_dir(str(tmp_path))
    note(tmp_path, saved_at=time.time() - 2 * driver.LEASE, every=driver.LEASE)  # it saves rarely
    with pytest.raises(StateError, match="on elsewhere"):
        TreeSearcher().restore_from_dir(str(tmp_path))


def test_a_process_that_lives_but_saves_no_more_does_not_stop_you(tmp_path, caplog):
    """A notebook whose experiment is over."""
    first = other_process(tmp_path, "2026-01-01")
    try:
        note(tmp_path, saved_at=time.time() - 1000)
        TreeSearcher().restore_from_dir(str(tmp_path))
        assert f"process {first.pid}" in warnings(caplog)[0]
    finally:
        first.kill()
        first.wait()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": "x"}', '{"machine": 1, "host": [], "pid": -1, "saved_at": "now"}'])
def test_a_note_that_cannot_be_read_stops_nobody(content, tmp_path):
    started().save_to_dir(str(tmp_path), "2026-01-01")
    (tmp_path / "searcher-driver-2026-01-01.json").write_text(content)
    TreeSearcher().restore_from_dir(str(tmp_path))


def test_an_absurd_process_id_stops_nobody(tmp_path):
    started().save_to_dir(str(tmp_path), "2026-01-01")
    note(tmp_path, pid=10**30)
    TreeSearcher().restore_from_dir(str(tmp_path))


def test_a_process_id_that_was_given_to_another_process_is_not_the_driver(tmp_path):
    first = other_process(tmp_path, "2026-01-01")
    try:
        saved_note = json.loads((tmp_path / "searcher-driver-2026-01-01.json").read_text())
        note(tmp_path, started=saved_note["started"] - 1)
        TreeSearcher().restore_from_dir(str(tmp_path))
    finally:
        first.kill()
        first.wait()
