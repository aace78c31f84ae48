"""An engine in Python under the suites. The report must describe its defects in terms of Python."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

CASE = "overlap/values_exact[W=2,reshard=true]"


class EngineTest(unittest.TestCase):
    def setUp(self) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = Path(self.scratch.name)

    def run_with(self, change: str, case: str = CASE) -> subprocess.CompletedProcess:
        """Runs the example with `change` between its classes and its start, on the cases that `case` selects."""
        example = Path(os.environ["EXAMPLE"]).read_text()
        shebang, engine = example.split("\n", 1)
        classes, start = engine.split('if __name__ == "__main__":')
        program = self.folder / "engine.py"
        program.write_text(
            f'#!{sys.executable} -B\n{classes}{textwrap.dedent(change)}\n\nif __name__ == "__main__":{start}'
        )
        program.chmod(0o755)
        line = [os.environ["SHARDPROOF"], "run", case, "--worker", str(program), "--out", str(self.folder / "out")]
        return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)

    def verdict_of(self, change: str) -> tuple[str, str]:
        """The verdict of the case, and the case's whole entry in the report."""
        ended = self.run_with(change)
        self.assertTrue((self.folder / "out/report.json").exists(), ended.stdout + ended.stderr)
        (case,) = json.loads((self.folder / "out/report.json").read_text())["cases"]
        return case["verdict"], json.dumps(case)

    def test_the_unchanged_example_passes(self) -> None:
        self.assertEqual(self.verdict_of("")[0], "passed")

    def test_a_trainer_that_cannot_be_closed(self) -> None:
        verdict, entry = self.verdict_of(
            """
            def close(self):
                raise ValueError("half of it is left")
            MyTrainer.close = close
            """
        )
        self.assertEqual(verdict, "error")
        self.assertIn("not quiet at its end: the subject's destroy: ValueError: half of it is left\\nTraceback", entry)
        self.assertIn("engine.py", entry)

    def test_a_trainer_that_would_end_the_process(self) -> None:
        verdict, entry = self.verdict_of("MyTrainer.close = lambda self: sys.exit('enough')")
        self.assertEqual(verdict, "error")
        self.assertIn("not quiet at its end: the subject's destroy: SystemExit: enough\\nTraceback", entry)

    def test_memory_that_a_reference_cycle_keeps(self) -> None:
        """The memory's own `__del__` runs after the device was destroyed."""
        ended = self.run_with(
            """
            import gc
            made = MyTrainer.__init__
            def make(self, *arguments):
                gc.collect()
                made(self, *arguments)
                self.me, self.kept = self, Floats(self.engine_context.device, "other", "kept by a cycle", 3)
            MyTrainer.__init__ = make
            """,
            "overlap/values_exact[W=2,*]",
        )
        cases = json.loads((self.folder / "out/report.json").read_text())["cases"]
        self.assertEqual([case["verdict"] for case in cases], ["failed", "failed"], ended.stdout + ended.stderr)
        for case in cases:
            self.assertIn('bytes of device memory alive, in ', json.dumps(case))
        logs = "".join(log.read_text() for log in self.folder.glob("out/worlds/0/logs/*"))
        self.assertIn("HarnessError: release was called after the trainer was closed", logs)

    def test_a_warning_while_a_trainer_is_made(self) -> None:
        ended = self.run_with(
            """
            made = MyTrainer.__init__
            def make(self, *arguments):
                self.warn("made in haste")
                made(self, *arguments)
            MyTrainer.__init__ = make
            """
        )
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_a_span_of_another_dtype(self) -> None:
        _, entry = self.verdict_of(
            """
            def span(self, count=None):
                return Span(self.buffer, 0, len(self.values) if count is None else count, "bf16")
            Floats.span = span
            """
        )
        self.assertIn("it is declared as f32, but buffer ", entry)
        self.assertIn("was written as bf16: use one dtype for both", entry)

    def test_a_name_that_is_reserved_or_unprintable(self) -> None:
        for name, why in (
            ("pytorch", "so --subject calls PyTorch as shardproof brings it"),
            ("my\x1b[31mengine", "invisible character, U+001B"),
        ):
            with self.subTest(name):
                ended = self.run_with(f"MyEngine.name = {name!r}")
                self.assertEqual(ended.returncode, 3)
                self.assertIn(why, ended.stderr)


if __name__ == "__main__":
    unittest.main()
