// Tests which lines of a Python traceback are shown to people.
#include "reports/export/traceback.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace shardproof::reports;

namespace {

const std::string beginning = "Traceback (most recent call last):\n";

std::string frame(const std::string& file, const std::string& line) {
  return "  File \"" + file + "\", line 7, in f\n    " + line + "\n";
}

}  // namespace

TEST_CASE("a shortened traceback omits the package's frames at any place, and lines of underlines") {
  const std::string text = "failed\n" + beginning + frame("/opt/shardproof/subject.py", "call()") +
                           frame("/opt/shardproof/pytorch/model.py", "run()") + "          ^^^^^\n" +
                           frame("/opt/torch/nn.py", "hook(x)") + "         ~~~~^^^\n" +
                           frame("/opt/shardproof/engine_context.py", "wait()") + frame("/opt/torch/add.py", "x + 1") +
                           "TypeError: no\nat the end\n";
  CHECK(shortened_tracebacks(text) == "failed\n" + beginning + "  …\n" + frame("/opt/torch/nn.py", "hook(x)") +
                                          frame("/opt/torch/add.py", "x + 1") + "TypeError: no\nat the end\n");
}

TEST_CASE("a shortened traceback keeps the last five lines of each traceback, also with an indent") {
  const std::string way = frame("/a.py", "a()") + frame("/b.py", "b()") + frame("/c.py", "c()") + frame("/d.py", "d()");
  const std::string rest = "  …\n" + frame("/c.py", "c()") + frame("/d.py", "d()");
  CHECK(shortened_tracebacks(beginning + way + "E: one\n\nanother:\n" + beginning + way + "E: two") ==
        beginning + rest + "E: one\n\nanother:\n" + beginning + rest + "E: two");
  CHECK(shortened_tracebacks("    " + beginning + "      File \"/a.py\"\n    E: one\n  at x.cpp:1\n") ==
        "    " + beginning + "      File \"/a.py\"\n    E: one\n  at x.cpp:1\n");
}

TEST_CASE(
    "a folder of that name is the package only where the harness calls it; and the package's own mistake is shown") {
  const std::string mine = beginning + frame("/home/shardproof/engine.py", "step()") + "E: mine\n";
  CHECK(shortened_tracebacks(mine) == mine);
  const std::string own = beginning + frame("/opt/shardproof/subject.py", "call()") +
                          frame("/opt/shardproof/engine_context.py", "1 / 0") + "ZeroDivisionError: division by zero\n";
  CHECK(shortened_tracebacks(own) == own);
}

TEST_CASE("a traceback that is cut off, and a text without one, are as they were") {
  for (const char* text : {"", "\n", "no", "Traceback (most recent call last):", "Traceback (most recent call last):\n",
                           "Traceback (most recent call last):\n  File \"/a.py", "a\n\n  b\n"})
    CHECK(shortened_tracebacks(text) == text);
}
