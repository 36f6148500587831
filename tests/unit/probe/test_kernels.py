from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpusmith.probe import kernels


def kernel(
    root: Path, release: str, module: str = "", image: bool = True, file: bool = True, headers: bool = False
) -> None:
    folder = root / "lib/modules" / release
    folder.mkdir(parents=True)
    (root / "boot").mkdir(exist_ok=True)
    (folder / "modules.dep").write_text(
        f"kernel/fs/ext4.ko: kernel/fs/jbd2.ko\n{module}:\n" if module else ""
    )
    if module and file:
        (folder / module).parent.mkdir(parents=True, exist_ok=True)
        (folder / module).touch()
    if image:
        (root / f"boot/vmlinuz-{release}").touch()
    if headers:
        (folder / "build").mkdir()


@pytest.mark.parametrize(
    "module",
    [
        "updates/dkms/nvidia.ko",
        "updates/dkms/nvidia-current-open.ko.xz",
        "kernel/nvidia-580srv-open/nvidia.ko.zst",
        "extra/nvidia.ko.xz",
    ],
)
def test_a_module_is_found_wherever_its_package_puts_it(tmp_path: Path, module: str) -> None:
    kernel(tmp_path, "6.1.0-41-amd64", module)
    (found,) = kernels.find(str(tmp_path))
    assert found.module == f"{tmp_path}/lib/modules/6.1.0-41-amd64/{module}"
    assert found.image == f"{tmp_path}/boot/vmlinuz-6.1.0-41-amd64"


@pytest.mark.parametrize(
    "module",
    ["kernel/drivers/net/nvidia-net.ko", "updates/dkms/nvidia-uvm.ko", "kernel/i2c/i2c-nvidia-gpu.ko"],
)
def test_other_modules_are_not_the_drivers(tmp_path: Path, module: str) -> None:
    kernel(tmp_path, "6.1.0-41-amd64", module)
    assert kernels.find(str(tmp_path))[0].module is None


def test_what_a_list_names_and_is_gone_is_not_there(tmp_path: Path) -> None:
    kernel(tmp_path, "6.1.0-41-amd64", "updates/dkms/nvidia.ko", file=False)
    assert kernels.find(str(tmp_path))[0].module is None


def test_a_folder_that_a_removed_kernel_left_has_no_image(tmp_path: Path) -> None:
    kernel(tmp_path, "5.10.0-1-amd64", "updates/dkms/nvidia.ko", image=False)
    kernel(tmp_path, "6.1.0-41-amd64", headers=True)
    kernel(tmp_path, "5.14.0-503.el9", image=False)
    (tmp_path / "lib/modules/5.14.0-503.el9/vmlinuz").touch()
    found = {each.release: (each.image is not None, each.headers) for each in kernels.find(str(tmp_path))}
    assert found == {
        "5.10.0-1-amd64": (False, False),
        "6.1.0-41-amd64": (True, True),
        "5.14.0-503.el9": (True, False),
    }


def dependents(root: Path, *order: str, dkms: str = "gdrdrv") -> dict[str, bool]:
    """What is found where these files came in this order."""
    kernel(root, "6.1.0-41-amd64", "updates/dkms/nvidia.ko", file=False)
    folder = root / "lib/modules/6.1.0-41-amd64"
    (folder / "modules.dep").write_text("".join(f"updates/dkms/{name}:\n" for name in order))
    if dkms:
        (root / "var/lib/dkms" / dkms / "2.6/source").mkdir(parents=True)
    for name in order:
        path = folder / "updates/dkms" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        # Packages bring files with the times of their builds.
        os.utime(path, (0, 0))
        time.sleep(0.02)
    return dict(kernels.find(str(root))[0].dependents)


@pytest.mark.parametrize(
    ("order", "dkms", "found"),
    [
        (("nvidia.ko.xz", "gdrdrv.ko.xz"), "gdrdrv", {"gdrdrv": True}),
        (("gdrdrv.ko.xz", "nvidia.ko.xz"), "gdrdrv", {"gdrdrv": False}),
        (("nvidia-fs.ko", "nvidia.ko"), "nvidia-fs", {"nvidia_fs": False}),
        (("nvidia.ko",), "gdrdrv", {"gdrdrv": False}),
        (("gdrdrv.ko", "nvidia.ko"), "", {}),
        (("gdrdrv.ko",), "gdrdrv", {}),
    ],
)
def test_modules_that_are_older_than_the_driver_are_found(
    tmp_path: Path, order: tuple[str, ...], dkms: str, found: dict[str, bool]
) -> None:
    assert dependents(tmp_path, *order, dkms=dkms) == found


def test_a_machine_without_modules_has_no_kernels(tmp_path: Path) -> None:
    assert kernels.find(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("listing", "builtin", "lacking"),
    [
        ("kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko: x\nupdates/dkms/ib_umad.ko.zst:\n", "", ()),
        ("kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko.xz:\n", "", ("ib_umad",)),
        (
            "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko:\n",
            "kernel/drivers/infiniband/core/ib_umad.ko\n",
            (),
        ),
        ("", "", ("mlx5_ib", "ib_umad")),
        (
            "kernel/net/bridge/br_netfilter.ko.xz:\n",
            "kernel/fs/overlayfs/overlay.ko\n",
            ("mlx5_ib", "ib_umad"),
        ),
    ],
)
def test_a_kernel_without_modules_that_a_node_needs_is_known(
    tmp_path: Path, listing: str, builtin: str, lacking: tuple[str, ...]
) -> None:
    folder = tmp_path / "lib/modules/6.8.0-79-generic"
    folder.mkdir(parents=True)
    (folder / "modules.dep").write_text(listing)
    (folder / "modules.builtin").write_text(builtin)
    found = kernels.find(str(tmp_path))[0].lacking
    needed = () if "br_netfilter" in listing else ("overlay", "br_netfilter")
    assert found == (*needed, *lacking)


# Of kmod 30 (Debian 12), for a module that gpusmith signed; a signature goes on over many lines.
MODINFO = """\
filename:       /lib/modules/6.1.0-41-amd64/updates/dkms/nvidia.ko
version:        580.95.05
license:        Dual MIT/GPL
description:    a: b
srcversion:     ABC
depends:
name:           nvidia
vermagic:       6.1.0-41-amd64 SMP preempt mod_unload modversions
"""
SIGNATURE = """\
sig_id:         PKCS#7
signer:         Site modules: 2026
sig_key:        0F:AB:12
sig_hashalgo:   sha512
signature:      84:8F:CE:3E:8E:FF:C1:56:13:3C:45:39:13:A4:A4:C7:EF:BA:62:C8:
\t\t4A:0B:34:E2:92:FD:95:7F:98:EC:90:E2:78:FE:99:B5:09:E8:4A:54:
parm:           NVreg_Mobile:int
"""
# Of a kmod without OpenSSL.
UNREADABLE = "sig_id:         PKCS#7\nsigner:         \nsig_key:        \nsig_hashalgo:   unknown\n"


@pytest.mark.parametrize(
    ("text", "version", "signer", "key"),
    [
        (MODINFO + SIGNATURE, "580.95.05", "Site modules: 2026", "fab12"),
        (MODINFO, "580.95.05", "", ""),
        (MODINFO + UNREADABLE, "580.95.05", None, None),
        # It failed.
        ("", None, None, None),
    ],
)
def test_who_signed_a_module_is_read(
    text: str, version: str | None, signer: str | None, key: str | None
) -> None:
    found = kernels.told(kernels.Kernel("6.1.0-41-amd64"), text)
    assert (found.module_version, found.signer, found.signing_key) == (version, signer, key)
