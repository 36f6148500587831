"""Artifacts are kept by content, whole or not at all, and built by one process at a time."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gpulab.artifacts.builder import side_by_side
from gpulab.artifacts.store import Store, digest_tree, key_of, need_programs

from gpusmith.errors import ToolError


def write(text: str) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        (folder / "content").write_text(text)

    return build


def test_the_same_inputs_build_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = store.get("thing", {"a": 1, "b": [2]}, write("one"))
    second = store.get("thing", {"b": [2], "a": 1}, write("two"))
    assert first == second
    assert (first / "content").read_text() == "one"
    assert store.built == ["thing"]


def test_two_threads_build_it_once(tmp_path: Path) -> None:
    store, calls, begun = Store(tmp_path), [], threading.Event()

    def build(folder: Path) -> None:
        calls.append(folder)
        begun.set()
        time.sleep(0.2)

    def second() -> Path:
        begun.wait(10)
        return store.get("thing", {"a": 1}, build)

    with ThreadPoolExecutor() as pool:
        later = pool.submit(second)
        assert store.get("thing", {"a": 1}, build) == later.result(10)
    assert len(calls) == 1


def test_after_a_failure_no_other_build_begins(tmp_path: Path) -> None:
    done: list[str] = []
    begun = threading.Event()

    def fails() -> None:
        begun.wait(10)
        raise ToolError("no room")

    def slow() -> None:
        begun.set()
        time.sleep(0.3)
        done.append("slow")

    with pytest.raises(ToolError, match="no room"):
        side_by_side([[fails], [slow, lambda: done.append("next")]])
    assert done == ["slow"]


def test_other_inputs_build_beside_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.get("thing", {"a": 1}, write("one")) != store.get("thing", {"a": 2}, write("two"))


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise ToolError("no")

    with pytest.raises(ToolError):
        store.get("thing", {}, fail)
    assert list((tmp_path / "thing").iterdir()) == []


def _killed(root: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "half").touch()
        os._exit(9)

    store = Store(root)
    with store.lock():
        store.get("thing", {}, build)


def test_a_killed_build_is_swept_and_does_not_block(tmp_path: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=_killed, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == 9
    assert [path.name.startswith(".tmp-") for path in (tmp_path / "thing").iterdir()] == [True]
    store = Store(tmp_path)
    with store.lock():
        assert list((tmp_path / "thing").iterdir()) == []
        built = store.get("thing", {}, write("whole"))
    assert (built / "content").read_text() == "whole"


def test_old_versions_are_forgotten_but_not_the_used(tmp_path: Path) -> None:
    store = Store(tmp_path)
    built = [store.get("thing", number, write(str(number))) for number in range(3)]
    for age, path in enumerate(reversed(built)):
        os.utime(path, (1000 - age, 1000 - age))
    assert store.get("thing", 0, write("again")) == built[0]
    new = store.get("thing", 3, write("3"))
    assert [path.exists() for path in [*built, new]] == [True, False, True, True]


def test_the_key_of_a_folder_sees_names_modes_links_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    seen = {digest_tree(tmp_path)}
    (tmp_path / "a").chmod(0o755)
    seen.add(digest_tree(tmp_path))
    (tmp_path / "a").write_text("y")
    seen.add(digest_tree(tmp_path))
    (tmp_path / "b").symlink_to("a")
    seen.add(digest_tree(tmp_path))
    (tmp_path / "b").unlink()
    (tmp_path / "b").symlink_to("c")
    seen.add(digest_tree(tmp_path))
    assert len(seen) == 5
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").touch()
    assert digest_tree(tmp_path) in seen


def test_keys_are_stable() -> None:
    assert key_of({"a": [1, "x", None]}) == key_of({"a": [1, "x", None]})
    assert len(key_of({})) == 16


def test_missing_programs_are_all_named() -> None:
    with pytest.raises(ToolError) as error:
        need_programs({"sh": "dash", "no-such-a": "package-a", "no-such-b": "package-b"})
    assert "'no-such-a', 'no-such-b'" in str(error.value)
    assert "apt-get install package-a package-b" in str(error.value)
