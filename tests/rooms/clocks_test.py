"""No wall clock decides anything: a user or a daemon may set it at any time. Deadlines and durations use the monotonic
clock. The files below may read the wall clock: each for a time of day that people read, for the age of a
file, or to compare the clocks of several hosts."""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
ROOMS = ("harness", "launcher", "reports", "suites", "fixtures", "worker")
WALL_CLOCK = re.compile(
    r"system_clock|high_resolution_clock|utc_clock|file_clock|file_time_type::clock|gettimeofday|CLOCK_REALTIME"
    r"|timespec_get|\btime\(nullptr\)|\btime\.time\(|datetime\.now\("
)
MAY_READ_IT = {
    "harness/protocol/clock_pair.cpp",  # compares the monotonic clocks of several hosts, for the order of failures
    "harness/rendezvous/rendezvous_directory.cpp",  # the age of a directory that a killed launcher left
    "launcher/files/claimed_directory.cpp",  # the name of a directory, and the age of a link
    "launcher/run/run.cpp",  # when the run started
}


def readers(files):
    """The files with a wall clock. `files`: their text, by name."""
    return {name for name, text in files.items() if WALL_CLOCK.search(text)}


class Clocks(unittest.TestCase):
    def test_a_wall_clock_is_found(self):
        self.assertEqual(
            readers(
                {
                    "a.cpp": "std::chrono::system_clock::now()",
                    "b.cpp": "::clock_gettime(CLOCK_REALTIME, &now)",
                    "c.cpp": "std::time(nullptr)",
                    "d.py": "time.time()",
                    "e.cpp": "std::chrono::steady_clock::now(); iteration.time()",
                    "f.py": "time.monotonic()",
                }
            ),
            {"a.cpp", "b.cpp", "c.cpp", "d.py"},
        )

    def test_only_these_files_read_the_wall_clock(self):
        tracked = subprocess.run(["git", "-C", ROOT, "ls-files", *ROOMS], check=True, stdout=subprocess.PIPE).stdout
        files = [ROOT / name for name in tracked.decode().split("\n") if name.endswith((".cpp", ".hpp", ".h", ".py"))]
        texts = {
            str(file.relative_to(ROOT)): file.read_text(encoding="utf-8")
            for file in files
            if file.is_file() and "/tests/" not in str(file.relative_to(ROOT))
        }
        self.assertGreater(len(texts), 500)
        self.assertEqual(readers(texts), MAY_READ_IT)


if __name__ == "__main__":
    unittest.main()
