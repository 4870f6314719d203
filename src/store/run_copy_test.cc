#include "store/run_copy.h"

#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "store/store_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// A run directory beside the folders of the store.
class RunCopyTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) {
    fs::create_directories(fs::path(run + "/" + name).parent_path());
    std::ofstream(run + "/" + name, std::ios::binary) << content;
  }
  void save(int step) {
    const std::string name = "checkpoints/step-00000" + std::to_string(step);
    write(name + "/shard-00000-000.safetensors", random_bytes(uint64_t(step), 10'000));
    write(name + "/index.json", "step " + std::to_string(step));
  }
  Status update(RunCopy& copy) { return copy.update(*store.open().value()); }
  Result<int64_t> fetch(const std::string& to) {
    return fetch_newer_run(*store.open_for_reading().value(), "runs/a", to);
  }

  const TestStore store{{2, 1}, 0, 2048};
  const std::string run = store.root + "/run", back = store.root + "/back";
};

std::map<std::string, std::string> contents_of(const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    contents[entry.path().lexically_relative(folder)] = *read_text_file(entry.path());
  }
  return contents;
}

// Whatever a run does between two updates, the copy is the run as it was at the last one.
TEST_F(RunCopyTest, WhatIsFetchedIsTheRunAtTheLastUpdate) {
  RunCopy copy(run, "runs/a");
  save(1);
  write("metrics.jsonl", "one\n");
  ASSERT_TRUE(update(copy).ok());
  save(2);
  save(3);
  fs::remove_all(run + "/checkpoints/step-000001");
  write("metrics.jsonl", "one\ntwo\n");
  write("report.html", "<html>");
  ASSERT_TRUE(update(copy).ok());
  const auto at_update = contents_of(run);
  save(4);

  store.lose(1);
  const Result<int64_t> step = fetch(back);
  ASSERT_TRUE(step.ok()) << step.error().message;
  EXPECT_EQ(*step, 3);
  EXPECT_EQ(contents_of(back), at_update);
}

// Temporary files and links are not part of a run.
TEST_F(RunCopyTest, WhatOthersAreWritingIsLeftOut) {
  RunCopy copy(run, "runs/a");
  save(1);
  const auto own = contents_of(run);
  write("metrics.jsonl.tmp-4711", "half");
  write(".lock", "");
  write("checkpoints/step-000002.tmp-4711/shard-00000-000.safetensors", "half");
  fs::create_symlink("checkpoints/step-000001", run + "/best");
  ASSERT_TRUE(update(copy).ok());
  ASSERT_TRUE(fetch(back).ok());
  EXPECT_EQ(contents_of(back), own);
}

TEST_F(RunCopyTest, OnlyWhatIsNewerIsFetched) {
  RunCopy copy(run, "runs/a");
  save(1);
  ASSERT_TRUE(update(copy).ok());
  EXPECT_EQ(*fetch(run), -1);
  save(2);
  EXPECT_EQ(*fetch(run), -1) << "the run directory is newer";
  ASSERT_TRUE(update(copy).ok());
  fs::remove_all(run + "/checkpoints/step-000002");
  write("checkpoints/step-000001/index.json", "its own");
  EXPECT_EQ(*fetch(run), 2);
  EXPECT_EQ(*read_text_file(run + "/checkpoints/step-000001/index.json"), "its own");
}

// A run that has gone back has another checkpoint of the same step, perhaps of fewer ranks.
TEST_F(RunCopyTest, AStepThatIsWrittenAgainReplacesTheFormerOne) {
  RunCopy copy(run, "runs/a");
  save(1);
  write("checkpoints/step-000001/shard-00001-000.safetensors", "of a rank that is lost");
  ASSERT_TRUE(update(copy).ok());
  fs::remove_all(run + "/checkpoints/step-000001");
  write("checkpoints/step-000001/shard-00000-000.safetensors", "other weights");
  write("checkpoints/step-000001/index.json", "step 1, again");
  ASSERT_TRUE(update(copy).ok());
  ASSERT_EQ(*fetch(back), 1);
  EXPECT_EQ(contents_of(back), contents_of(run));
}

// A checkpoint without its index is a part of one, and neither fetched nor taken for a whole one.
TEST_F(RunCopyTest, APartOfACheckpointIsNotFetchedAndIsCompletedByTheNextUpdate) {
  RunCopy copy(run, "runs/a");
  save(1);
  ASSERT_TRUE(update(copy).ok());
  save(2);
  const std::string shard = "checkpoints/step-000002/shard-00000-000.safetensors";
  ASSERT_TRUE(put_files(*store.open().value(), {{run + "/" + shard, "runs/a/" + shard}}).ok());
  EXPECT_EQ(*fetch(back), 1);
  ASSERT_TRUE(update(copy).ok());
  EXPECT_EQ(*fetch(back), 2);
  EXPECT_EQ(contents_of(back), contents_of(run));
}

TEST_F(RunCopyTest, AStoreThatCannotWriteKeepsTheFormerCheckpoint) {
  RunCopy copy(run, "runs/a");
  save(1);
  ASSERT_TRUE(update(copy).ok());
  const auto before = contents_of(run);
  save(2);
  store.lose(0);
  store.lose(1);
  const auto opened = store.open();
  EXPECT_FALSE(opened.ok() && copy.update(**opened).ok());
  store.bring_back(0);
  store.bring_back(1);
  EXPECT_EQ(*fetch(back), 1);
  EXPECT_EQ(contents_of(back), before);
  ASSERT_TRUE(update(copy).ok());
  EXPECT_EQ(*fetch(back), 2);
}

}  // namespace
}  // namespace trireme
