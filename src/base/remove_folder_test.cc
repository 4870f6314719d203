#include "base/remove_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace trireme {
namespace {

namespace fs = std::filesystem;

TEST(RemoveFolder, LeavesNothingWhileAnotherThreadRemovesTheSameFiles) {
  const std::string folder = testing::TempDir() + "remove_folder_" + std::to_string(::getpid());
  for (int turn = 0; turn < 100; ++turn) {
    fs::create_directories(folder);
    const auto path_of = [&](int file) { return folder + "/" + std::to_string(file); };
    for (int file = 0; file < 50; ++file) std::ofstream(path_of(file)) << "some text";
    std::thread other([&] {
      for (int file = 0; file < 50; ++file) ::unlink(path_of(file).c_str());
    });
    EXPECT_TRUE(remove_folder(folder));
    other.join();
    ASSERT_FALSE(fs::exists(folder)) << "turn " << turn;
  }
}

}  // namespace
}  // namespace trireme
