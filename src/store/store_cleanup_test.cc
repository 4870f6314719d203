// What is left where chunks cannot be removed, and where a store cannot be made.

#include <atomic>

#include "store/chunk_folder.h"
#include "store/folder_identity.h"
#include "store/folder_undo.h"
#include "store/store_fixture.h"

namespace trireme {
namespace {

// A folder whose files cannot be removed, and a call from which on nothing can be written.
class FailingDisk : public DiskFaults {
 public:
  Status before(DiskCall call, const std::string& path, size_t&) override {
    if (call == DiskCall::Remove && !stuck.empty() && path.starts_with(stuck)) {
      return damaged(path + ": Input/output error");
    }
    if (call != DiskCall::Read && --calls_left < 0) return damaged(path + ": no space left");
    return Done{};
  }
  std::string stuck = {};
  std::atomic<int64_t> calls_left = INT64_MAX;
};

size_t num_chunks_in(const TestStore& test, int folder) {
  return ChunkFolder(test.file.dirs[size_t(folder)], test.file.id, nullptr).list()->size();
}

TEST(StoreCleanup, GarbageOfOtherServersIsCollectedAndALaterCollectionComesBack) {
  FailingDisk disk;
  const TestStore test({2, 1}, 3, 4096, &disk);
  auto store = test.open();
  ASSERT_TRUE(put_files(**store, {test.made("x", random_bytes(1, 90'000))}).ok());
  MetadataCommand remove{.kind = CommandKind::Remove};
  remove.paths.emplace_back("x");
  ASSERT_TRUE((*store)->change(remove).ok());
  disk.stuck = test.file.dirs[0];
  ASSERT_TRUE((*store)->collect_garbage().ok());
  EXPECT_GT(num_chunks_in(test, 0), 0u);
  EXPECT_EQ(num_chunks_in(test, 1) + num_chunks_in(test, 2), 0u);
  store->reset();
  test.lose(0);
  store = test.open();
  ASSERT_TRUE((*store)->collect_garbage().ok());
  EXPECT_FALSE((*store)->overview()->garbage.empty());
  store->reset();
  test.bring_back(0);
  disk.stuck.clear();
  store = test.open();
  ASSERT_TRUE((*store)->collect_garbage().ok());
  EXPECT_EQ(num_chunks_in(test, 0), 0u);
  EXPECT_TRUE((*store)->overview()->garbage.empty());
}

TEST(StoreCleanup, OneProcessWritesAtATime) {
  TestStore test({2, 1});
  test.options.lock_path = test.root + "/lock";
  test.options.lock_wait_s = 0.05;
  auto first = test.open();
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_FALSE(test.open().ok());
  EXPECT_TRUE(test.open_for_reading().ok());
  first->reset();
  EXPECT_TRUE(test.open().ok());
}

// Whichever call to a disk fails, the folders are as before: missing, or empty.
TEST(StoreCleanup, ACreationThatFailsLeavesTheFoldersAsTheyWere) {
  const TestStore other({2, 1});
  StoreFile file = other.file;
  file.dirs = {other.root + "/deep/a", other.root + "/b", other.root + "/c"};
  std::filesystem::create_directories(file.dirs[1] + "/lost+found");
  int64_t num_failed = 0;
  for (int64_t calls = 0;; ++calls) {
    FailingDisk disk;
    disk.calls_left = calls;
    StoreOptions options = other.options;
    options.faults = &disk;
    if (Store::create(file, {}, options).ok()) break;
    ++num_failed;
    ASSERT_FALSE(std::filesystem::exists(other.root + "/deep")) << calls;
    ASSERT_FALSE(std::filesystem::exists(file.dirs[2])) << calls;
    ASSERT_TRUE(std::filesystem::exists(file.dirs[1] + "/lost+found")) << calls;
    ASSERT_TRUE(is_empty_folder(file.dirs[1])) << calls;
  }
  EXPECT_GT(num_failed, 10);
  EXPECT_TRUE(Store::open(file, other.options).ok());
  // Folders that are refused are not touched.
  StoreFile again = file;
  again.dirs = {other.root + "/new", other.root + "/b", other.root + "/b"};
  EXPECT_FALSE(Store::create(again, {}, other.options).ok());
  EXPECT_FALSE(std::filesystem::exists(other.root + "/new"));
  EXPECT_TRUE(Store::open(file, other.options).ok());
}

TEST(StoreCleanup, ACreationThatFailsTouchesNoStoreThatAnotherCommandHasMadeMeanwhile) {
  const TestStore test({2, 1});
  const std::string deep = test.root + "/deep";
  StoreFile other = test.file;
  other.dirs = {deep + "/b", deep + "/c", deep + "/d"};
  {
    FolderUndo undo(1);
    for (const char* name : {"/a", "/damaged", "/x/y"}) {
      ASSERT_TRUE(undo.make_folder(deep + name).ok());
    }
    std::ofstream(deep + "/a/metadata.term") << "1";
    std::ofstream(deep + "/damaged/store.json") << "not sealed";
    ASSERT_TRUE(Store::create(other, {}, test.options).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(deep + "/a"));
  EXPECT_FALSE(std::filesystem::exists(deep + "/x"));
  EXPECT_TRUE(std::filesystem::exists(deep + "/damaged/store.json"));
  EXPECT_TRUE(Store::open(other, test.options).ok());
}

}  // namespace
}  // namespace trireme
