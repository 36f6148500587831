from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.probe import packages


def test_packages_and_holds_are_read() -> None:
    found = packages.parse_dpkg(
        "libcuda1\t580.178.04-1\thi \tlibcuda1\tamd64\nnvidia-old\t1\trc \tnvidia-old\tall\n"
        "nvidia-smi\t535.1-1\tii \tnvidia-graphics-drivers\tamd64\n"
        "bash\t5.2-2\tii \tbash\tamd64\n"
        # As Ubuntu's driver recommends it.
        "libcuda1\t580.95.05-1\tii \tlibcuda1\ti386\n"
    )
    assert found == {
        "libcuda1": packages.Package("580.178.04-1", held=True),
        "nvidia-smi": packages.Package("535.1-1", held=False, source="nvidia-graphics-drivers"),
    }


def test_a_half_configured_package_of_a_foreign_architecture_is_named_with_it() -> None:
    text = "libcuda1\t580.178.04-1\tii \tlibcuda1\tamd64\nlibcuda1\t580.178.04-1\tiF \tlibcuda1\ti386\n"
    assert packages.parse_halves(text) == {"libcuda1:i386": "half configured"}


def test_packages_of_another_architecture_are_named_with_it() -> None:
    rows = [
        ("libcuda1", "ii ", "amd64"),
        ("libcuda1", "hi ", "i386"),
        ("libnvidia-gl", "iU ", "i386"),
        ("nvidia-smi", "rc ", "i386"),
    ]
    text = "".join(
        f"{name}\t1\t{status}\t{name}\t{arch}\n" for name, status, arch in [*rows, ("libc6", "ii ", "i386")]
    )
    assert packages.parse_foreign(text) == ["libcuda1:i386", "libnvidia-gl:i386"]


RPMS = (
    "nvidia-driver-cuda\t3:580.95.05-1.el9\tx86_64\tnvidia-driver-580.95.05-1.el9.src.rpm\n"
    "nvidia-driver-libs\t3:580.95.05-1.el9\tx86_64\tnvidia-driver-580.95.05-1.el9.src.rpm\n"
    "nvidia-driver-libs\t3:595.71.05-1.el9\ti686\tnvidia-driver-595.71.05-1.el9.src.rpm\n"
    "kmod-nvidia-open-dkms\t3:580.95.05-1.el9\tnoarch\tkmod-nvidia-open-dkms-580.95.05-1.el9.src.rpm\n"
    "containerd.io\t0:2.3.7-1.el9\tx86_64\tcontainerd.io-2.3.7-1.el9.src.rpm\n"
    "kernel-core\t5.14.0-570.el9\tx86_64\tkernel-5.14.0-570.el9.src.rpm\n"
    "kernel-core\t5.14.0-611.el9\tx86_64\tkernel-5.14.0-611.el9.src.rpm\n"
    "kernel-modules\t5.14.0-611.el9\tx86_64\tkernel-5.14.0-611.el9.src.rpm\n"
    "bash\t5.1.8-9.el9\tx86_64\tbash-5.1.8-9.el9.src.rpm\n"
    "gpg-pubkey\ta9bfab87-6b031f80\t(none)\t(none)\n"
)


def test_rpms_are_read_with_source_epoch_and_locks() -> None:
    found = packages.parse_rpm(RPMS, "nvidia-driver-cuda-3:580.95.05-1.el9.?*\n")
    assert found == {
        "nvidia-driver-cuda": packages.Package("3:580.95.05-1.el9", True, "nvidia-driver"),
        "nvidia-driver-libs": packages.Package("3:580.95.05-1.el9", False, "nvidia-driver"),
        "kmod-nvidia-open-dkms": packages.Package("3:580.95.05-1.el9", False),
        "containerd.io": packages.Package("2.3.7-1.el9", False),
        "kernel-core": packages.Package("5.14.0-611.el9", False, "kernel"),
    }


def test_a_package_that_a_killed_run_left_in_two_versions_is_not_there() -> None:
    half = RPMS + RPMS.splitlines()[0].replace("580.95.05", "595.71.05") + "\n"
    half += RPMS.splitlines()[8].replace("5.1.8", "5.1.9") + "\n"
    assert "nvidia-driver-cuda" not in packages.parse_rpm(half, "")
    assert "kernel-core" in packages.parse_rpm(half, "")
    # Kernels stand side by side, another architecture's library is another package, and bash is nobody's matter here.
    assert packages.parse_twice(half) == {
        "nvidia-driver-cuda": "there in versions '3:580.95.05-1.el9' and '3:595.71.05-1.el9'"
    }
    assert packages.parse_twice(RPMS) == {}


def test_locks_count_only_where_dnf_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed, plugin, switch = (tmp_path / name for name in ("versionlock.list", "plugin.py", "dnf.conf"))
    listed.write_text("kubelet-0:1.36.3-1.*\n")
    monkeypatch.setattr(packages, "LOCKS", str(listed))
    monkeypatch.setattr(packages, "PLUGIN", str(plugin))
    monkeypatch.setattr(packages, "SWITCHES", ((str(switch), "plugins"),))
    assert packages.locks() is None
    plugin.touch()
    assert packages.locks() == "kubelet-0:1.36.3-1.*\n"
    switch.write_text("[main]\nplugins=1\n")
    assert packages.locks() is not None
    switch.write_text("[main]\nplugins = No\n")
    assert packages.locks() is None
