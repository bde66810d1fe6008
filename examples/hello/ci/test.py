"""Run the tests, and write the result to a file for the report step."""

import json
import pathlib
import sys
import time
import unittest

started = time.monotonic()
suite = unittest.defaultTestLoader.discover("tests")
result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
summary = {
    "tests": result.testsRun,
    "failures": len(result.failures) + len(result.errors),
    "seconds": round(time.monotonic() - started, 2),
}
pathlib.Path("test-results.json").write_text(json.dumps(summary), encoding="utf-8")
sys.exit(0 if result.wasSuccessful() else 1)
