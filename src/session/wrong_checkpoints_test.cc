#include "session/wrong_checkpoints.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/guest_parts.h"

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
  EXPECT_EQ(set_wrong_checkpoints_aside(roots(), 150).renamed.size(), 2u);
  EXPECT_EQ(names("a"), (std::set<std::string>{"else", "step-000100", "wrong-step-000200"}));
  EXPECT_EQ(names("b"), (std::set<std::string>{"wrong-step-000300"}));
  EXPECT_TRUE(set_wrong_checkpoints_aside(roots(), 150).renamed.empty());
}

TEST_F(WrongCheckpoints, NothingThatWasSetAsideBeforeIsLost) {
  set_wrong_checkpoints_aside(roots(), 150);
  fs::create_directories(root_ / "a/step-000200");
  set_wrong_checkpoints_aside(roots(), 150);
  fs::create_directories(root_ / "a/step-000200");
  set_wrong_checkpoints_aside(roots(), 150);
  EXPECT_EQ(names("a"), (std::set<std::string>{"else", "step-000100", "wrong-step-000200",
                                               "wrong-step-000200-2", "wrong-step-000200-3"}));
}

TEST_F(WrongCheckpoints, TheNewestOlderOneIsFoundInAllFolders) {
  EXPECT_EQ(newest_checkpoint_before(roots(), 100), -1);
  EXPECT_EQ(newest_checkpoint_before(roots(), 101), 100);
  EXPECT_EQ(newest_checkpoint_before(roots(), 300), 200);
  EXPECT_EQ(newest_checkpoint_before(roots(), INT64_MAX), 300);
}

// The new name would be too long for the system, so the checkpoint keeps its own name.
TEST_F(WrongCheckpoints, OneThatCannotBeRenamedIsNamedInAWarning) {
  EXPECT_EQ(warning_about_kept(set_wrong_checkpoints_aside(roots(), 150)), "");
  constexpr size_t kMostPath = 4095;
  std::string root = root_.string();
  while (root.size() + 13 < kMostPath) {
    root.push_back('/');
    root.append(std::min<size_t>(200, kMostPath - 12 - root.size()), 'x');
  }
  const std::string checkpoint = root + "/step-000200";
  ASSERT_TRUE(fs::create_directories(checkpoint));
  const auto wrong = set_wrong_checkpoints_aside({root}, 150);
  EXPECT_TRUE(wrong.renamed.empty());
  ASSERT_EQ(wrong.kept.size(), 1u);
  EXPECT_TRUE(fs::exists(checkpoint));
  const std::string warning = warning_about_kept(wrong);
  EXPECT_NE(warning.find(checkpoint + ": "), std::string::npos) << warning;
  EXPECT_NE(warning.find("the run may resume from them"), std::string::npos) << warning;
}

TEST_F(WrongCheckpoints, InMemoryLaterOnesAreRemovedWithThoseOfGuests) {
  const fs::path guest = guest_folder((root_ / "a").string(), "b");
  fs::create_directories(guest / "step-000100");
  fs::create_directories(guest / "step-000200");
  remove_wrong_checkpoints((root_ / "a").string(), 100);
  EXPECT_TRUE(fs::exists(root_ / "a/step-000100"));
  EXPECT_FALSE(fs::exists(root_ / "a/step-000200"));
  EXPECT_TRUE(fs::exists(guest / "step-000100"));
  EXPECT_FALSE(fs::exists(guest / "step-000200"));
  remove_wrong_checkpoints("", 0);
}

}  // namespace
}  // namespace trireme
