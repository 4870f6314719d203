#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>

namespace trireme {
namespace {

namespace fs = std::filesystem;

class WriteFile : public testing::Test {
 protected:
  WriteFile() : folder_(testing::TempDir() + "write_file_" + std::to_string(::getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/inner");
  }
  ~WriteFile() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(WriteFile, GoesToTheFileThatAChainOfLinksNames) {
  ASSERT_TRUE(write_file_atomically(path("inner/file"), "old").ok());
  fs::create_symlink("inner/file", path("relative"));
  fs::create_symlink(path("relative"), path("absolute"));
  fs::create_symlink("inner/missing", path("dangling"));
  for (const char* link : {"relative", "absolute", "dangling"}) {
    ASSERT_TRUE(write_file_atomically(path(link), link).ok()) << link;
    EXPECT_TRUE(fs::is_symlink(path(link))) << link;
    EXPECT_EQ(read_text_file(path(link)).value(), link);
  }
  EXPECT_EQ(read_text_file(path("inner/file")).value(), "absolute");
  EXPECT_EQ(read_text_file(path("inner/missing")).value(), "dangling");

  fs::create_symlink("loop", path("loop"));
  const Status refused = write_file_atomically(path("loop"), "text");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Damaged);
}

TEST_F(WriteFile, GoesStraightIntoAPipe) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", path("link"));
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  for (const char* name : {"pipe", "link"}) {
    ASSERT_TRUE(write_file_atomically(path(name), name).ok());
    char text[16] = {};
    EXPECT_EQ(::read(reader, text, sizeof(text)), 4);
    EXPECT_STREQ(text, name);
  }
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
}

// The nodes have the numbers of /dev/null and /dev/full. Only root can make them, and not on every
// file system.
TEST_F(WriteFile, ADeviceStaysADevice) {
  const auto make = [&](const char* name, unsigned minor) {
    return ::mknod(path(name).c_str(), S_IFCHR | 0666, makedev(1, minor)) == 0 &&
           ::access(path(name).c_str(), W_OK) == 0;
  };
  if (!make("null", 3) || !make("full", 7)) GTEST_SKIP() << "no device can be made here";
  EXPECT_TRUE(write_file_atomically(path("null"), "text").ok());
  const Status full = write_file_atomically(path("full"), "text");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().kind, ErrorKind::Damaged);
  EXPECT_NE(full.error().message.find("No space left"), std::string::npos);
  EXPECT_TRUE(fs::is_character_file(path("null")) && fs::is_character_file(path("full")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 3);
}

}  // namespace
}  // namespace trireme
