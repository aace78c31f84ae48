// Files that results go to, and every way in which they cannot.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <vector>

#include "launcher/files/output.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/machine.hpp"
#include "tests/launcher/refusal.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a file of evidence that a rank has made large is not read") {
  TemporaryDirectory directory;
  const std::string megabyte(std::size_t{1} << 20, 'x');
  write_text(directory / "evidence", megabyte);
  CHECK(evidence_text(directory / "evidence") == megabyte);
  write_text(directory / "evidence", megabyte + "x");
  CHECK_THAT(evidence_text(directory / "evidence"),
             ContainsSubstring("it has more than 1048576 bytes") && !ContainsSubstring("xxx"));
}

TEST_CASE("a file is replaced whole or not at all") {
  TemporaryDirectory directory;
  write_file(directory / "report", "one");
  write_file(directory / "report", "two");
  CHECK(text_of(directory / "report") == "two");
  CHECK_THAT(refusal([&] { write_file(directory / "absent/report", "x"); }),
             ContainsSubstring("absent/report") && ContainsSubstring("No such file"));
  // A folder that prevents the rename stays, and no half-written file is left next to it.
  std::filesystem::create_directories(directory / "busy/inside");
  CHECK_THAT(refusal([&] { write_file(directory / "busy", "x"); }), ContainsSubstring("output unusable"));
  CHECK_FALSE(std::filesystem::exists(directory / "busy.new"));
}

TEST_CASE("writing goes into a pipe or device in place, and a link leads where it did") {
  TemporaryDirectory directory;
  const std::string pipe = directory / "pipe", target = directory / "target", link = directory / "link";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int end = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  REQUIRE(end >= 0);
  write_file(pipe, "text");
  char read[8] = {};
  CHECK(::read(end, read, sizeof(read)) == 4);
  ::close(end);
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(refusal([&] { write_file(pipe, "text"); }) ==
        "output unusable: " + pipe + ": no program reads from this pipe: start its reader first, or name a file");

  write_file(target, "old");
  std::filesystem::create_symlink(target, link);
  write_file(link, "new");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(text_of(target) == "new");
}

TEST_CASE("a full disk is said to be full") {
  if (!std::filesystem::exists("/dev/full")) SKIP("no /dev/full here");
  TemporaryDirectory directory;
  std::filesystem::create_symlink("/dev/full", directory / "report.new");
  CHECK_THAT(refusal([&] { write_file(directory / "report", std::string(100'000, 'x')); }),
             ContainsSubstring("No space left on device"));
  CHECK_FALSE(std::filesystem::exists(directory / "report"));
}

TEST_CASE("of the environment, only what changes results is recorded") {
  const std::vector<std::string> environment{"OMP_NUM_THREADS=2", "SECRET=x", "NCCL_DEBUG=INFO", "LANG=C",
                                             "LANGUAGE=de",       "broken"};
  CHECK(recorded_environment(environment) ==
        std::map<std::string, std::string>{{"LANG", "C"}, {"NCCL_DEBUG", "INFO"}, {"OMP_NUM_THREADS", "2"}});
}

TEST_CASE("the machine has a name, a kernel and at least one core") {
  const auto facts = machine_facts();
  CHECK_FALSE(facts.at("host").empty());
  CHECK_FALSE(facts.at("kernel").empty());
  CHECK(std::stoi(facts.at("cores")) >= 1);
}

TEST_CASE("the commit is read from git's own files") {
  TemporaryDirectory directory;
  const std::string one(40, '1'), two(40, '2');
  const auto work = directory / "tree/deep";
  std::filesystem::create_directories(work);
  CHECK(git_commit(work).empty());

  const auto git = directory / "tree/.git";
  std::filesystem::create_directories(git / "refs/heads");
  write_text(git / "HEAD", "ref: refs/heads/main\n");
  CHECK(git_commit(work).empty());  // no commit yet
  write_text(git / "packed-refs", "# pack-refs\n" + two + " refs/heads/remain\n" + one + " refs/heads/main\n");
  CHECK(git_commit(work) == one);
  write_text(git / "refs/heads/main", two + "\n");
  CHECK(git_commit(work) == two);
  write_text(git / "HEAD", one + "\n");
  CHECK(git_commit(work) == one);

  // A linked work tree: its own HEAD, the refs of the main one.
  std::filesystem::create_directories(git / "worktrees/other");
  std::filesystem::create_directories(directory / "other");
  write_text(directory / "other/.git", "gitdir: " + (git / "worktrees/other").string() + "\n");
  write_text(git / "worktrees/other/HEAD", "ref: refs/heads/main\n");
  write_text(git / "worktrees/other/commondir", "../..\n");
  CHECK(git_commit(directory / "other") == two);
}

TEST_CASE("a new file is refused where its path exists, or its folder does not") {
  const TemporaryDirectory directory;
  require_new_file(directory / "new");
  CHECK_FALSE(std::filesystem::exists(directory / "new"));
  write_text(directory / "there", "precious");
  CHECK(refusal([&] { require_new_file(directory / "there"); }) ==
        "output unusable: " + (directory / "there").string() +
            " already exists, and shardproof does not overwrite it: name a new file");
  std::filesystem::create_symlink("nowhere", directory / "link");
  CHECK_THAT(refusal([&] { require_new_file(directory / "link"); }), ContainsSubstring("already exists"));
  CHECK_THAT(refusal([&] { require_new_file(directory.path()); }), ContainsSubstring("Is a directory"));
  CHECK_THAT(refusal([&] { require_new_file(directory / "none/new"); }),
             ContainsSubstring("No such file or directory"));
  CHECK_THAT(refusal([&] { require_new_file(directory / "there/new"); }), ContainsSubstring("Not a directory"));
  require_new_file("/dev/null");
  REQUIRE(mkfifo((directory / "pipe").c_str(), 0600) == 0);
  require_new_file(directory / "pipe");
  CHECK(text_of(directory / "there") == "precious");
}
