"""The filter for truth values in words."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpusmith.gpu.plugins.filter.truth import FilterModule


@pytest.mark.parametrize(
    ("value", "means"), [("y", True), ("Off", False), ("no", False), (True, True), (0, False), ("1", True)]
)
def test_words_are_taken_as_guard_and_suite_take_them(value: Any, means: bool) -> None:
    assert FilterModule().filters()["truth"](value) is means


@pytest.mark.parametrize("value", ["", "perhaps", None, 2])
def test_what_is_no_truth_value_is_named(value: Any) -> None:
    with pytest.raises(AnsibleFilterError, match=f"'{value}' is neither"):
        FilterModule().filters()["truth"](value)
