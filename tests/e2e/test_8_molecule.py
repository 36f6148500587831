"""The roles' own tests, on a machine of the lab that no other test uses."""

from __future__ import annotations

from tests.e2e.harness import Lab


def test_molecule_scenario(bare_lab: Lab) -> None:
    ended = bare_lab.ok(
        "env", "MOLECULE_GLOB=molecule/*/molecule.yml", bare_lab.program("molecule"), "test", timeout=900
    )
    assert "idempotence" in ended.output.lower()
