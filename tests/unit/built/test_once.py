"""One node of a key builds, and what becomes of the others."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from gpusmith.built import key
from gpusmith.built.cache import ARCHIVE, MANIFEST, Cache
from gpusmith.built.once import BuildFailed, NotBuilt, Once, forecast
from gpusmith.errors import InputError, ToolError
from gpusmith.node.records import parse
from gpusmith.wait import Deadline, WaitTimeout
from tests.unit.built.conftest import KEY, Host, together
from tests.unit.records import healthy_record

RUN = "controller/boot/1/2"


def once(cache: Cache, host: str, run: str = RUN, timeout_s: float = 20.0) -> Once:
    return Once(cache, host, run, timeout_s=timeout_s)


def test_of_many_at_once_one_compiles(cache: Cache, log: list[str]) -> None:
    hosts = [Host(f"gpu-{number}", log, during=lambda: time.sleep(0.3)) for number in range(6)]
    came = together(*(lambda host=host: once(cache, host.name).provide(KEY, host) for host in hosts))
    assert [line for line in log if line.endswith("compiles")] == log[:1]
    assert sorted(log[1:]) == sorted(
        f"{host.name} takes" for host in hosts if not log[0].startswith(host.name)
    )
    assert {each.builder for each in came} == {log[0].split()[0]}  # type: ignore[attr-defined]


def test_what_was_built_is_kept_for_the_next_run_and_for_nobody_else(cache: Cache, log: list[str]) -> None:
    once(cache, "gpu-1").provide(KEY, Host("gpu-1", log))
    came = once(cache, "gpu-2", "another run").provide(KEY, Host("gpu-2", log))
    assert log == ["gpu-1 compiles", "gpu-2 takes"]
    assert came.words("gpu-2") == (
        "took the driver's modules for kernel 6.1.0-40-amd64, which 'gpu-1' has compiled"
    )
    paths = [cache.folder, *cache.folder.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}
    assert not [path for path in paths if path.name.startswith(".")]


@pytest.mark.parametrize(
    "other",
    [
        {"kernel": "6.1.0-41-amd64"},
        {"machine": "aarch64"},
        {"version": "580.190.02"},
        {"flavour": "proprietary"},
        {"family": "ubuntu-24.04"},
        {"layout": "distribution"},
        {"certificate": "ab"},
    ],
)
def test_another_key_has_a_builder_of_its_own(cache: Cache, log: list[str], other: dict[str, str]) -> None:
    once(cache, "gpu-1").provide(KEY, Host("gpu-1", log))
    once(cache, "gpu-2").provide(replace(KEY, **other), Host("gpu-2", log))
    assert log == ["gpu-1 compiles", "gpu-2 compiles"]


def test_after_a_failure_one_more_tries(cache: Cache, log: list[str]) -> None:
    with pytest.raises(BuildFailed, match="no compiler"):
        once(cache, "gpu-1").provide(KEY, Host("gpu-1", log, fails=True))
    came = once(cache, "gpu-2").provide(KEY, Host("gpu-2", log))
    assert came.words("gpu-2").endswith(" s, after it failed on 'gpu-1'")
    once(cache, "gpu-3").provide(KEY, Host("gpu-3", log))
    assert log == ["gpu-1 compiles", "gpu-2 compiles", "gpu-3 takes"]


def test_after_two_failures_nobody_compiles_and_the_reason_is_elsewhere(cache: Cache, log: list[str]) -> None:
    for name in ("gpu-1", "gpu-2"):
        with pytest.raises(BuildFailed):
            once(cache, name).provide(KEY, Host(name, log, fails=True))
    with pytest.raises(NotBuilt) as told:
        once(cache, "gpu-3").provide(KEY, Host("gpu-3", log))
    assert not isinstance(told.value, BuildFailed)
    assert "it failed on 'gpu-1' and 'gpu-2'" in str(told.value)
    assert "Nothing was compiled on 'gpu-3'" in str(told.value)
    assert log == ["gpu-1 compiles", "gpu-2 compiles"]
    # What failed in one run is tried anew in the next one.
    once(cache, "gpu-1", "the next run").provide(KEY, Host("gpu-1", log))
    assert log[-1] == "gpu-1 compiles"


def test_a_builder_that_vanishes_holds_up_nobody(cache: Cache, log: list[str]) -> None:
    """As a worker that is killed: the lock is its process's."""
    child = os.fork()
    if child == 0:
        with cache.turn(KEY, "gpu-1", Deadline(5.0)):
            os._exit(9)
    os.waitpid(child, 0)
    once(cache, "gpu-2").provide(KEY, Host("gpu-2", log))
    assert log == ["gpu-2 compiles"]


def test_who_waits_too_long_says_for_whom(cache: Cache, log: list[str]) -> None:
    slow = Host("gpu-1", log, during=lambda: time.sleep(2.5))

    def second() -> object:
        while not log:
            time.sleep(0.01)
        return once(cache, "gpu-2", timeout_s=0.5).provide(KEY, Host("gpu-2", log))

    _first, waited = together(lambda: once(cache, "gpu-1").provide(KEY, slow), second)
    assert isinstance(waited, WaitTimeout)
    assert "'gpu-1' builds it" in str(waited)
    assert log == ["gpu-1 compiles"]


def test_a_controller_without_room_says_nothing_about_the_modules(cache: Cache, log: list[str]) -> None:
    full = OSError(28, "No space left on device")
    with patch.object(Cache, "put", side_effect=full), pytest.raises(ToolError, match="No space left"):
        once(cache, "gpu-1").provide(KEY, Host("gpu-1", log))
    assert cache.failures(KEY, RUN) == []
    # Nor is a folder that cannot be made a traceback.
    with pytest.raises(InputError, match="nvidia_driver_build_cache"):
        Cache("/proc/nowhere")


@pytest.mark.parametrize("damage", ["archive", "manifest", "half", "foreign"])
def test_what_is_damaged_is_built_anew(cache: Cache, log: list[str], damage: str) -> None:
    once(cache, "gpu-1").provide(KEY, Host("gpu-1", log))
    place = cache.folder / KEY.name
    if damage == "archive":
        (place / ARCHIVE).write_bytes((place / ARCHIVE).read_bytes() + b"x")
    elif damage == "manifest":
        (place / MANIFEST).write_text("{")
    elif damage == "half":
        (place / ARCHIVE).unlink()
    else:
        content = json.loads((place / MANIFEST).read_text())
        content["key"]["kernel"] = "6.1.0-9-amd64"
        (place / MANIFEST).write_text(json.dumps(content))
    once(cache, "gpu-2").provide(KEY, Host("gpu-2", log))
    assert log == ["gpu-1 compiles", "gpu-2 compiles"]


LATER = replace(KEY, version="590.44.01")
OLDER = replace(KEY, version="570.1")
ELSEWHERE = replace(KEY, kernel="6.1.0-30-amd64")


def aged(cache: Cache, *names: str, days: int = 91) -> None:
    """As if these were used last, one after another, so many days ago."""
    begin = time.time() - days * 86400
    for number, name in enumerate(names):
        for path in (cache.folder / name / MANIFEST, cache.folder / name):
            if path.exists():
                os.utime(path, (begin + number, begin + number))


def kept(cache: Cache) -> set[str]:
    return {path.name for path in cache.folder.iterdir() if not path.name.endswith(".lock")}


def built(cache: Cache, *keys: key.Key) -> None:
    for each in keys:
        once(cache, "gpu-1").provide(each, Host("gpu-1", []))


def test_what_no_run_has_used_for_long_goes(cache: Cache) -> None:
    built(cache, KEY, OLDER)
    aged(cache, KEY.name, OLDER.name, days=91)
    built(cache, ELSEWHERE)
    assert kept(cache) == {ELSEWHERE.name}


def test_who_takes_uses_and_who_only_looks_does_not(cache: Cache, log: list[str]) -> None:
    built(cache, KEY, LATER)
    aged(cache, KEY.name, LATER.name, days=91)
    once(cache, "gpu-2").provide(KEY, Host("gpu-2", log))
    forecast(LATER, cache)
    built(cache, ELSEWHERE)
    assert kept(cache) == {KEY.name, ELSEWHERE.name}


def test_all_is_kept_where_a_site_says_so(cache: Cache) -> None:
    built(cache, KEY)
    aged(cache, KEY.name)
    built(Cache(str(cache.folder), keep_days=0), ELSEWHERE)
    assert kept(cache) == {KEY.name, ELSEWHERE.name}


def test_what_killed_runs_left_goes_and_nothing_of_others(cache: Cache) -> None:
    folder = cache.folder
    for name in (f".{KEY.name}.4711", ".of-others.4711"):
        (folder / name).write_text("")
    for name, file in ((OLDER.name, "failed.json"), ("of-others", MANIFEST), ("empty", "")):
        (folder / name).mkdir()
        (folder / name / (file or "x")).write_text("{}")
    (folder / "of-others/notes.txt").write_text("")
    (folder / "link").symlink_to(folder / OLDER.name)
    aged(cache, *kept(cache))
    built(cache, ELSEWHERE)
    assert kept(cache) == {".of-others.4711", "of-others", "empty", "link", ELSEWHERE.name}


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o770)
    with pytest.raises(InputError, match=f"chmod 0700 {folder}"):
        Cache(str(folder))
    folder.chmod(0o700)
    Cache(str(folder))


def test_check_mode_tells_what_would_be_built_or_taken(cache: Cache, log: list[str]) -> None:
    assert forecast(KEY, cache) == (
        "would compile the driver's modules for kernel 6.1.0-40-amd64, or take them from a node of the same kind that comes first"
    )
    once(cache, "gpu-9").provide(KEY, Host("gpu-9", log))
    assert "which 'gpu-9' has compiled" in forecast(KEY, cache)


def test_the_key_is_the_nodes() -> None:
    raw = healthy_record()
    raw["host"].update(architecture="x86_64", os_id="ubuntu", os_version="24.04")
    made = key.of(parse(raw), "6.8.0-51-generic", "580.178.04", "open", "nvidia")
    assert (made.family, made.machine) == ("ubuntu-24.04", "x86_64")
    raw["host"].update(os_id="rocky", os_version="9.7")
    assert key.of(parse(raw), "5.14.0", "580.178.04", "open", "nvidia").family == "rocky-9"
    raw["host"].update(os_version=None)
    with pytest.raises(InputError, match="os-release"):
        key.of(parse(raw), "5.14.0", "580.178.04", "open", "nvidia")
    # A name of a folder, whatever a release has in it.
    assert "/" not in replace(made, kernel="6.8/../x").name
