from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.probe import pci


@pytest.mark.parametrize("text", ["00000000:18:00.0", "0000:18:00", "0000:18:00.0"])
def test_pci_addresses_have_one_form(text: str) -> None:
    assert pci.normal_pci(text) == "0000:18:00.0"


GPU, NIC, SWITCH = (
    ("0x10de", "0x2901", "0x030200"),
    ("0x15b3", "0x1021", "0x020700"),
    ("0x10de", "0x22a3", "0x068000"),
)
VPD = b"\x82\x20\x00NVIDIA ConnectX-7\x90\x10\x00V2\x06SW_MNG\xff\xfe"


def machine(root: Path, *devices: tuple[tuple[str, str, str], bytes | None]) -> str:
    for number, ((vendor, device, kind), vpd) in enumerate(devices):
        folder = root / f"0000:{number + 1:02x}:00.0"
        folder.mkdir()
        for name, text in (("vendor", vendor), ("device", device), ("class", kind)):
            (folder / name).write_text(text + "\n")
        if vpd is not None:
            (folder / "vpd").write_bytes(vpd)
    return str(root)


def managers(root: Path, *devices: tuple[tuple[str, str, str], bytes | None]) -> list[str]:
    return [each.address for each in pci.gather(machine(root, *devices)).switch_managers]


def test_functions_that_manage_nvlink_switches_say_so_in_their_vpd(tmp_path: Path) -> None:
    found = pci.gather(
        machine(tmp_path, (NIC, VPD.replace(b"SW_MNG", b"NIC007")), (NIC, None), (GPU, None), (NIC, VPD))
    )
    assert [(each.address, each.device_id) for each in found.switch_managers] == [
        ("0000:04:00.0", "15b3:1021")
    ]
    assert [each.address for each in found.gpus] == ["0000:03:00.0"]


@pytest.mark.parametrize("others", [[], [GPU, SWITCH]])
def test_only_where_they_can_be_are_they_looked_for(
    tmp_path: Path, others: list[tuple[str, str, str]]
) -> None:
    """Reading the data of a network card takes its firmware a while."""
    assert managers(tmp_path, (NIC, VPD), *((each, None) for each in others)) == []


def test_what_is_no_network_card_is_not_asked(tmp_path: Path) -> None:
    assert (
        managers(
            tmp_path,
            (GPU, None),
            (("0x15b3", "0xc2d5", "0x080100"), VPD),
            (("0x8086", "0x1593", "0x020000"), VPD),
        )
        == []
    )


def space(*capabilities: tuple[int, bytes], listed: bool = True) -> bytes:
    """A configuration space with these capabilities, one behind the other."""
    config, place = bytearray(256), 0x40
    config[0x06], config[0x34] = (0x10 if listed else 0), place
    for kind, data in capabilities:
        end = place + 2 + len(data)
        config[place:end] = bytes([kind, end]) + data
        place = end
    return bytes(config)


MSI, LENT = (0x05, bytes(6)), (0x09, b"\x1bVF\x00\x16460.16")


@pytest.mark.parametrize(
    ("config", "vgpu"),
    [
        (space(MSI, LENT), True),
        (space(LENT), True),
        (space(MSI, (0x09, b"\x14\x01\x00\x00")), False),
        (space(MSI), False),
        (space(LENT, listed=False), False),
        # A list that leads back to itself, or out of the space.
        (space((0x05, b""))[:0x41] + b"\x40" + bytes(0xBE), False),
        (bytes([0] * 6 + [0x10] + [0] * 0x2D + [0xFF] * 0xCC), False),
        # What others than root can read.
        (space(MSI, LENT)[:64], None),
        (None, None),
    ],
)
def test_a_virtual_gpu_says_so_in_its_configuration(
    config: bytes | None, vgpu: bool | None, tmp_path: Path
) -> None:
    root = machine(tmp_path, (GPU, None))
    if config is not None:
        (tmp_path / "0000:01:00.0" / "config").write_bytes(config)
    assert [gpu.vgpu for gpu in pci.gather(root).gpus] == [vgpu]
