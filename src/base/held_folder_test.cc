#include "base/held_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

TEST(HeldFolder, IsTheSameWhateverHappensToItsPath) {
  const std::string root = testing::TempDir() + "held_" + std::to_string(::getpid());
  const std::string path = root + "/run", moved = root + "/moved";
  fs::create_directories(path);
  Result<HeldFolder> held = HeldFolder::open(path);
  ASSERT_TRUE(held.ok());
  EXPECT_TRUE(held->is_at_its_path());

  fs::rename(path, moved);
  EXPECT_FALSE(held->is_at_its_path());
  fs::create_directory(path);  // another folder in its place
  EXPECT_FALSE(held->is_at_its_path());
  ASSERT_TRUE(write_file_atomically(held->inside() + "/file", "text").ok());
  EXPECT_TRUE(fs::exists(moved + "/file"));
  EXPECT_TRUE(fs::is_empty(path));

  fs::remove(path);
  fs::rename(moved, path);
  EXPECT_TRUE(held->is_at_its_path());
  fs::remove_all(root);
  EXPECT_FALSE(held->is_at_its_path());
  EXPECT_FALSE(write_file_atomically(held->inside() + "/file", "text").ok());
  EXPECT_FALSE(HeldFolder::open(path).ok());
}

}  // namespace
}  // namespace trireme
