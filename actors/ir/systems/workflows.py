"""Workflows of Woodpecker and Drone, which wait for each other, as pipelines. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.ir.systems.builds import FilterReader, any_of, triggers
from actors.ir.systems.conditions import NotSayable
from actors.ir.systems.jobs import in_order, label, unused
from actors.ir.systems.located import NotReadable
from actors.ir.systems.model import ConvertedPipeline
from actors.ir.systems.steps import SHELL, WorkflowReader
from storage import immutable, slugify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.ir.systems.builds import Words
    from actors.ir.systems.located import Located
    from actors.ir.systems.omissions import Omission, Omissions
    from actors.ir.systems.steps import Dialect, Workflow


@immutable
class Source:
    """The document of a workflow, its name, and what is lost of it."""

    name: str
    document: Located
    omissions: Omissions

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The names of the workflows that it waits for."""
        return tuple(each.scalar or "?" for each in self.document.get("depends_on").items())


def pipelines(
    sources: Sequence[Source], dialect: Dialect, words: Words, read: Callable[[Source], Workflow | None]
) -> tuple[tuple[ConvertedPipeline, ...], tuple[Omission, ...]]:
    """Return a pipeline for each workflow, and what differs; those that wait for each other are one.

    ``read`` returns None for a workflow that is left out. Raises NotReadable.
    """
    found = [_pipeline(group, dialect, words, read) for group in _groups(sources)]
    notes = dict.fromkeys(note for each in sources for note in each.omissions.all)
    return tuple(each for each in found if each is not None), tuple(notes)


def _groups(sources: Sequence[Source]) -> list[list[Source]]:
    """Return workflows in groups that wait for each other, each after those that it waits for."""
    by_name = {each.name: each for each in sources}
    ordered = in_order({each.name: each.waits_for for each in sources})
    for each in sources:
        if each.name not in ordered:
            at = each.document.get("depends_on")
            message = f"line {at.line}: depends_on: {label(each.name)} waits for itself, through others"
            raise NotReadable(message)
    group: dict[str, int] = {}
    for place, name in enumerate(ordered):
        joined = {group[each] for each in by_name[name].waits_for if each in group} or {place}
        group = {each: min(joined) if number in joined else number for each, number in group.items()}
        group[name] = min(joined)
    numbers = sorted(set(group.values()))
    return [[by_name[name] for name in ordered if group[name] == number] for number in numbers]


def _pipeline(
    group: Sequence[Source], dialect: Dialect, words: Words, read: Callable[[Source], Workflow | None]
) -> ConvertedPipeline | None:
    workflows = [(each, found) for each in group if (found := read(each)) is not None]
    if not workflows:
        return None
    try:
        on, made = triggers(any_of(found.filter.builds for _, found in workflows))
    except NotSayable as error:
        message = f"the filters of {label(group[0].name)} and others that wait for it cannot be said together: {error}"
        raise NotReadable(message) from error
    jobs = []
    finished: dict[str, list[str]] = {}
    names: list[str] = []
    for source, workflow in workflows:
        filters = FilterReader(words, source.omissions)
        names.append(unused(slugify(source.name) or "file", names))
        name = None if len(group) == 1 else names[-1]
        reader = WorkflowReader(dialect, filters, source.omissions, workspace=name, finished=finished)
        try:
            jobs += reader.jobs(workflow, made)
        except NotSayable as error:
            why = f"all of it is left out: `when` cannot say its filters: {error}"
            source.omissions.lose(source.document, workflow.name, why)
    if not jobs:
        return None
    notes = tuple(dict.fromkeys(note for each in group for note in each.omissions.all))
    slug = slugify(group[-1].name) or "ci"
    return ConvertedPipeline(slug, tuple(jobs), group[-1].name, on=on, defaults={"shell": list(SHELL)}, notes=notes)
