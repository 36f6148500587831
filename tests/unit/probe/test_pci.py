from __future__ import annotations

import pytest

from gpusmith.probe import pci


@pytest.mark.parametrize("text", ["00000000:18:00.0", "0000:18:00", "0000:18:00.0"])
def test_pci_addresses_have_one_form(text: str) -> None:
    assert pci.normal_pci(text) == "0000:18:00.0"
