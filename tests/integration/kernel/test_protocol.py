"""Jupyter's own suite for kernels: every test it has, each with its sample."""

import unittest
from collections.abc import Iterable
from typing import Any

import jupyter_kernel_test
import pytest

from tests.rig import new_home, start_gateway

pytestmark = [pytest.mark.timeout(180)]

SUM = "%%python\n6 * 7"
LIST = "%%python\n[1, 2]"


class OzzieKernelTests(jupyter_kernel_test.KernelTests):
    """Cells in Python give what only Python can; the rest is Ozzie's."""

    __test__ = False
    kernel_name = "ozzie"
    language_name = "markdown"
    file_extension = ".md"
    code_hello_world = "%%python\nprint('hello, world')"
    code_stderr = "%%python\nimport sys\nprint('oh', file=sys.stderr)"
    completion_samples = [  # noqa: RUF012 the suite's own shape
        {"text": "%mo", "matches": {"%model"}},
        {"text": "%session re", "matches": {"resume"}},
        {"text": "%model off", "matches": {"offline"}},
        {"text": "How many rows has @data/th", "matches": {"@data/three.csv"}},
        {"text": "%%python\nprin", "matches": {"print"}},
    ]
    complete_code_samples = ["hello", "two\n\nparagraphs", "%help", "%%python\nx = 1\n\n"]  # noqa: RUF012
    incomplete_code_samples = ["%%python", "%%python\nif x:", "and then \\"]  # noqa: RUF012
    code_page_something = "%%python\nlen?"
    code_generate_error = "%%python\n1 / 0"
    code_execute_result = [  # noqa: RUF012
        {"code": SUM, "result": "42"},
        {"code": LIST, "result": "[1, 2]"},
        {"code": "%%python\n'three'", "result": "'three'"},
    ]
    code_display_data = [  # noqa: RUF012
        {"code": "%help", "mime": "text/plain"},
        {"code": "%%python\nfrom IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))", "mime": "text/html"},
    ]
    code_history_pattern = "*6 * 7*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "%session"
    code_clear_output = "%%python\nfrom IPython.display import clear_output\nclear_output()"


class OzzieWelcomeTests(jupyter_kernel_test.IopubWelcomeTests):
    __test__ = False
    kernel_name = "ozzie"
    support_iopub_welcome = True


CASES = (OzzieKernelTests, OzzieWelcomeTests)
NAMES = [f"{case.__name__}.{name}" for case in CASES for name in unittest.defaultTestLoader.getTestCaseNames(case)]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> unittest.TestResult:
    """What came of one run of the suite. By unittest itself: pytest does not see what is skipped in a subtest."""
    home = new_home(tmp_path_factory.mktemp("suite"))
    (home.project / "data").mkdir()
    (home.project / "data" / "three.csv").write_text("a,b\n1,2\n3,4\n5,6\n")
    result = unittest.TestResult()
    # The suite starts its kernels by itself, with the environment and in the folder of this process. A gateway that
    # still starts would not answer a completion in time.
    with start_gateway(home), pytest.MonkeyPatch.context() as patch:
        patch.chdir(home.project)
        for name, value in home.env.items():
            patch.setenv(name, value)
        loader = unittest.defaultTestLoader
        unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in CASES).run(result)
    return result


def problems(found: Iterable[tuple[Any, str]], name: str) -> list[str]:
    """What is told of the test `name`, or of the start of its class, or of one of its subtests."""
    case, _, method = name.partition(".")
    return [
        said for test, said in found if f"{case}.{method} " in f"{test.id()} " or f"setUpClass ({case}" in str(test)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_suite_is_content(suite: unittest.TestResult, name: str) -> None:
    assert problems([*suite.errors, *suite.failures], name) == []


def test_every_test_of_the_suite_ran_and_none_was_skipped(suite: unittest.TestResult) -> None:
    assert [(test.id(), why) for test, why in suite.skipped] == []
    assert [(str(test), said) for test, said in (*suite.errors, *suite.failures)] == []
    assert suite.testsRun == len(NAMES)
    inherited = {name for case in CASES for name in dir(case) if name.startswith("test_")}
    assert {name.partition(".")[2] for name in NAMES} == inherited
