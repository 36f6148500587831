"""The operating system."""

from __future__ import annotations

from gpusmith.problems import Cure
from tests.faults.fault import Fault, Record, repairs, sets


def without_file(record: Record, path: str) -> object:
    """A file of ours is gone."""
    return record.get("managed_files", {}).pop(path, None)


HOST_FILES = (
    "/etc/modules-load.d/gpusmith-host-baseline.conf",
    "/etc/sysctl.d/gpusmith-host-baseline.conf",
)


FAULTS = {
    "too-few-inotify-instances": Fault(
        lambda record: record["system"]["sysctl"].update({"fs.inotify.max_user_instances": "128"}),
        "nodes.host-baseline",
        ("'fs.inotify.max_user_instances' is '128', wanted is at least '8192'",),
        repairs=repairs(host_baseline={Cure.HOST}),
    ),
    "too-few-inotify-instances-of-a-container": Fault(
        lambda record: (
            record["system"]["sysctl"].update({"fs.inotify.max_user_instances": "128"}),
            record["system"].update(locked=["fs.inotify.max_user_instances"]),
        ),
        "nodes.host-baseline",
        ("'fs.inotify.max_user_instances' is '128', wanted is at least '8192'",),
    ),
    "fewer-inotify-watches-at-boot": Fault(
        sets("boot", "sysctl", "fs.inotify.max_user_watches", value="65536", files=["/etc/sysctl.d/zz.conf"]),
        "nodes.host-baseline",
        (
            "'fs.inotify.max_user_watches' is '524288', and a boot would set '65536' ('/etc/sysctl.d/zz.conf')",
        ),
    ),
    "swap-on": Fault(
        sets("system", swap_areas=["/dev/sda2"]),
        "nodes.host-baseline",
        ("swap is on", "'/dev/sda2'", "stays on"),
    ),
    "swap-at-boot": Fault(
        sets("system", swap_fstab=["/swapfile"], swap_target_masked=False),
        "nodes.host-baseline",
        ("'/swapfile'", "/etc/fstab", "swap.target"),
        repairs=repairs(host_baseline={Cure.HOST}),
    ),
    "swap-line-alone": Fault(
        sets("system", swap_areas=[], swap_fstab=["UUID=1"], swap_target_masked=True),
        "nodes.host-baseline",
        ("/etc/fstab turns swap on at the next boot, 'UUID=1'",),
        repairs=repairs(host_baseline={Cure.HOST}),
    ),
    "no-forwarding": Fault(
        lambda record: record["system"]["sysctl"].update({"net.ipv4.ip_forward": "0"}),
        "nodes.host-baseline",
        ("'net.ipv4.ip_forward' is '0'", "'1'"),
        repairs=repairs(host_baseline={Cure.HOST}),
    ),
    "swap-unit-at-boot": Fault(
        sets("boot", swap_units=["/etc/systemd/system/multi-user.target.wants/a.swap"]),
        "nodes.host-baseline",
        ("swap unit is turned on at", "'/etc/systemd/system/multi-user.target.wants/a.swap'"),
        repairs=repairs(host_baseline={Cure.HOST}),
    ),
    "module-of-no-boot": Fault(
        lambda record: (
            record["boot"]["modules"]["br_netfilter"].update(file=None),
            without_file(record, HOST_FILES[0]),
        ),
        "nodes.host-baseline",
        ("'br_netfilter' is loaded now, but no boot would load it (no file in modules-load.d names it)",),
        repairs=repairs(host_baseline={Cure.HOST}),
    ),
    "module-forbidden-at-boot": Fault(
        sets("boot", "modules", "overlay", forbidden_by="/etc/modprobe.d/hard.conf"),
        "nodes.host-baseline",
        ("'overlay' is loaded now, but no boot would load it (file '/etc/modprobe.d/hard.conf' forbids it)",),
    ),
    "parameter-of-no-boot": Fault(
        lambda record: (
            record["boot"]["sysctl"]["net.ipv4.ip_forward"].update(value=None, files=[]),
            without_file(record, HOST_FILES[1]),
        ),
        "nodes.host-baseline",
        ("'net.ipv4.ip_forward' is '1' now, but no boot would set it (no file in sysctl.d names it)",),
        repairs=repairs(host_baseline={Cure.HOST}),
    ),
    "parameter-taken-out-at-boot": Fault(
        sets("boot", "sysctl", "net.ipv4.ip_forward", value=None, files=["/etc/sysctl.d/zz.conf"]),
        "nodes.host-baseline",
        ("is '1' now, but no boot would set it (file '/etc/sysctl.d/zz.conf')",),
    ),
    "parameter-overridden-at-boot": Fault(
        sets("boot", "sysctl", "net.ipv4.ip_forward", value="0", files=["/etc/sysctl.d/zz.conf"]),
        "nodes.host-baseline",
        (
            "'net.ipv4.ip_forward' is '1' now, but a boot would set '0' (file '/etc/sysctl.d/zz.conf'), wanted is '1'",
        ),
    ),
    "bridge-module-gone": Fault(
        sets(
            "system",
            modules={"overlay": True, "br_netfilter": False, "nvidia_peermem": True},
            sysctl={"net.ipv4.ip_forward": "1"},
        ),
        "nodes.host-baseline",
        (
            "'br_netfilter' is not loaded",
            "'net.bridge.bridge-nf-call-iptables' is not there",
            "needs module 'br_netfilter'",
        ),
        repairs=repairs(host_baseline={Cure.HOST}),
    ),
}
