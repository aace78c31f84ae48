"""The rooms of the harness have one linear order: a file includes files of its own room, and of rooms before it. So do
the rooms of the launcher. harness/CMakeLists.txt and launcher/CMakeLists.txt have the orders. ALLOWED says what the
other folders may include. The rooms of the reports have no cycle."""

import graphlib
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))


def order_of(folder):
    """The rooms in a folder, in the order of its CMakeLists.txt."""
    lists = (ROOT / folder / "CMakeLists.txt").read_text(encoding="utf-8")
    return [room for room in re.findall(r"^add_subdirectory\((.+)\)$", lists, re.M) if "/" not in room]


ORDER = order_of("harness")
LAUNCHER_ORDER = order_of("launcher")
PUBLIC = "shardproof"  # the headers for users: <shardproof.hpp>, <shardproof/play.hpp>
# shardproof::main is linked without these rooms.
HEAVY = {"device", "scenario", "subject", "player", "faults"}
# No suite includes an engine or a fault. Only `worker` sees everything.
ALLOWED = {
    "reports": ["reports", *(f"harness/{room}" for room in ("base", "protocol", "trace"))],
    "launcher": ["reports", *(f"harness/{room}" for room in ("base", "protocol", "control", "rendezvous"))],
    "fixtures/engines": [
        "fixtures/engines",
        *(f"harness/{room}" for room in ORDER[:ORDER.index("player")] if room not in ("world", "cases")),
    ],
    "fixtures/faults": ["fixtures/faults", *(f"harness/{room}" for room in ORDER[:ORDER.index("runner")])],
    "fixtures/oracles": ["fixtures/oracles", *(f"harness/{room}" for room in ORDER[:ORDER.index("subject")])],
    "suites": ["suites", "fixtures/oracles", "harness"],
    "worker": ["worker", "suites", "fixtures", "harness"],
}
SOURCES = (".cpp", ".hpp", ".h", ".cu")


def allowed(file):
    """The folders that a file may include from, and single files."""
    folder, room, *rest = file.split("/")
    if folder == "launcher":
        before = LAUNCHER_ORDER[:LAUNCHER_ORDER.index(room) + 1] if rest else LAUNCHER_ORDER
        return [*ALLOWED[folder], "launcher/launcher.hpp", *(f"launcher/{each}" for each in before)]
    if folder != "harness":
        return ALLOWED[folder if folder in ALLOWED else f"{folder}/{room}"]
    if not rest or room == PUBLIC:
        return ["harness"]
    light = room == "runner" and rest[0] != "play"
    return [f"harness/{each}" for each in ORDER[:ORDER.index(room) + 1] if not (light and each in HEAVY)]


def forbidden(file, text):
    """The includes of a file that are forbidden in its room."""
    return [path for path in re.findall(r'^\s*#\s*include "([^"]+/[^"]+)"', text, re.M)
            if not any(path == place or path.startswith(f"{place}/") for place in allowed(file))]


class Includes(unittest.TestCase):
    def test_an_include_of_a_later_room_is_found(self):
        self.assertEqual(
            forbidden(
                "harness/fabric/group.cpp", '#include "harness/base/utf8.hpp"\n  #  include "harness/world/rank.hpp"\n'
            ),
            ["harness/world/rank.hpp"],
        )
        self.assertEqual(
            forbidden("harness/base/utf8.hpp", '#include "harness/protocol/events.hpp"'),
            ["harness/protocol/events.hpp"],
        )
        self.assertEqual(
            forbidden("harness/cases/case.hpp", '#include "suites/checks/kind.hpp"'), ["suites/checks/kind.hpp"]
        )
        self.assertEqual(
            forbidden("harness/runner/lockstep.cpp", '#include "harness/subject/subject.hpp"'),
            ["harness/subject/subject.hpp"],
        )
        self.assertEqual(
            forbidden("suites/overlap/mesh.cpp", '#include "fixtures/engines/reference.hpp"'),
            ["fixtures/engines/reference.hpp"],
        )
        self.assertEqual(
            forbidden("reports/diff/diff.cpp", '#include "launcher/run/run.hpp"'), ["launcher/run/run.hpp"]
        )
        self.assertEqual(
            forbidden("launcher/run/run.cpp", '#include "launcher/launcher.hpp"\n#include "launcher/commands/run.hpp"'),
            ["launcher/commands/run.hpp"],
        )
        self.assertEqual(
            forbidden("worker/main.cpp", '#include "launcher/run/run.hpp"\n#include "fixtures/engines/reference.hpp"'),
            ["launcher/run/run.hpp"],
        )

    def test_every_room_has_a_place_in_the_order(self):
        for place, order in (("harness", ORDER), ("launcher", LAUNCHER_ORDER)):
            rooms = [folder.name for folder in (ROOT / place).iterdir() if folder.is_dir() and folder.name != PUBLIC]
            self.assertEqual(sorted(order), sorted(rooms))

    def test_the_guide_has_the_rooms_in_their_order(self):
        guide = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r"^\| `(\w+)` \|.*\| \[`", guide, re.M), ORDER)
        launcher = re.search(r"^\| `launcher` \|(.*)\|$", guide, re.M)[1]
        self.assertEqual(re.findall(r"`(\w+)`", launcher), LAUNCHER_ORDER)

    def test_no_file_has_an_include_that_is_forbidden_in_its_room(self):
        files = [
            file
            for folder in ("harness", *ALLOWED)
            for file in sorted((ROOT / folder).rglob("*"))
            if file.suffix in SOURCES
        ]
        self.assertGreater(len(files), 500)
        for file in files:
            path = file.relative_to(ROOT).as_posix()
            with self.subTest(file=path):
                self.assertEqual(forbidden(path, file.read_text(encoding="utf-8")), [])

    def test_the_rooms_of_the_reports_have_no_cycle(self):
        included = {}
        for file in (ROOT / "reports").glob("*/*.?pp"):
            rooms = re.findall(r'^#include "reports/(\w+)/', file.read_text(encoding="utf-8"), re.M)
            included.setdefault(file.parent.name, set()).update(set(rooms) - {file.parent.name})
        self.assertIn("export", list(graphlib.TopologicalSorter(included).static_order()))


if __name__ == "__main__":
    unittest.main()
