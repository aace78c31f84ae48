"""The worker program of a rank if a requirement is missing: its message, and its exit code."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from shardproof import TORCH_VERSION

WORKER = "from shardproof.worker import main; main()"


def worker(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """Runs the worker without site-packages, and so without PyTorch."""
    return subprocess.run(
        [sys.executable, "-B", "-S", "-c", WORKER, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def torch_of(folder: str, version: str) -> str:
    """A PYTHONPATH with the metadata of this torch version, and without torch itself."""
    info = Path(folder, f"torch-{version}.dist-info")
    info.mkdir()
    Path(info, "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    return os.pathsep.join((folder, os.environ["PYTHONPATH"]))


class WorkerTest(unittest.TestCase):
    def test_without_pytorch(self) -> None:
        ended = worker("--list-json")
        self.assertEqual(ended.returncode, 3)
        self.assertEqual(
            ended.stderr,
            "shardproof: PyTorch is not installed in this environment; run: pip install torch==2.15.0\n",
        )

    def test_without_pytorch_under_a_launcher(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "worker")
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -B -S -c "{WORKER}" "$@"\n')
            program.chmod(0o755)
            ended = subprocess.run(
                [os.environ["SHARDPROOF"], "list", "--worker", str(program)], capture_output=True, text=True, timeout=60
            )
        self.assertEqual(ended.returncode, 3)
        self.assertIn("PyTorch is not installed in this environment", ended.stderr)

    def test_without_the_library(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = torch_of(folder, "2.15.0")
            ended = worker("--list-json", PYTHONPATH=path, SHARDPROOF_WORKER_LIBRARY="/no/such/library.so")
            self.assertEqual(ended.returncode, 3)
            self.assertIn("/no/such/library.so", ended.stderr)
            listed = worker("--list-json", PYTHONPATH=path)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        (subject,) = json.loads(listed.stdout)["subjects"]
        self.assertEqual((subject["name"], subject["version"], subject["warm"]), ("pytorch", "2.15.0", True))

    def test_another_pytorch_is_refused(self) -> None:
        """The package wraps functions of one PyTorch version, by their names."""
        program = "from shardproof.pytorch.subject import PyTorch; PyTorch().prepare()"
        for version, refused in (("2.14.1", True), ("2.15.0+cpu", False)):
            with tempfile.TemporaryDirectory() as folder, self.subTest(version):
                ended = subprocess.run(
                    [sys.executable, "-B", "-S", "-c", program],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    env={**os.environ, "PYTHONPATH": torch_of(folder, version)},
                )
                self.assertEqual(
                    "this package needs torch 2.15.0, but torch 2.14.1 is installed; run: pip install torch==2.15.0"
                    in ended.stderr,
                    refused,
                )
                self.assertEqual("No module named 'torch'" in ended.stderr, not refused)

    def test_another_pytorch_on_the_path_is_refused(self) -> None:
        """The imported torch itself gives its version. The installed version comes from another folder."""
        program = "from shardproof.pytorch.subject import PyTorch; PyTorch().prepare()"
        with tempfile.TemporaryDirectory() as folder:
            path = torch_of(folder, "2.15.0")
            torch = Path(folder, "elsewhere/torch")
            torch.mkdir(parents=True)
            torch.joinpath("__init__.py").write_text('__version__ = "2.14.1"\n')
            torch.joinpath("_dynamo.py").touch()
            ended = subprocess.run(
                [sys.executable, "-B", "-S", "-c", program],
                capture_output=True,
                text=True,
                timeout=60,
                env={**os.environ, "PYTHONPATH": os.pathsep.join((str(torch.parent), path))},
            )
        self.assertIn(
            f"but Python imported torch 2.14.1 from {torch / '__init__.py'}; remove it from PYTHONPATH", ended.stderr
        )

    def test_its_project_names_the_same_version(self) -> None:
        project = Path(os.environ["PYTHONPATH"]).parent / "pyproject.toml"
        self.assertIn(f'pytorch = ["torch=={TORCH_VERSION}"]', project.read_text())


if __name__ == "__main__":
    unittest.main()
