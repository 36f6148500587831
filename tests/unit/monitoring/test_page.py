"""docs/alerts.md is what the rules and the table of Xids say."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.data import xids
from gpusmith.monitoring import page, rules


def test_the_page_in_the_repository_is_generated(root: Path) -> None:
    assert (root / "docs" / "alerts.md").read_text() == page.page(), "run 'make docs'"


def test_every_alert_and_every_code_has_its_place() -> None:
    text = page.page()
    assert [name for name in rules.alerts() if f"\n## {name}\n" not in text] == []
    assert [code for code in xids.load().codes if f"\n| {code} | " not in text] == []
    assert (
        "| 31 | an application accessed memory that is not its own (GPU memory page fault) | `application` | accepted |"
        in text
    )


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        ("GPU {{ $labels.gpu }} of '{{ $labels.node\n}}'", "GPU INDEX of 'NODE'"),
        ("{{ $value }} GPUs", "NUMBER GPUs"),
        (
            'pods: {{- range query (printf "a" $labels.x)\n| sortByLabel "pod" }} {{ .Labels.pod }}{{ else }} none{{ end }}',
            "pods: PODS",
        ),
    ],
)
def test_what_is_filled_in_is_in_capitals(annotation: str, words: str) -> None:
    assert page.plain(annotation) == words


def test_no_template_is_left() -> None:
    assert "{{" not in page.page()
