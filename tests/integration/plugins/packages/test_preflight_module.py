"""What module preflight asks repositories, against the machine's own apt."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.modules import preflight

from .conftest import System


def asks(system: System, **changes: Any) -> dict[str, Any]:
    repository = {**system.given, **changes}
    kit = dict.fromkeys(["kit", "kit-base", "kit-tools", "kit-library"], "1.20.1")
    return {
        "nvidia_container_toolkit": {"name": "kit", "repository": repository, "packages": kit},
        "cuda_toolkit": {
            "name": "cuda",
            "unversioned": ["drv-tool"],
            "expected": {"drv-tool": "580.*"},
            "offered_by": system.given,
        },
    }


def test_everything_is_asked_and_simulated_in_one_go(system: System) -> None:
    found = preflight.ask_all(system.apt, asks(system), {})
    assert set(found.repositories) == {"nvidia_container_toolkit", "cuda_toolkit"}
    assert found.repositories["cuda_toolkit"]["asked"] == {"drv-tool": "580.*"}
    assert found.simulation is not None
    assert found.simulation["plan"]["installed"]["kit-library"] == "1.20.1-1"


def test_a_repository_that_does_not_answer_is_told_by_its_role(system: System) -> None:
    found = preflight.ask_all(system.apt, asks(system, uris=["file:/nonexistent-repository"]), {})
    assert "nonexistent-repository" in found.repositories["nvidia_container_toolkit"]["error"]
    assert found.repositories["cuda_toolkit"]["error"] is None
    assert found.simulation is None


def test_a_damaged_key_is_told_by_its_role(system: System) -> None:
    found = preflight.ask_all(system.apt, asks(system, key="nonsense"), {})
    assert "no armored public key" in found.repositories["nvidia_container_toolkit"]["error"]


def test_where_nothing_is_due_nobody_is_asked(system: System) -> None:
    assert preflight.ask_all(system.apt, {}, {}) == preflight.Answers({}, None, [], [])


def test_headers_that_nobody_has_are_told_by_kernel(system: System) -> None:
    headers = {"9.9.9-none": "linux-headers-9.9.9-none", "9.9.9-drv": "drv-tool"}
    assert preflight.ask_all(system.apt, asks(system), headers).headers_lacking == ["9.9.9-none"]


def test_packages_that_nobody_has_are_told_by_name(system: System) -> None:
    names = ["linux-modules-extra-9.9.9-none", "drv-tool"]
    for asked in ({}, asks(system)):
        assert (
            "linux-modules-extra-9.9.9-none"
            in preflight.ask_all(system.apt, asked, {}, names).packages_lacking
        )
    assert preflight.ask_all(system.apt, asks(system), {}, names).packages_lacking == names[:1]


def test_a_proxy_that_takes_no_connection_is_told_with_who_knows_it(tmp_path: Path) -> None:
    file = tmp_path / "gpusmith-containerd"
    with socket.socket() as answers, socket.socket() as silent:
        answers.bind(("127.0.0.1", 0))
        answers.listen()
        silent.bind(("127.0.0.1", 0))
        good, bad = (f"http://127.0.0.1:{each.getsockname()[1]}" for each in (answers, silent))
        file.write_text(f"# Written by gpusmith\nHTTP_PROXY={bad}\nNO_PROXY=localhost\n")
        nobody = "http://proxy..invalid:3128"
        rows = [
            {"url": url, "file": str(path), "line": f"{name}={url}"}
            for url, name, path in (
                (good, "HTTP_PROXY", file), (bad, "HTTP_PROXY", file), (bad, "HTTPS_PROXY", file),
                (bad, "HTTP_PROXY", tmp_path / "none"), (nobody, "HTTP_PROXY", file),
            )
        ]  # fmt: skip
        found = preflight.silent_proxies(rows)
    assert [(row["url"], row["told"]) for row in found] == [
        (bad, True),
        (bad, False),
        (bad, False),
        (nobody, False),
    ]
    assert found[0]["error"] == "Connection refused"
    assert found[3]["error"]
