"""The programs of a node: which function each of their names starts."""

from __future__ import annotations


def main(name: str, arguments: list[str]) -> int:
    """Run a program; only what it needs is imported, since modprobe and lsmod are called often."""
    if name == "simgpu":
        from simgpu.cli import main as simgpu

        return simgpu(arguments)
    if name == "modules-load":
        from simgpu.modules_load import main as modules_load

        return modules_load(arguments)
    if name == "runc-create":
        from simgpu.containers import main as create

        return create(arguments)
    from simgpu import kmod

    tools = {"insmod": kmod.insmod, "rmmod": kmod.rmmod, "modprobe": kmod.modprobe, "lsmod": kmod.lsmod}
    return tools[name](arguments)
