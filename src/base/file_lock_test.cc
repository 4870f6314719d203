#include "base/file_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace trireme {
namespace {

TEST(FileLock, IsHeldByOneAndNamesIt) {
  const std::string path = testing::TempDir() + "file_lock_" + std::to_string(::getpid());
  {
    const Result<FileLock> first = FileLock::take(path);
    ASSERT_TRUE(first.ok()) << first.error().message;
    const Result<FileLock> second = FileLock::take(path);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().kind, ErrorKind::Usage);
    EXPECT_NE(second.error().message.find(std::to_string(::getpid())), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(FileLock::take(path).ok());
}

TEST(FileLock, AFileThatNobodyHoldsAnyLongerIsTaken) {
  const std::string path = testing::TempDir() + "file_lock_left_" + std::to_string(::getpid());
  if (FILE* left = std::fopen(path.c_str(), "w")) std::fclose(left);
  EXPECT_TRUE(FileLock::take(path).ok());
  EXPECT_EQ(FileLock::take(path + "/no/such/folder").error().kind, ErrorKind::Damaged);
}

TEST(FileLock, WhoHasLostTheFileLeavesThatOfTheNext) {
  const std::string path = testing::TempDir() + "file_lock_lost_" + std::to_string(::getpid());
  Result<FileLock> next = Error{};
  {
    const Result<FileLock> first = FileLock::take(path);
    ASSERT_TRUE(first.ok());
    std::filesystem::remove(path);
    next = FileLock::take(path);
    ASSERT_TRUE(next.ok()) << next.error().message;
  }
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_FALSE(FileLock::take(path).ok());
}

}  // namespace
}  // namespace trireme
