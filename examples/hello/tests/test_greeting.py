# ruff: noqa: PT009 - these are unittest tests, run without pytest

import subprocess
import sys
import unittest

from greeting import greet, welcome
from ordinal import ordinal


class GreetingTest(unittest.TestCase):
    def test_greets_by_name(self):
        self.assertEqual(greet("Ada"), "Hello, Ada!")

    def test_greets_the_world_when_there_is_no_name(self):
        self.assertEqual(greet("  "), "Hello, world!")

    def test_welcomes_guests_in_order(self):
        self.assertEqual(
            welcome(["Ada", "Grace"]),
            ["Hello, Ada! You are our 1st guest.", "Hello, Grace! You are our 2nd guest."],
        )

    def test_runs_as_a_program(self):
        done = subprocess.run([sys.executable, "-m", "greeting", "Ada"], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "Hello, Ada! You are our 1st guest.\n")


class InstalledDependencyTest(unittest.TestCase):
    def test_knows_the_teens(self):
        self.assertEqual(
            [ordinal(n) for n in (1, 2, 3, 11, 12, 13, 21, 112)],
            ["1st", "2nd", "3rd", "11th", "12th", "13th", "21st", "112th"],
        )


if __name__ == "__main__":
    unittest.main()
