"""A load balancer before a real API server, which the guard knows by its certificate, and through which a kubelet is let in.

Needs root, and no lab: the control plane is that of test_expired_certificate.py.
"""

from __future__ import annotations

import sys

from tests.long import test_expired_certificate
from tests.long.test_expired_certificate import Authority, Cluster
from tests.long.test_ha_endpoint import LOG, PORT, PROGRAM

cluster = test_expired_certificate.cluster
OTHER, OTHER_PORT = "/etc/kubernetes/other.pem", 9443
# The guard's own question, inside of the namespaces.
ASK = """
import sys
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.retries import ONE_TRY
from gpusmith.inventory.same_cluster import ask_cluster, check_same_cluster
path = "/etc/kubernetes/admin.conf"
print([refusal.message for refusal in check_same_cluster(path, sys.argv[1], ask_cluster(Cluster(path, ONE_TRY)))])
"""


def guard(cluster: Cluster, endpoint: str) -> str:
    """What the guard refuses."""
    return cluster.run(sys.executable, "-c", ASK, endpoint).strip()


def balance(cluster: Cluster) -> None:
    """Start the load balancer."""
    cluster.start(sys.executable, "-c", PROGRAM)
    cluster.wait("the load balancer takes connections", "ss", "-ltn", says=f":{PORT}")


def test_a_load_balancer_is_known_by_the_certificate_behind_it(cluster: Cluster) -> None:
    through = f"127.0.0.1:{PORT}"
    assert "nobody answers from here (Connection refused)" in guard(cluster, through)
    balance(cluster)
    # The certificate has this name and this address, and cluster-info has neither with this port.
    assert guard(cluster, through) == guard(cluster, f"LOCALHOST:{PORT}") == "[]"
    assert "does not have the name '127.0.0.2'" in guard(cluster, f"127.0.0.2:{PORT}")
    cluster.put({OTHER: Authority().issue("kubernetes", "kube-apiserver", test_expired_certificate.DAY)})
    cluster.start("openssl", "s_server", "-quiet", "-accept", str(OTHER_PORT), "-cert", OTHER, "-key", OTHER)
    cluster.wait("another API server", "ss", "-ltn", says=f":{OTHER_PORT}")
    assert f"but the nodes would join '127.0.0.1:{OTHER_PORT}'" in guard(cluster, f"127.0.0.1:{OTHER_PORT}")


def test_a_kubelet_is_let_in_through_it_and_only_if_there_is_a_token_for_it(cluster: Cluster) -> None:
    balance(cluster)
    endpoint, before = f"localhost:{PORT}", cluster.client()
    refused = cluster.play(
        True,
        check=False,
        kubernetes_node_control_plane_endpoint=endpoint,
        kubernetes_node_token_kubeconfig="/none",
    )
    assert "a join token is made on 'cp-1' ('kubernetes_node_token_host')" in " ".join(refused.split())
    assert "changed=0" in refused
    assert cluster.client() == before
    assert "changed=5" in cluster.play(True, kubernetes_node_control_plane_endpoint=endpoint)
    assert cluster.client() != before
    assert cluster.place(LOG).read_text()
    # It goes on by the address that it knew, whatever the inventory says.
    assert "changed=0" in cluster.play(True, kubernetes_node_control_plane_endpoint=endpoint)
    assert "changed=0" in cluster.play(True)
