#!/usr/bin/env python3
"""Checks that the generator finds the mutants of a small source, and does not change the rest.

    mutate_test.py GENERATOR CLANG COMPILER ROOT [unittest arguments]
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = """#include "part.hpp"
namespace shardproof {
constexpr int limit = 3;
static_assert(limit > 2);
int Counter::add(int by) {
  if (by < 0 || full()) return -1;
  count_ += by;
  for (int i = 0; i < by; ++i) note(i);
  switch (mode_) {
    case Mode::slow: return reset();
    case Mode::fast: break;
  }
  if (const int* last = find(7)) note(*last);
  const auto twice = [](int n) { return n * 2; };
  return mode_ == Mode::fast ? twice(by) : by;
}
template <class T> T sum(T a, T b) { return a + b; }
double half() { return sum(1.0, 2.0) / 2; }
}
"""
HEADER = """#pragma once
namespace shardproof {
enum class Mode { slow, fast };
void note(int);
const int* find(int);
int reset();
struct Counter {
  int add(int by);
  bool full() const { return !(count_ <= 8); }
  int count_ = 0;
  Mode mode_ = Mode::slow;
};
}
"""
EXPECTED = """
add operator: by < 0 => by <= 0
add literal: 0 => 1
add negated_condition: by < 0 || full() => !(by < 0 || full())
add deleted_guard: by < 0 || full() => false
add operator: by < 0 || full() => (by < 0) && full()
add literal: 1 => 2
add literal: 1 => 0
add deleted_assignment: count_ += by => ;
add operator: count_ += by => count_ -= by
add literal: 0 => 1
add operator: i < by => i <= by
add deleted_call: note(i) => ;
add negated_condition: const int* last = find(7) => const int* last = find(7); false
add literal: 7 => 8
add literal: 7 => 6
add deleted_call: note(*last) => ;
add operator: n * 2 => n / 2
add literal: 2 => 3
add literal: 2 => 1
add operator: mode_ == Mode::fast => mode_ != Mode::fast
add literal: Mode::fast => Mode::slow
sum operator: a + b => a - b
half operator: sum(1.0, 2.0) / 2 => sum(1.0, 2.0) * 2
half literal: 2 => 3
half literal: 2 => 1
full operator: !(count_ <= 8) => static_cast<bool>((count_ <= 8))
full operator: count_ <= 8 => count_ < 8
full literal: 8 => 9
full literal: 8 => 7
 literal: 0 => 1
 literal: Mode::slow => Mode::fast
"""


class Generator(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.out = self.root / "out"

    def mutate(self, source):
        (self.root / "whole.cpp").write_text(source, encoding="utf-8")
        (self.root / "part.hpp").write_text(HEADER, encoding="utf-8")
        subprocess.run([sys.executable, "-B", GENERATOR, "--clang", CLANG, "--root", self.root, "--out", self.out,
                        "whole.cpp", "part.hpp", "--", "-std=c++20"], check=True)
        return json.loads((self.out / "mutants.json").read_text(encoding="utf-8"))

    def test_the_mutants_of_a_source(self):
        found = self.mutate(SOURCE)
        lines = [
            f"{m['function'].split('::')[-1]} {m['kind']}: {m['original']} => {m['mutated']}" for m in found["mutants"]
        ]
        self.assertEqual(sorted(lines), sorted(line for line in EXPECTED.splitlines() if line))
        self.assertEqual(len({m["id"] for m in found["mutants"]}), len(lines))
        self.assertEqual(
            [left["text"] for left in found["left_alone"]], ["constexpr int limit = 3", "static_assert(limit > 2)"]
        )

    def test_the_copies_are_compiled(self):
        self.mutate(SOURCE)
        subprocess.run(
            [COMPILER, "-std=c++20", "-w", "-fsyntax-only", "-I", self.out, "-I", ROOT, self.out / "whole.cpp"],
            check=True,
        )

    def test_every_mutant_is_a_choice_in_a_copy(self):
        found = self.mutate(SOURCE)
        copies = "".join((self.out / name).read_text(encoding="utf-8") for name in ("whole.cpp", "part.hpp"))
        self.assertEqual({m["id"] for m in found["mutants"]}, set(re.findall(r"active\(0x([0-9a-f]{8})\)", copies)))

    def test_ids_outlive_edits_elsewhere(self):
        def by_text(found):
            return {
                (m["function"], m["kind"], m["original"], m["mutated"]): m["id"]
                for m in found["mutants"]
                if m["function"] == "half"
            }

        before = by_text(self.mutate(SOURCE))
        after = by_text(self.mutate(SOURCE.replace("  count_ += by;\n", "  // More to come.\n\n")))
        self.assertEqual(len(before), 3)
        self.assertEqual(before, after)

    def test_ids_outlive_another_layout(self):
        before = [m["id"] for m in self.mutate(SOURCE)["mutants"]]
        wrapped = SOURCE.replace(
            "fast ? twice(by) : by", "fast  // not slow\n             ? twice(by)\n             : by"
        )
        self.assertNotEqual(wrapped, SOURCE)
        self.assertEqual(before, [m["id"] for m in self.mutate(wrapped)["mutants"]])


if __name__ == "__main__":
    GENERATOR, CLANG, COMPILER, ROOT = sys.argv[1:5]
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
