"""The program of a rank where something is missing: what is said, and how it ends."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

WORKER = "from shardproof.worker import main; main()"


def worker(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """In an environment without site-packages: there is no PyTorch in it."""
    return subprocess.run([sys.executable, "-B", "-S", "-c", WORKER, *arguments], env={**os.environ, **environment}, capture_output=True,
                          text=True, timeout=60)


class WorkerTest(unittest.TestCase):
    def test_without_pytorch(self) -> None:
        ended = worker("--list-json")
        self.assertEqual(ended.returncode, 3)
        self.assertEqual(ended.stderr, "shardproof: there is no PyTorch in this environment: pip install torch==2.15.0\n")

    def test_without_pytorch_under_a_launcher(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "worker")
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -B -S -c "{WORKER}" "$@"\n')
            program.chmod(0o755)
            ended = subprocess.run([os.environ["SHARDPROOF"], "list", "--worker", str(program)], capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, 3)
        self.assertIn("there is no PyTorch in this environment", ended.stderr)

    def test_without_the_library(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            info = Path(folder, "torch-2.15.0.dist-info")  # its version is all that is asked for
            info.mkdir()
            Path(info, "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.15.0\n")
            path = os.pathsep.join((folder, os.environ["PYTHONPATH"]))
            ended = worker("--list-json", PYTHONPATH=path, SHARDPROOF_WORKER_LIBRARY="/no/such/library.so")
            self.assertEqual(ended.returncode, 3)
            self.assertIn("/no/such/library.so", ended.stderr)
            listed = worker("--list-json", PYTHONPATH=path)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        (subject,) = json.loads(listed.stdout)["subjects"]
        self.assertEqual((subject["name"], subject["version"], subject["warm"]), ("pytorch", "2.15.0", True))


if __name__ == "__main__":
    unittest.main()
