# Runs rdma-core's tests of pyverbs and writes a line of JSON to a file when each of them has ended: {"test": ..., "outcome": ...}.
# Usage: outcomes.py OUTCOMES TESTS [options of the tests]
import importlib
import json
import os
import sys
import unittest


class Outcomes(unittest.TestResult):
    def __init__(self, file):
        super().__init__()
        self.file = file

    def write(self, test, outcome, detail=""):
        print(json.dumps({"test": test.id(), "outcome": outcome, "detail": detail}), file=self.file, flush=True)

    def addSuccess(self, test):
        self.write(test, "passed")

    def addSkip(self, test, reason):
        self.write(test, "skipped", reason)

    def addFailure(self, test, err):
        self.write(test, "failed", self._exc_info_to_string(err, test))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addFailure(test, err)


outcomes, tests = sys.argv[1:3]
sys.argv[1:] = sys.argv[3:]
sys.path[:0] = [os.path.dirname(tests), tests]  # some modules name others without their package
importlib.import_module("args_parser").parser.parse_args()
suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module("tests"))
with open(outcomes, "w") as file:
    suite.run(Outcomes(file))
