"""Which way to the cluster a run without an inventory takes: kubectl's."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from kubernetes.config import incluster_config

from gpusmith.cluster.api import ApiUnreachable, Cluster
from gpusmith.cluster.kubeconfig import Access, found, load
from gpusmith.cluster.retries import ONE_TRY
from gpusmith.errors import InputError

ONE = """clusters: [{{name: c-{0}, cluster: {{server: 'https://{0}'}}}}]
users: [{{name: u-{0}, user: {{token: t-{0}}}}}]
contexts: [{{name: {0}, context: {{cluster: c-{0}, user: u-{0}}}}}]
current-context: {0}
"""


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without anything, outside of a pod."""
    for name in ("KUBECONFIG", incluster_config.SERVICE_HOST_ENV_NAME):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_first_of_option_environment_home_and_pod(nobody: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="There is no kubeconfig"):
        found("", "")
    monkeypatch.setenv(incluster_config.SERVICE_HOST_ENV_NAME, "10.0.0.1")
    monkeypatch.setenv(incluster_config.SERVICE_PORT_ENV_NAME, "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(nobody / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(nobody / "ca.crt"))
    with pytest.raises(InputError, match="has no token of a service account"):
        found("", "")
    (nobody / "token").write_text("secret")
    (nobody / "ca.crt").write_text("certificate")
    assert found("", "") == Access("", in_pod=True)
    name, settings = load(found("", ""))
    assert (name, settings.host) == ("of the pod's service account", "https://10.0.0.1:443")
    assert settings.auth_settings()["BearerToken"]["value"] == "bearer secret"
    with pytest.raises(InputError, match="there is none"):
        found("", "other")
    home = nobody / ".kube" / "config"
    home.parent.mkdir()
    home.touch()
    assert found("", "x") == Access(str(home), "x")
    monkeypatch.setenv("KUBECONFIG", "/a")
    assert found("", "") == Access("/a")
    assert found("/b", "") == Access("/b")


@pytest.mark.parametrize(
    ("access", "says"),
    [
        (
            Access("{}"),
            "Check 'gpusmith_kubeconfig' and the way to the cluster: kubectl --kubeconfig {} get nodes",
        ),
        (
            Access("{}", hint="h"),
            "Check '--kubeconfig' and the way to the cluster: kubectl --kubeconfig {} get nodes",
        ),
    ],
)
def test_a_server_that_does_not_answer_is_told_by_the_way_to_it(
    nobody: Path, access: Access, says: str
) -> None:
    path = nobody / "k"
    path.write_text(ONE.format("127.0.0.1:1"))
    cluster = Cluster(replace(access, kubeconfig=str(path)), ONE_TRY)
    with pytest.raises(ApiUnreachable) as error:
        cluster.get("/x")
    assert error.value.hint == says.format(path)


def test_several_files_are_one_as_for_kubectl(nobody: Path) -> None:
    paths = [nobody / name for name in ("a", "missing", "b")]
    for path in (paths[0], paths[2]):
        path.write_text(ONE.format(path.name))
    several = os.pathsep.join(map(str, paths))
    assert load(Access(several))[1].host == "https://a"
    assert load(Access(several, "b"))[1].host == "https://b"
    with pytest.raises(InputError, match="Give --context one of its own: 'a', 'b'"):
        load(Access(several, "c"))
