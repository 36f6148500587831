"""The tables of data/ can be read as they are, and one of another shape is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpusmith.data import baselines, compatibility, kubelet, mig, models, other_names, xids
from gpusmith.errors import ToolError
from gpusmith.expect import compatible


def test_every_architecture_of_a_model_has_a_row() -> None:
    known = compatibility.load().architectures
    assert {
        key: row.architecture for key, row in models.load().items() if row.architecture not in known
    } == {}


@pytest.mark.parametrize(
    "load",
    [models.load, xids.load, compatibility.load, kubelet.load, other_names.load, baselines.load, mig.load],
)
@pytest.mark.parametrize(
    "text", [None, "schema: other/9\n", "models: 1\n", "[", "schema: gpusmith.compatibility/1\n"]
)
def test_a_table_of_another_shape_is_named(
    load: Callable[[Path], Any], text: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "table.yml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ToolError, match=r"table of .* '.*table\.yml' cannot be read: .*Restore it"):
        load(path)


@pytest.mark.parametrize(("branch", "goes"), [("580.178.04", True), ("590.48.01", False)])
def test_volta_ends_with_branch_580(branch: str, goes: bool) -> None:
    model = models.load()["v100-sxm2-32"]
    assert (compatible.driver(branch, model, compatibility.load()) is None) == goes


def test_a_pci_id_leads_to_one_row() -> None:
    """Until a driver is loaded only the PCI ID is known."""
    ids = [row.pci_device_id for row in models.load().values()]
    assert len(set(ids)) == len(ids)
