from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpusmith.probe import boot


def test_boots_read_files_by_name_and_one_of_a_name(
    boot_file: Callable[[str, str], Path], tmp_path: Path
) -> None:
    for path in (
        "lib/sysctl.d/50-a.conf",
        "etc/sysctl.d/50-a.conf",
        "run/sysctl.d/99-b.conf",
        "etc/sysctl.d/60-c.conf",
    ):
        boot_file(path, "a = 1\n")
    boot_file("etc/sysctl.d/README", "no = 1\n")
    read = [str(Path(path).relative_to(tmp_path)) for path in boot.boot_files("sysctl.d")]
    assert read == ["etc/sysctl.d/50-a.conf", "etc/sysctl.d/60-c.conf", "run/sysctl.d/99-b.conf"]


def test_links_to_nothing_and_empty_files_take_others_out(boot_file: Callable[[str, str], Path]) -> None:
    boot_file("lib/modules-load.d/a.conf", "overlay\n")
    boot_file("lib/modules-load.d/b.conf", "br_netfilter\n")
    boot_file("etc/modules-load.d/b.conf", "")
    (boot_file("etc/modules-load.d/x", "").parent / "a.conf").symlink_to("/dev/null")
    assert boot.boot_lines("modules-load.d") == []


def test_boots_load_what_files_name_or_the_kernel_has(boot_file: Callable[[str, str], Path]) -> None:
    file = str(
        boot_file("etc/modules-load.d/k8s.conf", "# overlay\n; also a comment\n\n  nf-conntrack \nip_vs\n")
    )
    found = boot.boot_modules("kernel/net/bridge/br_netfilter.ko\n", "modules.builtin")
    assert found == {
        "overlay": boot.BootModule(None, None),
        "br_netfilter": boot.BootModule("modules.builtin", None),
        "nf-conntrack": boot.BootModule(file, None),
        "ip_vs": boot.BootModule(file, None),
    }


def test_etc_modules_counts_where_it_is_linked(boot_file: Callable[[str, str], Path]) -> None:
    boot_file("etc/modules", "overlay\n")
    assert boot.boot_modules("", "")["overlay"].file is None
    link = boot_file("etc/modules-load.d/x", "").parent / "modules.conf"
    link.symlink_to("../modules")
    assert boot.boot_modules("", "")["overlay"].file == str(link)


@pytest.mark.parametrize(
    ("line", "forbids"),
    [
        ("blacklist br-netfilter", True),
        ("install br_netfilter /bin/true", True),
        ("install br_netfilter /usr/bin/false", True),
        ("install br_netfilter /sbin/modprobe --ignore-install br_netfilter", False),
        ("install br_netfilter \\\n /bin/false", True),
        ("install br_netfilter false\nsoftdep br_netfilter pre: bridge", False),
        ("options br_netfilter x=1", False),
        ("blacklist br_netfilter2", False),
    ],
)
def test_boots_load_nothing_that_modprobe_d_forbids(
    boot_file: Callable[[str, str], Path], line: str, forbids: bool
) -> None:
    boot_file("etc/modules-load.d/k8s.conf", "br_netfilter\n")
    file = str(boot_file("lib/modprobe.d/hard.conf", line + "\n"))
    assert boot.boot_modules("", "")["br_netfilter"].forbidden_by == (file if forbids else None)
    # What is part of the kernel nobody can keep out.
    builtin = "kernel/net/bridge/br_netfilter.ko\n"
    assert boot.boot_modules(builtin, "")["br_netfilter"].forbidden_by is None


@pytest.mark.parametrize(
    ("lines", "value", "files"),
    [
        (["net.ipv4.ip_forward = 1 :a", "net/ipv4/ip_forward=0 :b"], "0", ["b"]),
        (["net.ipv4.ip_forward=1 :a", "-net.ipv4.ip_forward =  2  3 :b"], "2 3", ["b"]),
        (["net.ipv4.ip_forward=1 :a", "-net.ipv4.ip_forward :b"], None, ["b"]),
        (["net.ipv4.ip_forward=1 :a", "net.ipv4.ip_forward :b"], "1", ["a"]),
        (["net.ipv4.ip_forward=1 :a", "net.ipv4.*=0 :b"], "1", ["a"]),
        (["net.ipv4.*=0 :a", "net.*.ip_forward=1 :b"], "1", ["b"]),
        (["net.ipv4.*=0 :a", "net.*.ip_forward=1 :b", "net.ipv4.*=0 :c"], "1", ["b"]),
        (["net.ipv4.*=0 :a", "net.*.ip_forward=1 :b", "net.ipv4.*=2 :c"], "2", ["c"]),
        (["net.*=0 :a"], None, []),
        ([], None, []),
    ],
)
def test_the_setting_that_a_boot_leaves_is_found_as_systemd_does(
    lines: list[str], value: str | None, files: list[str]
) -> None:
    settings = boot.sysctl_settings((line.split(" :")[0], line.split(" :")[1]) for line in lines)
    assert boot.boot_sysctl("net.ipv4.ip_forward", settings) == boot.BootParameter(value, tuple(files))


def test_a_pattern_has_all_values_that_boots_set(tmp_path: Path) -> None:
    for device in ("all", "lo", "eth0"):
        (tmp_path / f"net/ipv4/conf/{device}").mkdir(parents=True)
        (tmp_path / f"net/ipv4/conf/{device}/rp_filter").touch()
    name = "net.ipv4.conf.*.rp_filter"
    lines = [(f"{name}=2", "a"), ("-net.ipv4.conf.all.rp_filter", "b")]
    assert boot.boot_sysctl(name, boot.sysctl_settings(lines), str(tmp_path)).value == "2"
    lines.append(("net.ipv4.conf.lo.rp_filter=0", "c"))
    settings = boot.sysctl_settings(lines)
    assert boot.boot_sysctl(name, settings, str(tmp_path)) == boot.BootParameter("0, 2", ("a", "b", "c"))
    # Where the kernel has none of them yet, the pattern's own line tells.
    assert boot.boot_sysctl(name, settings, str(tmp_path / "none")) == boot.BootParameter("2", ("a",))


def test_swap_units_that_boots_start_without_the_swap_target(tmp_path: Path) -> None:
    for folder in ("swap.target.wants", "multi-user.target.wants", "local-fs.target.requires"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "swapfile.swap").symlink_to(tmp_path / "swapfile.swap")
    assert boot.swap_units(str(tmp_path)) == [
        str(tmp_path / "local-fs.target.requires/swapfile.swap"),
        str(tmp_path / "multi-user.target.wants/swapfile.swap"),
    ]
