"""A credential plugin that fails is named, with its words: the client would go on as nobody, and a 403 be all that is seen."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.cluster.kubeconfig import load
from gpusmith.errors import ToolError
from gpusmith.inventory.same_cluster import check_cluster

TOKEN = (
    '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t"}}'
)


def kubeconfig(folder: Path, program: str) -> str:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": program, "interactiveMode": "Never"}
    path = folder / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "x",
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "other", "user": {}}, {"name": "u", "user": {"exec": plugin}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )  # fmt: skip
    return str(path)


def script(folder: Path, text: str) -> str:
    path = folder / "get-token"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_one_that_is_not_there_or_fails_is_named_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(
        ToolError, match=r"The credential plugin 'aws-no-such' of kubeconfig '.*config' failed: .*aws-no-such"
    ):
        load(kubeconfig(tmp_path, "aws-no-such"))
    failing = script(tmp_path, "echo 'SSO session has expired' >&2; exit 255")
    with pytest.raises(ToolError, match=r"get-token' .* failed: .*SSO session has expired"):
        load(kubeconfig(tmp_path, failing))
    with pytest.raises(ToolError, match="failed: "):
        load(kubeconfig(tmp_path, script(tmp_path, "echo '{}'")))


def test_the_guard_says_so_too(tmp_path: Path) -> None:
    class Hosts:
        def filled(self, host: str, name: str) -> Any:
            return kubeconfig(tmp_path, "aws-no-such") if name == "gpusmith_kubeconfig" else ""

    (refusal,) = check_cluster(Hosts(), "gpu-1")
    assert "The credential plugin 'aws-no-such'" in refusal.message


def test_one_that_works_is_used_and_nothing_is_kept_from_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _path, settings = load(kubeconfig(tmp_path, script(tmp_path, f"echo '{TOKEN}'")))
    assert "Bearer t" in settings.api_key.values()
    logging.error("of others")
    assert "of others" in caplog.text
