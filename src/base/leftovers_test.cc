#include "base/leftovers.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/file_lock.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Leftovers : public testing::Test {
 protected:
  Leftovers() : folder_(testing::TempDir() + "leftovers_" + std::to_string(::getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Leftovers() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void put(const std::string& name, const std::string& text = "kept") const {
    std::ofstream(path(name)) << text;
  }
  std::string text_of(const std::string& name) const { return read_text_file(path(name)).value(); }
  // Ends a process by SIGKILL while it works.
  template <typename Function>
  void run_and_kill(Function&& function) const {
    const pid_t child = ::fork();
    if (child == 0) {
      function();
      ::raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }

  std::string folder_;
};

TEST_F(Leftovers, AreThoseNamesThatWritersGive) {
  for (const char* name : {"a.tmp-1", "step-000010.tmp-4711-old", "a.tmp-12.3", "a.tmp-b.tmp-1"}) {
    EXPECT_TRUE(is_temporary_name(name)) << name;
  }
  for (const char* name : {"a.tmp", "a.tmp-", "a.tmp-x", ".tmp-1", "a.tmp-1.", "a.tmp-1b", "a",
                           "a.tmp-1-olds", "a.tmp-1.json"}) {
    EXPECT_FALSE(is_temporary_name(name)) << name;
  }
}

TEST_F(Leftovers, OfAKilledWriterGoAndThoseOfALivingOneStay) {
  run_and_kill([&] {
    const Result<AtomicFile> file = AtomicFile::create(path("killed"));
    if (!file.ok()) ::_exit(1);
    ::raise(SIGKILL);
  });
  Result<AtomicFile> living = AtomicFile::create(path("living"));
  ASSERT_TRUE(living.ok());
  put("other.tmp-file");
  const std::vector<std::string> removed = remove_leftovers(folder_);
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_NE(removed.front().find("killed.tmp-"), std::string::npos);
  ASSERT_TRUE(living->write("whole").ok() && living->commit().ok());
  EXPECT_EQ(text_of("living"), "whole");
  EXPECT_TRUE(fs::exists(path("other.tmp-file")));
}

TEST_F(Leftovers, AreThoseOfTheNamedFileAloneWhereOneIsNamed) {
  put("a.tmp-1");
  put("a.b.tmp-1");
  fs::create_directories(path("a.tmp-2/inside"));
  remove_leftovers_of(path("a"));
  EXPECT_FALSE(fs::exists(path("a.tmp-1")) || fs::exists(path("a.tmp-2")));
  EXPECT_TRUE(fs::exists(path("a.b.tmp-1")));
}

// A process number that is reused, or that comes from another host, may be that of a living
// process.
TEST_F(Leftovers, WithTheNumberOfALivingProcessAreToldByTheirLock) {
  put("file.tmp-" + std::to_string(::getpid()), "of a former process");
  ASSERT_TRUE(write_file_atomically(path("file"), "new").ok());
  EXPECT_EQ(text_of("file"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);

  // Two writers of one file, and one on another host with our process number: each has its own
  // temporary file.
  Result<AtomicFile> first = AtomicFile::create(path("file"));
  Result<AtomicFile> second = AtomicFile::create(path("file"));
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(first->write("first").ok() && second->write("second, longer").ok());
  ASSERT_TRUE(second->commit().ok());
  EXPECT_EQ(text_of("file"), "second, longer");
  ASSERT_TRUE(first->commit().ok());
  EXPECT_EQ(text_of("file"), "first");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

// Whatever exists at the path of a temporary file, links and second names are not followed.
TEST_F(Leftovers, NoWriterReachesThroughALink) {
  put("target");
  const std::string temporary = "file.tmp-" + std::to_string(::getpid());
  fs::create_symlink(path("target"), path(temporary));
  ASSERT_TRUE(write_file_atomically(path("file"), "new").ok());
  fs::create_hard_link(path("target"), path("other.tmp-" + std::to_string(::getpid())));
  ASSERT_TRUE(write_file_atomically(path("other"), "new").ok());
  EXPECT_EQ(text_of("target"), "kept");
}

TEST_F(Leftovers, ALockIsNotTakenThroughALinkAndEmptiesNothing) {
  put("target");
  fs::create_symlink(path("target"), path("soft"));
  fs::create_hard_link(path("target"), path("hard"));
  fs::create_symlink(path("nothing"), path("dangling"));
  fs::create_directory(path("folder"));
  put("long", std::string(5000, 'x'));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const char* name : {"soft", "hard", "dangling", "folder", "long", "pipe"}) {
    const Result<FileLock> lock = FileLock::take(path(name));
    ASSERT_FALSE(lock.ok()) << name;
    EXPECT_EQ(lock.error().kind, ErrorKind::Damaged) << name;
    EXPECT_NE(lock.error().message.find("move it away"), std::string::npos);
  }
  EXPECT_EQ(text_of("target"), "kept");
  EXPECT_EQ(text_of("long").size(), 5000u);
  EXPECT_FALSE(fs::exists(path("nothing")));
}

}  // namespace
}  // namespace trireme
