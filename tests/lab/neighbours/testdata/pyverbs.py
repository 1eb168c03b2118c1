# Runs rdma-core's tests of pyverbs and writes a line of JSON to a file when each of them has ended: {"test": ..., "outcome": ...}.
# Usage: pyverbs.py OUTCOMES TESTS [options of the tests]
import json
import os
import sys
import unittest

outcomes, tests = sys.argv[1:3]
sys.argv[1:] = sys.argv[3:]
sys.path.insert(0, os.path.dirname(tests))


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


from tests.args_parser import parser  # noqa: E402, which is there by the new path

parser.parse_args()
suite = unittest.defaultTestLoader.discover(tests, top_level_dir=os.path.dirname(tests))
with open(outcomes, "w") as file:
    suite.run(Outcomes(file))
