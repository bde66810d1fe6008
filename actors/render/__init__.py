"""Rendering of pipeline files to the v0 IR, in a leased VM (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.render.archive_reading import is_yaml_name
    from actors.render.discovery import ArchiveRenderer, SourceArchive
    from actors.render.envelope import DeclaredPipeline, Envelope, RenderFailed
    from actors.render.guest.load import in_folder
    from actors.render.mistakes import FileMistake, parts_of, without_excerpts
    from actors.render.tracebacks import PipelineError, errors_in, printed_before
    from actors.render.yaml_files import ArchiveSource, FilesInvalid, YamlFiles, nowhere
    from actors.settings import RenderSettings
else:
    __getattr__ = on_first_use(__name__)
