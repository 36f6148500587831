"""What a broken kubeconfig and a refused credential are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.errors import InputError, ToolError
from gpusmith.kube import Cluster


@pytest.mark.parametrize("text", ["garbage", "", "- a\n- b\n", "a: 1\n"])
def test_a_file_that_is_no_kubeconfig_is_called_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(InputError, match="is no kubeconfig"):
        Cluster(str(path))


def test_a_refused_credential_is_not_a_lack_of_rights() -> None:
    from gpusmith.kube import hint_for

    assert "expired or is wrong" in hint_for(401, "k")
    assert "rights" in hint_for(403, "k")


def test_no_answer_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.client import ApiClient
    from kubernetes.client.exceptions import ApiException

    path = tmp_path / "kubeconfig"
    path.write_text(
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "current-context: x\n"
    )

    def distrust(*_: object, **__: object) -> None:
        raise ApiException(status=0, reason="SSLError\n[SSL: CERTIFICATE_VERIFY_FAILED]")

    monkeypatch.setattr(ApiClient, "call_api", distrust)
    with pytest.raises(
        ToolError, match=r"does not answer: SSLError \[SSL: CERTIFICATE_VERIFY_FAILED\]"
    ) as raised:
        Cluster(str(path)).get("/api/v1/namespaces/x")
    assert "rights" not in raised.value.hint
