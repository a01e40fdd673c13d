"""Run every group of tests in a process of its own; close with what was skipped, and the total.

    python tools/run_tests.py                  everything
    python tools/run_tests.py check plain      these groups only

The groups can't share a process: `shapes` imports the package through jaxtyping's hook, which
checks every tensor's shape and slows plain Python twelve-fold; `plain` runs without it. `kernels`
runs on the GPU, or in Triton's interpreter where there is none; `compiled` compiles the kernels for
GPUs that are not here, which a process with the interpreter can't. `engine` runs on the kernels as
well, without the hook, as each launch in the interpreter is slow enough.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHAPE_CHECKED = ["tests/layers", "tests/models", "tests/attention", "tests/sample"]
KERNELS, COMPILED = "tests/kernels", "tests/kernels/compiled"
ENGINE_ON_KERNELS = "tests/kernels/engine"
CHECK_SHAPES = "--jaxtyping-packages=minivllm,beartype.beartype"
SECONDS_PER_TEST = 300  # then it fails, with the stack of every thread, and the others go on
ON_TWO_CORES = ["-n", "2", "--dist", "worksteal"]

CHECKS = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy"],
}
PYTEST_GROUPS = {
    "shapes": [*SHAPE_CHECKED, CHECK_SHAPES, *ON_TWO_CORES],
    "plain": [
        "tests",
        *(f"--ignore={folder}" for folder in [*SHAPE_CHECKED, KERNELS]),
        *ON_TWO_CORES,
    ],
    "kernels": [KERNELS, CHECK_SHAPES, *ON_TWO_CORES],
    "compiled": [COMPILED, *ON_TWO_CORES],
    "engine": [ENGINE_ON_KERNELS, *ON_TWO_CORES],
    "notebooks": ["notebooks", "--nbval-lax", "--nbval-current-env", "-n", "2", "--dist=loadscope"],
}


@dataclass(frozen=True)
class Result:
    """How many tests of a group did what, and why some were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Result) -> Result:
        """The two groups' tests together."""
        return Result(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.reasons + other.reasons,
        )

    def __str__(self) -> str:
        """`N passed, M failed`, and the skipped ones if there are any."""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def run_checks() -> Result:
    """Linter, formatter and type checker, each counted as one test."""
    total = Result()
    for name, arguments in CHECKS.items():
        print(f"--- {name}", flush=True)
        code = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, check=False).returncode
        total += Result(failed=1) if code else Result(passed=1)
    return total


def run_pytest(arguments: list[str]) -> Result:
    """One pytest process; a crash, or a run of no test at all, counts as a failure."""
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.xml"
        # Each worker has one core; the user's Jupyter settings and progress are left alone.
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        for name in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            environment[name] = str(Path(temporary) / name)
        environment["MINIVLLM_PROGRESS"] = str(Path(temporary) / "progress.json")
        environment.pop("TRITON_INTERPRET", None)  # minivllm.kernels knows when it is needed
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
        command += ["-p", "timeout", f"--timeout={SECONDS_PER_TEST}"]
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        result = read_report(report) if report.exists() else Result()
    if not result.failed and (code or not result.passed):  # crashed, killed, or ran nothing
        print(f"pytest ended with exit code {code} and no failed test: counted as a failure")
        result += Result(failed=1)
    return result


def read_report(path: Path) -> Result:
    """The counts of a JUnit report, as pytest's `--junitxml` writes it, and the skips' reasons."""
    result = Result()
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
        skipped = int(suite.attrib["skipped"])
        passed = int(suite.attrib["tests"]) - failed - skipped
        reasons = Counter(element.attrib.get("message", "") for element in suite.iter("skipped"))
        result += Result(passed, failed, skipped, reasons)
    return result


def main(names: list[str]) -> int:
    """Run the named groups, or all; the exit code is 0 only if every test passed."""
    known = ["check", *PYTEST_GROUPS]
    if unknown := [name for name in names if name not in known]:
        print(f"unknown group {', '.join(unknown)}: use {', '.join(known)}", file=sys.stderr)
        return 2
    results = {}
    for name in names or known:
        print(f"\n=== {name}", flush=True)
        start = time.perf_counter()
        results[name] = run_checks() if name == "check" else run_pytest(PYTEST_GROUPS[name])
        print(f"=== {name}: {results[name]} in {time.perf_counter() - start:.0f} s", flush=True)
    total = sum(results.values(), Result())
    print()
    for reason, count in total.reasons.most_common():
        print(f"not tried here: {count} x {reason}")
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
