#include "base/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"

namespace trireme {
namespace {

class InputFileTest : public testing::Test {
 protected:
  InputFileTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("trireme_input_file." + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~InputFileTest() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, int64_t bytes) const {
    std::string text;
    for (int64_t i = 0; i < bytes; ++i) text += static_cast<char>(i % 251);
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::filesystem::path folder_;
};

// Tests every length to which another program may truncate the file, at page borders and between.
TEST_F(InputFileTest, AFileThatIsTruncatedIsAnErrorWithTheByteAtWhichItEnds) {
  constexpr int64_t kBytes = 20000;
  const std::string name = write("a", kBytes);
  auto file = InputFile::open(name);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->bytes(), kBytes);
  std::vector<std::byte> bytes(8192);
  for (int64_t offset : {0, 1, 4096, 11808}) {
    ASSERT_TRUE(file->read(offset, bytes).ok());
    for (size_t i = 0; i < bytes.size(); ++i)
      ASSERT_EQ(bytes[i], static_cast<std::byte>((offset + static_cast<int64_t>(i)) % 251));
  }
  for (int64_t length = kBytes - 1; length >= 0; length -= 1237) {
    std::filesystem::resize_file(name, static_cast<uintmax_t>(length));
    const int64_t offset = std::min<int64_t>(length, kBytes - 8192);
    const Status read = file->read(offset, bytes);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().kind, ErrorKind::Damaged);
    EXPECT_NE(read.error().message.find(name + ": cannot read at byte " + std::to_string(length) +
                                        ": the file ends at byte " + std::to_string(length) + ";"),
              std::string::npos)
        << read.error().message;
  }
}

// The memory of a process is a file whose first bytes cannot be read.
TEST_F(InputFileTest, BytesThatCannotBeReadAreAnErrorWithTheirPlace) {
  const auto file = InputFile::open("/proc/self/mem");
  if (!file.ok()) GTEST_SKIP() << file.error().message;
  std::vector<std::byte> bytes(16);
  const Status read = file->read(32, bytes);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::Damaged);
  EXPECT_EQ(read.error().message, "/proc/self/mem: cannot read at byte 32: Input/output error");
}

TEST_F(InputFileTest, OnlyRegularFilesAreOpenedAndAPipeIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string& name :
       {path("pipe"), path("absent"), folder_.string(), std::string("/dev/zero")}) {
    const auto file = InputFile::open(name);
    ASSERT_FALSE(file.ok()) << name;
    EXPECT_EQ(file.error().kind, ErrorKind::Damaged);
    EXPECT_EQ(file.error().message.find(name + ": cannot "), 0u) << file.error().message;
    EXPECT_FALSE(read_text_file(name).ok());
  }
}

}  // namespace
}  // namespace trireme
