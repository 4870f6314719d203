#include "checkpoint/snapshot.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "checkpoint/background_job.h"
#include "checkpoint/checkpoint_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class SnapshotTest : public FolderTest {
 protected:
  SnapshotTest() : state_(2), copies_(copy_pieces(state_.pieces(), buffer_)) {}

  Result<std::string> save_copies(const std::string& folder) const {
    return save_checkpoint(folder, state_.info, state_.attached(), copies_);
  }

  SmallState state_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>((12 + 5) * sizeof(float));
  std::vector<TensorPiece> copies_;
};

std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

TEST_F(SnapshotTest, WhatWasCopiedIsSavedByteForByteAlthoughTrainingContinues) {
  const auto direct = state_.save(root() + "/direct");
  ASSERT_TRUE(direct.ok()) << message_of(direct);
  state_.weight.assign(12, -1.0f);
  state_.bias.assign(5, -1.0f);
  const auto copied = save_copies(root() + "/copied");
  ASSERT_TRUE(copied.ok()) << message_of(copied);
  EXPECT_EQ(files_in(*copied), files_in(*direct));
}

TEST_F(SnapshotTest, ACopyOfWhichAnyByteChangesBeforeItIsWrittenIsRefused) {
  for (size_t byte = 0; byte < buffer_.size(); byte += 3) {
    buffer_[byte] ^= std::byte{0x10};
    const auto saved = save_copies(root());
    ASSERT_FALSE(saved.ok()) << byte;
    EXPECT_NE(saved.error().message.find("in memory has changed"), std::string::npos)
        << saved.error().message;
    EXPECT_TRUE(fs::is_empty(root()));
    buffer_[byte] ^= std::byte{0x10};
  }
  EXPECT_TRUE(save_copies(root()).ok());
}

TEST_F(SnapshotTest, ABufferThatIsTooSmallIsRefused) {
  EXPECT_THROW((void)copy_pieces(state_.pieces(), std::span(buffer_).first(buffer_.size() - 1)),
               ContractError);
}

TEST_F(SnapshotTest, AnAbandonedSaveEndsAndLeavesNothing) {
  const std::atomic<bool> is_abandoned = true;
  const auto saved = save_checkpoint(root(), state_.info, state_.attached(), copies_,
                                     {.is_abandoned = &is_abandoned});
  EXPECT_FALSE(saved.ok());
  EXPECT_TRUE(fs::is_empty(root()));
}

TEST(BackgroundJob, HandsOverItsResultAndItsFailureAndShowsItsCalls) {
  Progress shown{};
  BackgroundJob job;
  for (const bool fails : {false, true}) {
    std::atomic<bool> may_end = false;
    job.start([&](Progress& progress) -> Result<std::string> {
      const ShownCall call(&progress, "fsync", "a slow disk");
      while (!may_end) progress.advance();
      if (fails) throw std::runtime_error("broken");
      return std::string("done");
    });
    std::thread waiting([&] { job.wait(shown); });
    while (!shown.current() || std::string(shown.current()->call) != "fsync") {
    }
    EXPECT_FALSE(job.is_done());
    may_end = true;
    waiting.join();
    EXPECT_TRUE(job.is_done());
    EXPECT_FALSE(shown.current());
    const Result<std::string> result = job.take();
    EXPECT_EQ(result.ok() ? *result : result.error().message, fails ? "broken" : "done");
  }
}

// A rank that ends because of an exception destroys its job, which must not wait for nothing.
TEST(BackgroundJob, IsNotBegunIfItThrowsOnTheThreadOfItsCaller) {
  Progress shown{};
  BackgroundJob job;
  const BackgroundJob::Function broken = [](Progress&) -> Result<std::string> {
    throw std::runtime_error("broken");
  };
  EXPECT_THROW(job.run_here(broken, shown), std::runtime_error);
  job.wait(shown);
  job.run_here([](Progress&) { return Result<std::string>(std::string("done")); }, shown);
  EXPECT_EQ(job.take().value(), "done");
}

// Making a thread for each job would cost training more than the job.
TEST(BackgroundJob, RunsAllJobsOnOneThread) {
  Progress shown{};
  BackgroundJob job;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 5; ++i) {
    job.start([&](Progress&) {
      threads.insert(std::this_thread::get_id());
      return Result<std::string>(std::to_string(i));
    });
    job.wait(shown);
    EXPECT_EQ(job.take().value(), std::to_string(i));
  }
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

}  // namespace
}  // namespace trireme
