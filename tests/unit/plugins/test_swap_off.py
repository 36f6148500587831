"""What turns swap off at boot: lines of fstab, the target of systemd, and units that others start."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.modules import swap_off

from gpusmith.probe import boot, system


def test_swap_lines_are_commented_once() -> None:
    table = "UUID=1 / ext4 defaults 0 1\n# UUID=0 none swap sw 0 0\nUUID=2 none swap sw 0 0\n/swapfile swap swap defaults 0 0\n"
    once = swap_off.without_swap(table)
    assert once.splitlines()[2] == swap_off.MARK + "UUID=2 none swap sw 0 0"
    assert once.count(swap_off.MARK) == 2
    assert swap_off.without_swap(once) == once


def test_a_table_that_is_not_utf_8_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = "# f\xfcr die Platte\n".encode("latin-1")
    fstab = tmp_path / "fstab"
    fstab.write_bytes(theirs + b"/swapfile swap swap defaults 0 0\n")
    monkeypatch.setattr(boot, "UNIT_FOLDER", str(tmp_path))
    monkeypatch.setattr(swap_off, "MASK", tmp_path / "swap.target")
    monkeypatch.setattr(system, "swap_areas", lambda text: [])
    monkeypatch.setattr(swap_off.bundle, "take", lambda module: None)
    module = SimpleNamespace(params={"fstab": str(fstab)}, check_mode=False, exit_json=lambda **_result: None)
    monkeypatch.setattr(swap_off, "AnsibleModule", lambda **_arguments: module)
    swap_off.main()
    assert fstab.read_bytes().startswith(theirs + swap_off.MARK.encode())


def test_swap_that_boots_leave_off_is_left_alone() -> None:
    table = "/swapfile none swap noauto,sw 0 0\n"
    assert swap_off.without_swap(table) == table


WANTED_BY_BOOTS = ("swapfile.swap", "zramswap.service", "zram-config.service")
"""A swap unit, and the services that Debian's zram-tools and Ubuntu's zram-config bring."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its folder of units, below which is all that there is of systemd. No program may be run."""
    monkeypatch.setattr(boot, "UNIT_FOLDER", str(tmp_path))
    monkeypatch.setattr(swap_off, "MASK", tmp_path / "swap.target")
    monkeypatch.setattr(swap_off, "SYSTEMD", tmp_path)
    monkeypatch.setattr(system, "swap_areas", lambda text: [])
    monkeypatch.setattr(swap_off.bundle, "take", lambda module: None)
    return tmp_path


def link(path: Path, target: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target)
    return path


def turned_off(machine: Path, monkeypatch: pytest.MonkeyPatch, check: bool = False) -> bool:
    """Whether the module has changed anything."""
    ended: list[dict[str, Any]] = []
    module = SimpleNamespace(
        params={"fstab": str(machine / "fstab")},
        check_mode=check,
        exit_json=lambda **result: ended.append(result),
    )
    monkeypatch.setattr(swap_off, "AnsibleModule", lambda **_arguments: module)
    swap_off.main()
    return bool(ended[0]["changed"])


@pytest.mark.parametrize("name", WANTED_BY_BOOTS)
def test_what_starts_swap_at_boot_is_disabled(
    machine: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    link(machine / "swap.target", "/dev/null")
    links = [
        link(machine / f"multi-user.target.{kind}" / name, f"/x/{name}") for kind in ("wants", "requires")
    ]
    other = link(machine / "multi-user.target.wants" / "ssh.service", "/x/ssh.service")
    assert turned_off(machine, monkeypatch, check=True)
    assert all(path.is_symlink() for path in links)
    assert turned_off(machine, monkeypatch)
    assert not any(path.is_symlink() for path in links)
    assert other.is_symlink()
    assert not turned_off(machine, monkeypatch)


def test_units_of_the_zram_generator_stay_off_with_their_target(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes them anew at each boot, and has only that target start them."""
    unit = link(machine / "swap.target.wants" / "dev-zram0.swap", "/run/systemd/generator/dev-zram0.swap")
    assert turned_off(machine, monkeypatch, check=True)
    assert not (machine / "swap.target").is_symlink()
    assert turned_off(machine, monkeypatch)
    assert (machine / "swap.target").readlink() == Path("/dev/null")
    assert unit.is_symlink()
    assert not turned_off(machine, monkeypatch)
