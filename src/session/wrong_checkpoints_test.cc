#include "session/wrong_checkpoints.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

namespace trireme {
namespace {

namespace fs = std::filesystem;

class WrongCheckpoints : public testing::Test {
 protected:
  WrongCheckpoints() {
    for (const char* name : {"a/step-000100", "a/step-000200", "b/step-000300", "a/else"}) {
      fs::create_directories(root_ / name);
    }
  }
  ~WrongCheckpoints() override { fs::remove_all(root_); }
  std::set<std::string> names(const std::string& folder) const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(root_ / folder)) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }
  std::vector<std::string> roots() const {
    return {(root_ / "a").string(), (root_ / "b").string(), (root_ / "none").string()};
  }

  const fs::path root_ =
      fs::temp_directory_path() / ("trireme-wrong-" + std::to_string(::getpid()));
};

TEST_F(WrongCheckpoints, LaterOnesAreSetAsideAndEarlierOnesStay) {
  EXPECT_EQ(set_wrong_checkpoints_aside(roots(), 150)->renamed.size(), 2u);
  EXPECT_EQ(names("a"), (std::set<std::string>{"else", "step-000100", "wrong-step-000200"}));
  EXPECT_EQ(names("b"), (std::set<std::string>{"wrong-step-000300"}));
  EXPECT_TRUE(set_wrong_checkpoints_aside(roots(), 150)->renamed.empty());
}

// A run that begins from nothing would lose more than it saves.
TEST_F(WrongCheckpoints, AllStayIfNoneIsOldEnough) {
  EXPECT_FALSE(set_wrong_checkpoints_aside(roots(), 99));
  EXPECT_EQ(names("a"), (std::set<std::string>{"else", "step-000100", "step-000200"}));
}

TEST_F(WrongCheckpoints, InMemoryLaterOnesAreRemoved) {
  remove_wrong_checkpoints((root_ / "a").string(), 100);
  EXPECT_EQ(names("a"), (std::set<std::string>{"else", "step-000100"}));
  remove_wrong_checkpoints("", 0);
}

}  // namespace
}  // namespace trireme
