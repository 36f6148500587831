"""A load balancer before a real API server, which the guard knows by its certificate. Needs root, and no lab."""

from __future__ import annotations

import sys

from tests.long import real_control_plane
from tests.long.real_control_plane import Authority, Cluster
from tests.long.test_ha_endpoint import PORT, PROGRAM

cluster = real_control_plane.cluster
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


def test_a_load_balancer_is_known_by_the_certificate_behind_it(cluster: Cluster) -> None:
    through = f"127.0.0.1:{PORT}"
    assert "nobody answers from here (Connection refused)" in guard(cluster, through)
    cluster.start(sys.executable, "-c", PROGRAM)
    cluster.wait("the load balancer takes connections", "ss", "-ltn", says=f":{PORT}")
    # The certificate has this name and this address, and cluster-info has neither with this port.
    assert guard(cluster, through) == guard(cluster, f"LOCALHOST:{PORT}") == "[]"
    assert "does not have the name '127.0.0.2'" in guard(cluster, f"127.0.0.2:{PORT}")
    cluster.put({OTHER: Authority().issue("kubernetes", "kube-apiserver", real_control_plane.DAY)})
    cluster.start("openssl", "s_server", "-quiet", "-accept", str(OTHER_PORT), "-cert", OTHER, "-key", OTHER)
    cluster.wait("another API server", "ss", "-ltn", says=f":{OTHER_PORT}")
    assert f"but the nodes would join '127.0.0.1:{OTHER_PORT}'" in guard(cluster, f"127.0.0.1:{OTHER_PORT}")
