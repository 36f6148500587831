"""The registry of faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from simgpu import faults
from simgpu.fault import Fault, listing, registry


@pytest.mark.parametrize("fault", registry().values(), ids=registry())
def test_every_fault_says_what_it_is(fault: Fault) -> None:
    assert fault.help == fault.help.strip().rstrip(".")
    assert "\n" not in fault.help
    assert f"{fault.name} " in listing()
    assert fault.help in listing()


@pytest.mark.parametrize("fault", registry().values(), ids=registry())
def test_a_fault_is_found_by_its_name(fault: Fault) -> None:
    assert type(fault).__module__ == f"simgpu.faults.{fault.name.replace('-', '_')}"


@pytest.mark.parametrize("fault", registry().values(), ids=registry())
def test_a_numbered_fault_has_a_sensible_example(fault: Fault) -> None:
    assert fault.code is None or fault.code.example in fault.code.allowed


@pytest.fixture
def with_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(faults, "__path__", [*faults.__path__, str(tmp_path)])
    registry.cache_clear()
    yield tmp_path
    registry.cache_clear()


def test_a_fault_is_one_file(with_more: Path) -> None:
    (with_more / "gpu_on_fire.py").write_text(
        "from simgpu.fault import Fault\n"
        "class GpuOnFire(Fault):\n"
        "    name, help = 'gpu-on-fire', 'the GPU burns'\n"
        "    def inject(self, at): ...\n"
        "    def heal(self, at): ...\n"
    )
    assert "  gpu-on-fire                  the GPU burns" in listing().splitlines()
