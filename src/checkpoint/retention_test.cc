#include "checkpoint/retention.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "base/file.h"
#include "checkpoint/best_checkpoint.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/read_back.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Retention : public FolderTest {
 protected:
  std::string folder(int64_t step) const { return root() + "/" + step_folder_name(step); }
  void save(int64_t step) const {
    const auto saved = SmallState(step).save(root(), {.keep = 0});
    ASSERT_TRUE(saved.ok()) << message_of(saved);
  }
  void save_validated(int64_t step, double loss) const {
    SmallState state(step);
    state.info.optimizer_scalars[kValidationStep] = double(step);
    state.info.optimizer_scalars[kValidationLoss] = loss;
    const auto saved = state.save(root(), {.keep = 0});
    ASSERT_TRUE(saved.ok()) << message_of(saved);
  }
  std::set<int64_t> steps() const {
    std::set<int64_t> found;
    for (const auto& entry : fs::directory_iterator(root())) {
      found.insert(step_of_folder_name(entry.path().filename().string()));
    }
    return found;
  }
};

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

void flip(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(char(byte ^ 0x10));
}

TEST_F(Retention, ReadingBackFindsEveryByteThatIsNotWhatWasWritten) {
  save(1);
  EXPECT_EQ(read_back(folder(1)).problem, "");
  for (const std::string& path : files_of(folder(1))) {
    const int64_t bytes = int64_t(fs::file_size(path));
    for (int64_t at = 0; at < bytes; ++at) {
      flip(path, at);
      ASSERT_NE(read_back(folder(1)).problem.find(path), std::string::npos) << path << " " << at;
      flip(path, at);
    }
    const std::string text = read_text_file(path).value();
    for (const int64_t size : {int64_t{0}, int64_t{5}, bytes - 1}) {
      fs::resize_file(path, uintmax_t(size));
      EXPECT_NE(read_back(folder(1)).problem, "") << path << " cut to " << size;
    }
    fs::remove(path);
    EXPECT_NE(read_back(folder(1)).problem, "") << path << " is gone";
    ASSERT_TRUE(write_file_atomically(path, text).ok());
  }
  EXPECT_EQ(read_back(folder(1)).problem, "");
}

// Whatever is damaged and whenever, as many intact checkpoints stay as must be kept (if there are
// so many), and the milestones. Every damaged checkpoint among those that were read is named.
TEST_F(Retention, WhatIsRemovedLeavesEnoughThatWereReadBack) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    fs::remove_all(root());
    fs::create_directories(root());
    const RetentionOptions options{.keep = int64_t(random() % 4), .keep_every = seed % 3 ? 0 : 3};
    std::set<int64_t> whole, all;
    for (int64_t step = 1; step <= 7; ++step) {
      save(step);
      all.insert(step);
      whole.insert(step);
      const int64_t victim = 1 + int64_t(random() % uint32_t(step));
      if (random() % 2 == 0 && whole.contains(victim) && all.contains(victim)) {
        const auto files = files_of(folder(victim));
        const std::string& path = files[random() % files.size()];
        flip(path, int64_t(random() % fs::file_size(path)));
        whole.erase(victim);
      }
      const RetentionResult result = apply_retention(root(), step, options);
      std::set<int64_t> left = steps(), gone(result.removed.begin(), result.removed.end());
      for (const int64_t removed : gone) {
        EXPECT_FALSE(left.contains(removed));
        EXPECT_FALSE(options.keep_every > 0 && removed % options.keep_every == 0);
      }
      std::set<int64_t> kept_whole;
      for (const int64_t each : whole) {
        if (left.contains(each)) kept_whole.insert(each);
      }
      if (options.keep == 0) {
        EXPECT_EQ(left, all);
      } else {
        EXPECT_GE(int64_t(kept_whole.size()), std::min(options.keep, int64_t(whole.size())));
        EXPECT_TRUE(gone.empty() || int64_t(result.verified.size()) >= options.keep);
      }
      for (const DamagedCheckpoint& damaged : result.damaged) {
        EXPECT_FALSE(whole.contains(damaged.step));
        EXPECT_NE(damaged.problem.find(folder(damaged.step)), std::string::npos);
      }
      for (const int64_t verified : result.verified) EXPECT_TRUE(whole.contains(verified));
      for (const int64_t removed : gone) {
        all.erase(removed);
        whole.erase(removed);
      }
    }
  }
}

// For all losses and all damage: the intact checkpoint with the lowest validation loss is still
// there after every save.
TEST_F(Retention, TheBestOfAllIntactCheckpointsIsKeptBesideTheNewest) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    fs::remove_all(root());
    fs::create_directories(root());
    std::map<int64_t, double> intact;  // steps and losses
    for (int64_t step = 1; step <= 8; ++step) {
      if (random() % 3 == 0) {
        save(step);  // without a validation
      } else {
        intact[step] = double(random() % 5);
        save_validated(step, intact[step]);
      }
      if (random() % 4 == 0 && !intact.empty()) {
        const int64_t victim = intact.rbegin()->first;
        if (steps().contains(victim)) flip(folder(victim) + "/index.json", 40);
        intact.erase(victim);
      }
      std::erase_if(intact, [&](const auto& each) { return !steps().contains(each.first); });
      apply_retention(root(), step, {.keep = 1, .keeps_best = true});
      double lowest = 1e9;
      for (const auto& [of, loss] : intact) lowest = std::min(lowest, loss);
      bool is_there = intact.empty();
      for (const auto& [of, loss] : intact) is_there |= loss == lowest && steps().contains(of);
      EXPECT_TRUE(is_there) << "after step " << step;
      EXPECT_TRUE(steps().contains(step));
    }
  }
}

TEST_F(Retention, NothingIsRemovedOnceItIsToStop) {
  for (int64_t step = 1; step <= 3; ++step) save(step);
  for (int calls = 0; calls < 12; ++calls) {
    int left = calls;
    apply_retention(root(), 3, {.keep = 1}, [&] { return left-- <= 0; });
    if (steps().size() < 3) return;
    EXPECT_EQ(steps(), (std::set<int64_t>{1, 2, 3}));
  }
  FAIL() << "nothing was ever removed";
}

}  // namespace
}  // namespace trireme
