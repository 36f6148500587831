"""What the running kernel has built in, as modprobe reads it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from simgpu import paths
from simgpu.files import read, write
from simgpu.processes import call

# Names of what the kernel may have built in: file below /lib/modules/*/kernel, and the option in /proc/config.gz.
BUILTIN = {
    "overlay": ("fs/overlayfs/overlay.ko", "OVERLAY_FS"),
    "br_netfilter": ("net/bridge/br_netfilter.ko", "BRIDGE_NETFILTER"),
    "bridge": ("net/bridge/bridge.ko", "BRIDGE"),
    "veth": ("drivers/net/veth.ko", "VETH"),
    "vxlan": ("drivers/net/vxlan/vxlan.ko", "VXLAN"),
    "nf_conntrack": ("net/netfilter/nf_conntrack.ko", "NF_CONNTRACK"),
    "nf_nat": ("net/netfilter/nf_nat.ko", "NF_NAT"),
    "nf_tables": ("net/netfilter/nf_tables.ko", "NF_TABLES"),
    "nft_compat": ("net/netfilter/nft_compat.ko", "NFT_COMPAT"),
    "nft_chain_nat": ("net/netfilter/nft_chain_nat.ko", "NFT_NAT"),
    "ip_tables": ("net/ipv4/netfilter/ip_tables.ko", "IP_NF_IPTABLES_LEGACY"),
    "ip6_tables": ("net/ipv6/netfilter/ip6_tables.ko", "IP6_NF_IPTABLES_LEGACY"),
    "iptable_nat": ("net/ipv4/netfilter/iptable_nat.ko", "IP_NF_NAT"),
    "iptable_filter": ("net/ipv4/netfilter/iptable_filter.ko", "IP_NF_FILTER"),
    "x_tables": ("net/netfilter/x_tables.ko", "NETFILTER_XTABLES"),
    "xt_conntrack": ("net/netfilter/xt_conntrack.ko", "NETFILTER_XT_MATCH_CONNTRACK"),
    "xt_comment": ("net/netfilter/xt_comment.ko", "NETFILTER_XT_MATCH_COMMENT"),
    "xt_MASQUERADE": ("net/netfilter/xt_MASQUERADE.ko", "NETFILTER_XT_TARGET_MASQUERADE"),
    "xt_multiport": ("net/netfilter/xt_multiport.ko", "NETFILTER_XT_MATCH_MULTIPORT"),
    "ip_set": ("net/netfilter/ipset/ip_set.ko", "IP_SET"),
    "ip_vs": ("net/netfilter/ipvs/ip_vs.ko", "IP_VS"),
    "tun": ("drivers/net/tun.ko", "TUN"),
    "fuse": ("fs/fuse/fuse.ko", "FUSE_FS"),
    "loop": ("drivers/block/loop.ko", "BLK_DEV_LOOP"),
    "configfs": ("fs/configfs/configfs.ko", "CONFIGFS_FS"),
    "drm": ("drivers/gpu/drm/drm.ko", "DRM"),
}
# What a kernel of a machine with such hardware has; the simulated one has nothing to load there.
INFINIBAND = ("drivers/infiniband/core/ib_umad.ko", "drivers/infiniband/hw/mlx5/mlx5_ib.ko")


def kernel_options() -> set[str]:
    """Options of the running kernel that are built in."""
    import gzip

    with contextlib.suppress(OSError), gzip.open("/proc/config.gz", "rt") as config:
        return {line.split("=")[0][7:] for line in config if line.endswith("=y\n")}
    return set()


def host_modules(simulated: Sequence[str] = ()) -> None:
    """List what the running kernel really has as built in, so that modprobe says yes exactly where it can.

    Args:
        simulated: files of what it has by simulation.
    """
    folder = Path("/lib/modules") / os.uname().release
    options = kernel_options()
    present = {line.split()[0] for line in read(Path("/proc/modules")).splitlines()}
    with contextlib.suppress(OSError):
        present |= {entry.name for entry in paths.MODULES.iterdir()}
    known = {line.split()[-1] for line in read(Path("/proc/filesystems")).splitlines()}
    if Path("/proc/sys/net/bridge").exists():
        present.add("br_netfilter")
    names = {
        name: path
        for name, (path, option) in BUILTIN.items()
        if option in options or name in present or name in known
    }
    for name in present:
        if not name.startswith("nvidia") and name != "nouveau":
            names.setdefault(name, f"host/{name}.ko")
    (folder / "kernel").mkdir(parents=True, exist_ok=True)
    text = "".join(f"kernel/{path}\n" for path in sorted({*names.values(), *simulated}))
    if text != read(folder / "modules.builtin"):
        write(folder / "modules.builtin", text)
    (folder / "modules.order").touch()
    (folder / "modules.builtin.modinfo").touch()
    call("depmod", "-a", check=False)
