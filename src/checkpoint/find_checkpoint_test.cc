#include "checkpoint/find_checkpoint.h"

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

}  // namespace
}  // namespace trireme
