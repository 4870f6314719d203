#include <gtest/gtest.h>

#include <string>

#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/load.h"
#include "disk_image.h"
#include "intercepted_calls.h"

namespace trireme {
namespace {

// Before each change to the disk, the power is cut: a copy of the image is mounted and its
// checkpoints are read.
class PowerCut : public FolderTest {
 protected:
  PowerCut() : image_(root() + "/power") {}

  // Saves four times, step 2 twice, and cuts the power before every call and after every save.
  // Returns what was wrong first, or "".
  std::string save_with_cuts(Writeback writeback, Guard guard) {
    writeback_ = writeback;
    for (const int64_t step : {1, 2, 2, 3}) {
      watch_disks(
          {image_.disk()}, [this] { cut(); }, guard);
      const auto saved = SmallState(step).save(image_.disk() + "/run", {.keep = 1});
      stop_watching();
      EXPECT_TRUE(saved.ok()) << message_of(saved);
      committed_ = step;
      writeback_ = Writeback::None;
      cut();
      writeback_ = writeback;
    }
    return wrong_;
  }

  // Mounts the disk as it is after a power cut. Every checkpoint that has a name is whole, and the
  // newest one is the last that was committed, or the one that is being saved.
  void cut() {
    image_.write_back(writeback_);
    ++num_cuts_;
    if (!wrong_.empty()) return;
    if (!image_.mount_copy()) {
      wrong_ = "the copy cannot be mounted";
      return;
    }
    wrong_ = problem_of(image_.copy() + "/run");
    if (!wrong_.empty()) {
      wrong_ = "cut " + std::to_string(num_cuts_) + ", committed step " +
               std::to_string(committed_) + ": " + wrong_;
    }
    image_.unmount_copy();
  }

  std::string problem_of(const std::string& folder) const {
    const auto latest = find_latest_checkpoint(folder);
    if (!latest.ok()) return latest.error().message;
    if (!latest->skipped.empty()) return latest->skipped.front();
    if (latest->path.empty()) return committed_ == 0 ? "" : "no checkpoint is left";
    if (latest->step < committed_) return "the newest is of step " + std::to_string(latest->step);
    const auto checkpoint = Checkpoint::open(latest->path);
    if (!checkpoint.ok()) return message_of(checkpoint);
    const auto problems = checkpoint->verify(1);
    return problems.empty() ? "" : problems.front();
  }

  DiskImage image_;
  Writeback writeback_ = Writeback::None;
  int64_t committed_ = 0;  // the step of the last save that has returned
  int num_cuts_ = 0;
  std::string wrong_;
};

TEST_F(PowerCut, NothingReachesTheDiskBesideTheSyncs) {
  if (const std::string why = image_.mount(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(save_with_cuts(Writeback::None, Guard::None), "");
  EXPECT_GT(num_cuts_, 100);
}

TEST_F(PowerCut, TheNamesReachTheDiskBeforeTheData) {
  if (const std::string why = image_.mount(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(save_with_cuts(Writeback::Journal, Guard::None), "");
}

TEST_F(PowerCut, EverythingReachesTheDiskAtOnce) {
  if (const std::string why = image_.mount(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(save_with_cuts(Writeback::All, Guard::None), "");
}

// The cuts find a save that does not sync its files, or not its folders.
TEST_F(PowerCut, IsNoticedWithoutTheSyncOfFiles) {
  if (const std::string why = image_.mount(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_NE(save_with_cuts(Writeback::Journal, Guard::SyncOfFiles), "");
}

TEST_F(PowerCut, IsNoticedWithoutTheSyncOfFolders) {
  if (const std::string why = image_.mount(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_NE(save_with_cuts(Writeback::None, Guard::SyncOfFolders), "");
}

}  // namespace
}  // namespace trireme
