"""Which addresses are this machine's own, by real sockets."""

from __future__ import annotations

from ansible_collections.gpusmith.gpu.plugins.modules.preflight import own


def test_only_addresses_of_this_machine_are_its_own() -> None:
    # 203.0.113.0/24 and 2001:db8::/32 are for documents.
    assert own(["203.0.113.1", "127.0.0.1", "2001:db8::1", "no address"]) == ["127.0.0.1"]
