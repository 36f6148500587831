from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.probe import system


def test_kernel_parameters_are_read_in_every_spelling(tmp_path: Path) -> None:
    for device, value in (("eth0.100", "1"), ("lo", "2")):
        folder = tmp_path / "net" / "ipv4" / "conf" / device
        folder.mkdir(parents=True)
        (folder / "rp_filter").write_text(value + "\n")
    (tmp_path / "net" / "ipv4" / "tcp_rmem").write_text("4096\t131072\t6291456\n")
    root = str(tmp_path)
    assert system.read_sysctl("net.ipv4.tcp_rmem", root) == "4096 131072 6291456"
    # The first separator decides which of the two is which, as for sysctl.
    assert system.read_sysctl("net/ipv4/conf/eth0.100/rp_filter", root) == "1"
    assert system.read_sysctl("net.ipv4.conf.eth0/100.rp_filter", root) == "1"
    assert system.read_sysctl("net.ipv4.conf.*.rp_filter", root) == "1, 2"
    assert system.read_sysctl("net.ipv4.no_such", root) is None


def test_modules_are_found_in_every_spelling(tmp_path: Path) -> None:
    (tmp_path / "nf_conntrack").mkdir()
    for name in ("nf-conntrack", "nf_conntrack"):
        assert system.module_present(name, "", str(tmp_path))
    assert system.module_present("ip_vs", "kernel/net/netfilter/ipvs/ip_vs.ko\n", str(tmp_path))
    assert not system.module_present("ip_vs", "kernel/net/netfilter/ipvs/ip_vs_rr.ko\n", str(tmp_path))


def test_swap_of_now_and_of_the_next_boot_is_read() -> None:
    swaps = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n"
    fstab = "UUID=1 / ext4 defaults 0 1\n# UUID=0 none swap sw 0 0\n/swapfile none swap sw 0 0\n/manual none swap sw,noauto 0 0\n"
    assert system.swap_areas(swaps) == ["/dev/sda2"]
    assert system.swap_areas("Filename Type Size Used Priority\n") == []
    assert system.swap_lines(fstab) == ["/swapfile"]


def test_certificates_that_the_kernel_knows_are_read() -> None:
    lines = (
        "0b2a4b80 I------     1 perm 0f0b0000     0     0 keyring   .blacklist: empty",
        "12715a7e I------     1 perm 1f030000     0     0 asymmetri Debian Secure Boot CA: 6ccece7e: X509.rsa 6ccece7e []",
        "1a7f33e1 I------     1 perm 1f010000     0     0 asymmetri Site: modules of 2026: 0a1b: X509.rsa 0a1b []",
        "2244b3a0 I--Q---     1 perm 3f010000     0     0 user      asymmetri no: 12ab: X509.rsa 12ab []",
    )
    assert system.kernel_keys("\n".join(lines)) == ("6ccece7e", "0a1b")
    assert system.kernel_keys(lines[0]) == ()


def test_parameters_that_cannot_be_written_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "fs" / "inotify"
    folder.mkdir(parents=True)
    for name in ("max_user_instances", "max_user_watches"):
        (folder / name).write_text("128\n")
    # Root may write what it may not by the file's mode: only a read-only /proc/sys, or one of another root, says no.
    read_only = str(folder / "max_user_instances")
    monkeypatch.setattr("os.access", lambda path, mode: path != read_only)
    root = str(tmp_path)
    assert system.is_locked("fs.inotify.max_user_instances", root)
    assert not system.is_locked("fs.inotify.max_user_watches", root)
    assert not system.is_locked("fs.inotify.no_such", root)
