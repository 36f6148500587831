"""How names stand in messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

ADDRESS = re.compile(r"(?<=connect to host )\S+|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
"""An address of a machine, where a sentence is told of several."""
OWN = re.compile(
    rf"(?P<ADDRESS>{ADDRESS.pattern})|(?P<UUID>\b(?:GPU|MIG)-[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\b)"
    r"|(?P<PCI>\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b)|(?P<N>(?<=\bGPU )\d+\b|\b\d+(?= uncorrectable\b))"
)
"""What machines or GPUs with one fault do not share, by the word that stands for it."""
SENTENCE = re.compile(r"(?<=\.) (?=Node ')")
"""Between what is said of one GPU and of the next."""
NUMBERED = re.compile(r"(?P<before>.*?)(?P<number>\d+)(?P<after>\D*)")
LEAST_IN_RANGE = 3


def quoted(names: Iterable[object]) -> str:
    """All names, in quotes."""
    return ", ".join(f"'{name}'" for name in names)


def shorten(names: Sequence[str], most: int = 5) -> str:
    """The first few names in quotes, and how many more there are."""
    shown = quoted(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def without_own(text: str) -> str:
    """What is said, once, without what no two machines or GPUs share."""
    said = (OWN.sub(lambda found: str(found.lastgroup), part) for part in SENTENCE.split(text))
    return " ".join(dict.fromkeys(said))


def of_many(texts: Iterable[str]) -> str:
    """What several texts have in common, which are the same but for what no two machines or GPUs share; a single one as it is."""
    found = list(dict.fromkeys(texts))
    if len(found) == 1:
        return found[0]
    alike: dict[str, list[str]] = {}
    for text in found:
        for part in SENTENCE.split(text):
            alike.setdefault(without_own(part), []).append(part)
    return " ".join(_in_common(parts) for parts in alike.values())


def _in_common(sentences: Sequence[str]) -> str:
    """One sentence of several, with words for what differs in them."""
    values = zip(*([found[0] for found in OWN.finditer(text)] for text in sentences), strict=False)
    differ = iter([len(set(column)) > 1 for column in values])
    return OWN.sub(lambda found: str(found.lastgroup) if next(differ, True) else found[0], sentences[0])


def in_ranges(names: Sequence[str]) -> list[str]:
    """Names in their order, three and more with consecutive numbers as one: 'gpu-[01:04].example'."""
    found: list[str] = []
    for _, rows in groupby(enumerate(names), key=_place_in_run):
        run = [name for _, name in rows]
        first, last = NUMBERED.fullmatch(run[0]), NUMBERED.fullmatch(run[-1])
        if len(run) >= LEAST_IN_RANGE and first and last:
            run = [f"{first['before']}[{first['number']}:{last['number']}]{first['after']}"]
        found += run
    return found


def _place_in_run(row: tuple[int, str]) -> tuple[str, ...]:
    """The same for names that follow each other, with numbers of one width that do as well."""
    place, name = row
    parts = NUMBERED.fullmatch(name)
    if parts is None:
        return (name,)
    return parts["before"], parts["after"], str(len(parts["number"])), str(int(parts["number"]) - place)
