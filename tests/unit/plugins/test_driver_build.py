"""Who builds, as the action plugin decides it from the variables of a play; nodes are in memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible_collections.gpusmith.gpu.plugins.action.driver_build import ActionModule, _record
from ansible_collections.gpusmith.gpu.plugins.plugin_utils import built_node

from gpusmith.built import signing
from gpusmith.built.once import NotBuilt
from gpusmith.errors import GpusmithError
from gpusmith.node.records import parse
from tests.unit.built.conftest import Host, Pair
from tests.unit.records import healthy_record

VERSION, KERNEL, OTHER = "580.190.02", "6.1.0-40-amd64", "6.1.0-41-amd64"


def variables(host: str, kernels: dict[str, str], secure_boot: bool = False) -> dict[str, Any]:
    """Of a task on a host of a play."""
    records = {}
    for name, kernel in kernels.items():
        raw = healthy_record()
        raw["host"].update(kernel=kernel, architecture="x86_64", os_id="debian", os_version="12")
        raw["module"]["installed_version"] = None
        raw["system"]["secure_boot"] = secure_boot
        records[name] = {"node_record_now": {"record": raw}}
    return {
        "inventory_hostname": host,
        "ansible_play_hosts": list(kernels),
        "hostvars": records,
        **records[host],
    }


def act(
    tmp_path: Path,
    seen: dict[str, Any],
    check: bool = False,
    signer: signing.Signer | None = None,
    **asked: Any,
) -> dict[str, Any]:
    """What the action makes of a task."""
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(check_mode=check)
    action._connection = MagicMock()
    record = parse(seen["node_record_now"]["record"])
    arguments = {
        "state": "present",
        "kernels": [KERNEL],
        "version": f"{VERSION}-1",
        "flavour": "open",
        "layout": "nvidia",
        "cache": str(tmp_path / "cache"),
        "timeout": 5.0,
        **asked,
    }
    answer: dict[str, Any] = action._act(arguments, seen, record, signer)
    return answer


FIRST = "or take them from a node of the same kind that comes first"


def test_check_mode_tells_what_would_be_compiled_and_asks_no_node(tmp_path: Path) -> None:
    seen = variables("gpu-1", {"gpu-1": KERNEL})
    said = act(tmp_path, seen, check=True)["words"]
    assert said == [f"would compile the driver's modules for kernel {KERNEL}, {FIRST}"]


@pytest.mark.parametrize(("secure_boot", "done"), [(True, "have"), (False, "compile")])
def test_check_mode_tells_of_modules_that_are_there_and_have_to_be_signed(
    tmp_path: Path, secure_boot: bool, done: str
) -> None:
    """DKMS has built them on every node, and signed with keys that only that node has: with Secure Boot they are signed anew."""
    seen = variables("gpu-1", {"gpu-1": KERNEL}, secure_boot)
    record = seen["node_record_now"]["record"]
    record["module"]["installed_version"] = VERSION
    module = {"image": "i", "module": "m", "module_version": VERSION, "signing_key": "490a04e2"}
    record["kernels"] = [{"release": KERNEL, **module}]
    (said,) = act(tmp_path, seen, check=True, signer=Pair(tmp_path, "site").load())["words"]
    signed = " signed" if secure_boot else ""
    assert said == f"would {done} the driver's modules for kernel {KERNEL}{signed}, {FIRST}"


def test_one_builds_and_the_others_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(built_node.BuildingAction, "node", lambda _self, host, *_: Host(host, log))
    kernels = {"gpu-1": KERNEL, "gpu-2": KERNEL}
    first = act(tmp_path, variables("gpu-1", kernels))
    second = act(tmp_path, variables("gpu-2", kernels))
    assert log == ["gpu-1 compiles", "gpu-2 takes"]
    assert (first["compiled"], second["compiled"]) == ([KERNEL], [])
    assert second["builders"] == {KERNEL: "gpu-1"}
    assert first["changed"]
    assert act(tmp_path, variables("gpu-1", kernels), kernels=[])["changed"] is False


def test_a_node_that_builds_for_itself_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = MagicMock()
    node.mend.return_value = False
    monkeypatch.setattr(built_node.BuildingAction, "node", lambda *_: node)
    # Whatever its firmware wants: what it signs itself is its own affair.
    seen = variables("gpu-1", {"gpu-1": KERNEL}, secure_boot=True)
    assert act(tmp_path, seen, state="compiled", kernels=[KERNEL, OTHER])["changed"] is True
    assert act(tmp_path, seen, state="restored", kernels=[OTHER])["changed"] is True
    assert [call.args for call in node.restore.call_args_list] == [(OTHER,)]
    assert act(tmp_path, seen, state="mended")["changed"] is False
    assert [call.args for call in node.compile.call_args_list] == [(KERNEL,), (OTHER,)]
    assert node.mend.call_count == 1


def test_modules_of_others_are_built_anew_and_foretold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = MagicMock()
    monkeypatch.setattr(built_node.BuildingAction, "node", lambda *_: node)
    seen, asked = variables("gpu-1", {"gpu-1": KERNEL}), {KERNEL: ["gdrdrv"], OTHER: ["gdrdrv", "nvidia_fs"]}
    foretold = act(tmp_path, seen, check=True, state="rebuilt", modules=asked)
    assert node.rebuild.call_count == 0
    done = act(tmp_path, seen, state="rebuilt", modules=asked)
    assert [call.args for call in node.rebuild.call_args_list] == [
        (KERNEL, ["gdrdrv"]),
        (OTHER, ["gdrdrv", "nvidia_fs"]),
    ]
    assert foretold["words"] == done["words"]
    assert done["notes"] == []
    assert done["words"][0] == f"module 'gdrdrv' built anew by DKMS for kernel {KERNEL}"
    assert done["changed"]


def test_a_kernel_that_nobody_boots_costs_the_running_one_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, failing = MagicMock(), OTHER

    def rebuild(kernel: str, _names: list[str]) -> None:
        if kernel == failing:
            raise NotBuilt("gcc says no")

    node.rebuild.side_effect = rebuild
    monkeypatch.setattr(built_node.BuildingAction, "node", lambda *_: node)
    seen, asked = variables("gpu-1", {"gpu-1": KERNEL}), {KERNEL: ["gdrdrv"], OTHER: ["gdrdrv"]}
    done = act(tmp_path, seen, state="rebuilt", modules=asked)
    assert done["changed"]
    assert done["notes"] == ["gcc says no"]
    failing = KERNEL
    with pytest.raises(NotBuilt):
        act(tmp_path, seen, state="rebuilt", modules=asked)


@pytest.mark.parametrize("state", ["withheld", "present"])
def test_a_firmware_that_wants_signatures_is_not_given_others(tmp_path: Path, state: str) -> None:
    seen = variables("gpu-1", {"gpu-1": KERNEL}, secure_boot=True)
    with pytest.raises(GpusmithError, match="nvidia_driver_build_signing"):
        act(tmp_path, seen, state=state)


def test_a_node_without_record_is_not_guessed_at() -> None:
    assert _record({}) is None
