"""The live state: what the simulated libraries read."""

from __future__ import annotations

import errno
import os
import time

from simgpu import paths
from simgpu.errors import RefusedError

SIZE = 65536
HEADER = "simgpu-live/1"
MAX_XIDS = 64
FABRIC = {"not-supported": 0, "not-started": 1, "in-progress": 2, "completed": 3}
"""What the value 'fabric' means."""


def fnv1a(data: bytes) -> int:
    """The FNV-1a checksum, 64 bit."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


class State:
    """Content of the live file.

    Attributes:
        values: facts of the machine and its driver.
        gpus: one row for each GPU that the driver drives, in NVML's order.
        xids: what the driver reported since it was loaded.
        profiles: sizes that instances of a GPU can have (MIG), by NVML's numbers for them and by slices.
        instances: GPU instances, with the minor of their GPU.
    """

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.gpus: list[dict[str, str]] = []
        self.xids: list[dict[str, str]] = []
        self.profiles: list[dict[str, str]] = []
        self.instances: list[dict[str, str]] = []

    def _rows(self) -> dict[str, list[dict[str, str]]]:
        """The lines that are rows, by their first word."""
        return {"gpu": self.gpus, "xid": self.xids, "profile": self.profiles, "instance": self.instances}

    @classmethod
    def load(cls) -> State:
        """Read the live file."""
        state = cls()
        rows = state._rows()
        raw = paths.LIVE.read_bytes()
        head, _, rest = raw.partition(b"\n")
        body = rest[: int(head.split()[2])].decode()
        for line in body.splitlines():
            word, _, tail = line.partition(" ")
            if word in rows:
                rows[word].append(dict(item.split("=", 1) for item in tail.split(" ")))
            else:
                key, _, value = line.partition("=")
                state.values[key] = value
        return state

    def save(self) -> None:
        """Write the live file as a whole."""
        lines = [f"{key}={value}" for key, value in self.values.items()]
        del self.xids[:-MAX_XIDS]
        for word, rows in self._rows().items():
            lines += [f"{word} " + " ".join(f"{key}={value}" for key, value in row.items()) for row in rows]
        body = ("\n".join(lines) + "\n").encode()
        data = f"{HEADER} {fnv1a(body):016x} {len(body)}\n".encode() + body
        if len(data) > SIZE:
            raise RefusedError(errno.ENOSPC, "live state too large")
        # Truncation would give readers an empty file, so: one write over the old content.
        handle = os.open(paths.LIVE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.pwrite(handle, data.ljust(SIZE, b"\0"), 0)
        finally:
            os.close(handle)

    @property
    def modules(self) -> list[str]:
        """The modules that are loaded, in the order of their loading."""
        return [name for name in self.values.get("modules", "").split(",") if name]

    @modules.setter
    def modules(self, names: list[str]) -> None:
        self.values["modules"] = ",".join(names)

    def gpu(self, pci: str) -> dict[str, str] | None:
        """The row of one GPU; None if the driver does not drive it."""
        return next((row for row in self.gpus if row["pci"] == pci), None)

    def xid(self, gpu: dict[str, str], code: int) -> None:
        """Report an Xid of one GPU to all who listen."""
        sequence = int(self.values.get("event_seq", "0")) + 1
        self.values["event_seq"] = str(sequence)
        row = {"seq": str(sequence), "minor": gpu["minor"], "code": str(code), "time": str(int(time.time()))}
        self.xids.append(row)

    def forget_xids(self, gpu: dict[str, str]) -> None:
        """Forget what one GPU reported, as after its reset."""
        self.xids = [row for row in self.xids if row["minor"] != gpu["minor"]]
