"""What a broken kubeconfig and a refused credential are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.errors import InputError
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
