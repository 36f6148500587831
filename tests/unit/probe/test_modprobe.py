"""What keeps boots from loading a module. The lines of modprobe.d were tried with modprobe of kmod 30."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.probe.modprobe import Bars, bars, loads_nothing, read_command_lines


@pytest.mark.parametrize(
    ("command", "nothing"),
    [
        ("/bin/false", True),
        ("/usr/bin/false", True),
        ("false", True),
        ("/bin/true", True),
        ("true", True),
        (":", True),
        ("exit 1", True),
        ("sh -c 'exit 1'", True),
        ('/bin/sh -c "echo no GPUs here >&2; false"', True),
        ("exec false", True),
        ("(exit 1)", True),
        ("/bin/false # modprobe is off", True),
        ("logger 'nvidia is off'", True),
        # As Debian's and others' packages do, and what nobody knows.
        ("modprobe -i nvidia-current $CMDLINE_OPTS", False),
        ("/sbin/modprobe --ignore-install nvidia && /usr/local/bin/more", False),
        ("modprobe nvidia ; modprobe -i nvidia-current-uvm $CMDLINE_OPTS", False),
        ("sh -c 'true; exec insmod /lib/nvidia.ko'", False),
        ("/usr/local/sbin/load-nvidia", False),
        ("/opt/true-load", False),
    ],
)
def test_commands_that_load_nothing(command: str, nothing: bool) -> None:
    assert loads_nothing(command) is nothing


@pytest.mark.parametrize(
    ("name", "lines", "kernel", "found"),
    [
        ("nvidia", ["install nvidia /bin/false"], "", Bars(install="0")),
        ("nvidia_uvm", ["install  nvidia-uvm\tfalse"], "", Bars(install="0")),
        ("nvidia_uvm", ["install nvidia /bin/false"], "", Bars()),
        ("nvidia_uvm", ["install nvidia* /bin/false"], "", Bars(install="0")),
        ("nvidia", ["install nvidia"], "", Bars()),
        # The first line counts.
        ("nvidia", ["install nvidia modprobe -i nvidia", "install nvidia false"], "", Bars()),
        ("nvidia", ["install nvidia false", "install nvidia modprobe -i nvidia"], "", Bars(install="0")),
        ("nvidia", ["install nvidia false", "softdep nvidia post: nvidia-uvm"], "", Bars(install="0", softdep="1")),
        ("nvidia", ["softdep nvidia post:", "install nvidia false", "softdep nvidia post: a"], "", Bars(install="1")),
        ("nvidia_uvm", ["blacklist nvidia-uvm"], "", Bars(blacklist="0")),
        ("nvidia", [], "quiet modprobe.blacklist=nouveau,nvidia", Bars(blacklist="k")),
        ("nvidia", [], "root=/dev/sda1 module_blacklist=nouveau,nvidia quiet", Bars(refused="k")),
        ("nvidia_uvm", [], "module_blacklist=nvidia_uvm", Bars(refused="k")),
        # The kernel knows it by its own name alone.
        ("nvidia_uvm", [], "module_blacklist=nvidia-uvm,nvidia", Bars()),
        ("nvidia", [], "rd.driver.blacklist=nvidia", Bars()),
    ],
)  # fmt: skip
def test_what_keeps_a_module_out(name: str, lines: list[str], kernel: str, found: Bars) -> None:
    rules = [(line, str(place)) for place, line in enumerate(lines)]
    assert bars(name, rules, [(kernel, "k")]) == found


def test_what_an_upgrade_put_into_run_is_gone_at_boot() -> None:
    line = "install nvidia /bin/false"
    assert bars("nvidia", [(line, "/run/modprobe.d/00-gpusmith-upgrade.conf")], []) == Bars()


def test_command_lines_of_now_and_of_the_next_boot_are_read(tmp_path: Path) -> None:
    (tmp_path / "grub.cfg").write_text(
        "# module_blacklist=a\n\tlinux /vmlinuz module_blacklist=nvidia quiet\n}\n"
    )
    (tmp_path / "a.conf").write_text("title Linux\noptions ro quiet\n")
    paths = [str(tmp_path / name) for name in ("*.conf", "grub.cfg", "nowhere")]
    assert read_command_lines(paths) == [("linux /vmlinuz module_blacklist=nvidia quiet", paths[1])]
