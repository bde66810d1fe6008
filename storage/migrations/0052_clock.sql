-- What a service knew of the clocks when it ran last, so that its successor notices if the wall clock was set meanwhile.
-- `segments` is JSON: [[since, offset], …], in microseconds of the boot that `boot` names. `trusted` is the offset of the
-- wall clock by which retention counts; the clock was set by `set_by` microseconds at `set_at`, until the owner confirms it.
CREATE TABLE clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    boot TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    seen_uptime INTEGER NOT NULL,
    segments TEXT NOT NULL,
    trusted INTEGER NOT NULL,
    set_at INTEGER,
    set_by INTEGER,
    CHECK ((set_at IS NULL) = (set_by IS NULL))
) STRICT;
