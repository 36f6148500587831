from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import replace

import pytest
from gpulab.podman import KILLED, MISSING
from gpulab.processes import process_start
from gpulab.state import (
    Places,
    Shape,
    State,
    beyond_repair,
    end_orphan,
    load,
    locked,
    reshape,
    save,
    write_atomically,
)

from gpusmith.errors import InputError, ToolError

UP = State(Shape(), complete=True, cluster_ready=True)


def test_no_state_means_no_lab(places: Places) -> None:
    assert load(places) is None


@pytest.mark.parametrize("gpus", [(4,), (8, 4, 1)])
def test_state_survives(places: Places, gpus: tuple[int, ...]) -> None:
    state = State(Shape(gpu_nodes=3, gpus=gpus), complete=True)
    save(places, state)
    assert load(places) == state


def test_a_lab_that_an_older_release_has_up_is_known(places: Places) -> None:
    save(places, UP)
    text = re.sub(r'"gpus": \[\s*4\s*\]', '"gpus": 4', places.state_file.read_text())
    assert '"gpus": 4' in text
    places.state_file.write_text(text)
    assert load(places) == UP


def test_a_lab_of_a_release_that_had_no_choice_of_releases_is_known(places: Places) -> None:
    save(places, UP)
    raw = json.loads(places.state_file.read_text())
    assert raw["shape"].pop("kubernetes") == "1.36"
    assert raw["shape"].pop("containerd") == "2.3"
    places.state_file.write_text(json.dumps(raw))
    assert load(places) == UP


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}', '{"schema": 1, "shape": {"colour": 1}}'])
def test_unreadable_state_names_the_file_and_the_way_out(places: Places, text: str) -> None:
    write_atomically(places.state_file, text)
    with pytest.raises(ToolError, match=r"state\.json.*gpulab down"):
        load(places)


def test_secrets_are_never_readable_by_others(places: Places) -> None:
    path = places.root / "key"
    write_atomically(path, "secret", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in places.root.iterdir()] == ["key"]


def test_same_shape_changes_nothing() -> None:
    assert reshape(UP, Shape()) is UP


def test_a_lab_grows_and_keeps_its_cluster() -> None:
    grown = reshape(UP, Shape(gpu_nodes=3))
    assert (grown.shape.gpu_nodes, grown.cluster_ready, grown.complete) == (3, True, False)


def test_a_lab_grows_by_a_machine_with_another_operating_system() -> None:
    grown = reshape(UP, Shape(gpu_nodes=3, os=("gpu-3=rocky-9",)))
    assert [grown.shape.system(f"gpu-{number}") for number in (1, 2, 3)] == [
        "debian-12",
        "debian-12",
        "rocky-9",
    ]


def test_a_cluster_can_be_added() -> None:
    bare = State(Shape(cluster=False), complete=True)
    assert reshape(bare, Shape()).shape.cluster


@pytest.mark.parametrize(
    ("wanted", "option"),
    [
        (Shape(gpu_nodes=1), "--gpu-nodes"),
        (Shape(gpus=(8,)), "--gpus"),
        (Shape(model="t4"), "--model"),
        (Shape(subnet="10.78.0.0/24"), "--subnet"),
        (Shape(cluster=False), "--no-cluster"),
        (Shape(os=("rocky-9",)), "rocky-9"),
        (Shape(gpu_nodes=3, os=("gpu-2=ubuntu-24.04",)), "ubuntu-24.04"),
        (Shape(kubernetes="1.35"), "--kubernetes '1.36'"),
        (Shape(containerd="2.0"), "--containerd '2.3'"),
    ],
)
def test_shrinking_and_changing_are_refused_with_a_way_out(wanted: Shape, option: str) -> None:
    with pytest.raises(InputError, match=rf"{option}.*gpulab down"):
        reshape(replace(UP), wanted)


def test_two_commands_at_once_are_kept_apart(places: Places) -> None:
    with (
        locked(places, "up"),
        pytest.raises(ToolError, match=rf"gpulab up, process {os.getpid()}"),
        locked(places, "down"),
    ):
        pytest.fail("the lock was given twice")
    with locked(places, "down"):
        pass


def test_a_reused_process_number_is_left_alone(places: Places) -> None:
    write_atomically(places.root / "child.json", f'{{"pid": {os.getpid()}, "start": "1"}}')
    assert not end_orphan(places)
    assert process_start(os.getpid())


@pytest.mark.parametrize(
    ("words", "busy", "ready", "lost"),
    [
        ({"cp-1": "running", "gpu-1": "exited"}, (), True, set()),
        ({"cp-1": "running", "gpu-1": KILLED}, (), True, {"gpu-1"}),
        ({"cp-1": "running", "gpu-1": MISSING}, (), True, {"gpu-1"}),
        ({"cp-1": "running", "cpu-1": "running", "gpu-1": "running"}, ("cpu-1",), True, {"cpu-1"}),
        ({"cp-1": KILLED, "gpu-1": "running"}, (), True, {"cp-1", "gpu-1"}),
        ({"cp-1": MISSING, "gpu-1": "running"}, (), False, {"cp-1"}),
    ],
)
def test_machines_that_have_to_be_made_anew(
    words: dict[str, str], busy: tuple[str, ...], ready: bool, lost: set[str]
) -> None:
    state = State(shape=Shape(), cluster_ready=ready, busy=busy)
    assert beyond_repair(state, words) == lost
