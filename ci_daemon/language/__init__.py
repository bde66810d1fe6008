"""The language of pipelines in Python: what files of ``.hm`` import (docs/language.md, "In Python").

The module itself is sent into the VMs of renders, where it has this name.
"""

from __future__ import annotations

from actors.render.guest.language import (
    Build,
    Cache,
    Condition,
    Defaults,
    Job,
    JobKeys,
    PipelineKeys,
    PullRequestTrigger,
    PushTrigger,
    Retry,
    SoftFail,
    Triggers,
    When,
    asked,
    begin,
    build,
    files,
    job,
    pipeline,
    registered,
)

__all__ = [
    "Build",
    "Cache",
    "Condition",
    "Defaults",
    "Job",
    "JobKeys",
    "PipelineKeys",
    "PullRequestTrigger",
    "PushTrigger",
    "Retry",
    "SoftFail",
    "Triggers",
    "When",
    "build",
    "files",
    "job",
    "pipeline",
]
"""The names for pipeline files; the others are for the loader."""
