"""The live service: supervisors, job actors, the lease pool, log streams.

The engine is imported on first use, because most `ci-daemon` commands only need the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.builds.adding import AddedBuild, add_planned, has_credit
    from actors.builds.attempt.environment import job_environment
    from actors.builds.attempt.told import variables_of
    from actors.builds.gates import gate_reason, people_of, refusal
    from actors.builds.retrying import repetition, retry, wait_reason
    from actors.builds.rolling_back import NotKept, ran_in, roll_back
    from actors.engine import Engine, EngineBusy
    from actors.pollers import PollerComposition
    from actors.prometheus_metrics import PrometheusMetrics
    from actors.settings import (
        PREVIEW_HOST,
        ArtifactSettings,
        CacheSettings,
        EngineSettings,
        FrontEnd,
        JobSettings,
        PoolSettings,
        PreviewHosts,
        PreviewSettings,
        RetentionSettings,
        TerminalSettings,
        Timings,
    )
    from actors.supervision import LogContextFilter, doing
    from actors.timed_http import Answer, Deadline, NoAnswer, TimedBackend, exchange, proxy_to
    from actors.vms.public_addresses import is_public, is_within
else:
    __getattr__ = on_first_use(__name__)
