#include "checkpoint/find_checkpoint.h"

#include "base/file.h"
#include "checkpoint/best_checkpoint.h"
#include "checkpoint/checkpoint_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class FindCheckpoint : public FolderTest {
 protected:
  // A checkpoint does not open without this file.
  static std::string index_of(const std::string& folder) { return folder + "/index.json"; }
};

TEST_F(FindCheckpoint, SaysWhatWasTriedAndWhyNothingOpens) {
  const std::string checkpoints = root() + "/checkpoints";
  fs::create_directories(checkpoints);
  std::string message = message_of(find_checkpoint(root()));
  EXPECT_NE(message.find(checkpoints + " holds no checkpoint"), std::string::npos) << message;

  const Result<std::string> older = SmallState(3).save(checkpoints);
  const Result<std::string> newer = SmallState(7).save(checkpoints);
  ASSERT_TRUE(older.ok() && newer.ok()) << message_of(older) << message_of(newer);
  EXPECT_EQ(find_checkpoint(root())->info().step, 7);
  EXPECT_EQ(find_checkpoint(checkpoints)->info().step, 7);
  EXPECT_EQ(find_checkpoint(checkpoints + "/")->info().step, 7);
  EXPECT_EQ(find_checkpoint(*older)->info().step, 3);

  ASSERT_TRUE(fs::remove(index_of(*newer)));
  EXPECT_EQ(find_checkpoint(root())->info().step, 3);
  ASSERT_TRUE(fs::remove(index_of(*older)));
  const std::string why_newer = message_of(Checkpoint::open(*newer));
  const std::string why_older = message_of(Checkpoint::open(*older));
  message = message_of(find_checkpoint(root()));
  const size_t at_newer = message.find(why_newer), at_older = message.find(why_older);
  EXPECT_NE(at_newer, std::string::npos) << message;
  EXPECT_NE(at_older, std::string::npos) << message;
  EXPECT_LT(at_newer, at_older);
  EXPECT_NE(why_newer.find(*newer), std::string::npos) << why_newer;
}

TEST_F(FindCheckpoint, TheBestOfARunIsThatWithTheLowestValidationLossOfItsOwnStep) {
  const std::string checkpoints = root() + "/checkpoints", best = root() + "/best";
  EXPECT_FALSE(names_best_checkpoint(best));  // no run directory
  const auto save = [&](int64_t step, int64_t validated, double loss) {
    SmallState state(step);
    state.info.optimizer_scalars[kValidationStep] = double(validated);
    state.info.optimizer_scalars[kValidationLoss] = loss;
    ASSERT_TRUE(state.save(checkpoints, {.keep = 0}).ok());
  };
  ASSERT_TRUE(SmallState(1).save(checkpoints).ok());
  EXPECT_TRUE(names_best_checkpoint(best));
  EXPECT_NE(message_of(find_checkpoint(best)).find("was validated"), std::string::npos);
  save(2, 2, 5.9);
  save(3, 2, 1.0);  // validated at an earlier step, so not its own state
  save(4, 4, 6.2);
  save(5, 5, 5.9);
  EXPECT_EQ(find_checkpoint(best)->info().step, 2);
  EXPECT_EQ(find_checkpoint(best + "/")->info().step, 2);
  EXPECT_EQ(find_checkpoint(root())->info().step, 5);
  ASSERT_TRUE(fs::remove(checkpoints + "/step-000002/config.resolved.toml"));
  fs::create_directories(best);  // an existing folder comes first
  EXPECT_FALSE(names_best_checkpoint(best));
}

TEST_F(FindCheckpoint, SaysWhatAnotherFolderIs) {
  fs::create_directories(root());
  EXPECT_NE(message_of(find_checkpoint(root())).find("holds no checkpoint"), std::string::npos);
  ASSERT_TRUE(write_file_atomically(root() + "/config.json", "{}").ok());
  EXPECT_NE(message_of(find_checkpoint(root())).find("checkpoint import"), std::string::npos);
}

}  // namespace
}  // namespace trireme
