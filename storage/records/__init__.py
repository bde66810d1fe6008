"""Records that the storage accepts and returns: frozen data classes, independent of rows and queries.

Every ``id`` is the row's integer key and stays inside the service; every ``uuid`` is the UUID v4 string that callers
see. Times are aware datetimes in UTC.
"""
