#include "store/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "store/buffer_pool.h"
#include "store/folder_identity.h"
#include "store/mount_point.h"
#include "store/store_fixture.h"
#include "store/store_status.h"

namespace trireme {
namespace {

std::vector<int> members(uint32_t set) {
  std::vector<int> numbers;
  for (; set != 0; set &= set - 1) numbers.push_back(std::countr_zero(set));
  return numbers;
}

void lose_subsets_of(StoreCode code) {
  const TestStore test(code, 0, 512);
  ASSERT_TRUE(test.created.ok()) << test.created.error().message;
  const std::string large = random_bytes(1, size_t(code.num_data) * 512 * 2 + 77);
  const std::string small = random_bytes(2, 33);
  {
    auto store = test.open();
    ASSERT_TRUE(store.ok()) << store.error().message;
    const auto put = put_files(
        **store, {test.made("a/large", large), test.made("small", small), test.made("empty", "")});
    ASSERT_TRUE(put.ok()) << put.error().message;
    EXPECT_EQ(put->chunks_to_repair, 0);
  }
  for (uint32_t set = 0; set < uint32_t{1} << code.num_chunks(); ++set) {
    const int num_lost = std::popcount(set);
    if (num_lost > code.num_parity + 1) continue;
    // A few of the sets with one folder too many are enough.
    if (num_lost > code.num_parity && set % 7 != 0) continue;
    for (const int folder : members(set)) test.lose(folder);
    auto store = test.open_for_reading();
    if (num_lost <= code.num_parity) {
      ASSERT_TRUE(store.ok()) << store.error().message;
      EXPECT_EQ(content_of(**store, "a/large").value(), large) << "without " << set;
      EXPECT_EQ(content_of(**store, "small").value(), small) << "without " << set;
      EXPECT_EQ(content_of(**store, "empty").value(), "");
    } else {
      ASSERT_FALSE(store.ok());
      for (const int folder : members(set)) {
        EXPECT_NE(store.error().message.find(fmt::format("s{} (", folder)), std::string::npos)
            << store.error().message;
      }
    }
    for (const int folder : members(set)) test.bring_back(folder);
  }
}

TEST(Store, ReadsEverythingBackWithoutAnySetOfFoldersThatTheCodeBears) {
  lose_subsets_of({2, 1});
  lose_subsets_of({4, 2});
  lose_subsets_of({8, 3});
  lose_subsets_of({1, 2});
}

TEST(Store, AnEmptyDiskIsTakenInAndItsChunksComeBack) {
  const TestStore test({4, 2});
  const std::string content = random_bytes(3, 100'000);
  {
    auto store = test.open();
    ASSERT_TRUE(put_files(**store, {test.made("x", content)}).ok());
  }
  test.replace_with_empty(1);
  test.replace_with_empty(4);
  auto store = test.open();
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_GT(health_of(**store)->chunks_to_repair, 0);
  const auto totals = repair(**store);
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  EXPECT_EQ(totals->num_waiting, 0);
  const auto health = health_of(**store);
  EXPECT_EQ(word_of(*health), "healthy");
  store->reset();
  // Two others may be lost now.
  test.lose(0);
  test.lose(5);
  auto again = test.open_for_reading();
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(content_of(**again, "x").value(), content);
}

TEST(Store, EveryFlippedByteOfAChunkIsFoundAndRepaired) {
  const TestStore test({2, 1}, 0, 64);
  const std::string content = random_bytes(4, 100);
  auto store = test.open();
  ASSERT_TRUE(put_files(**store, {test.made("x", content)}).ok());
  int64_t num_damaged = 0;
  for (const std::string& folder : test.file.dirs) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/chunks")) {
      if (!entry.is_regular_file()) continue;
      for (size_t at = 0; at < size_t(std::filesystem::file_size(entry)); ++at) {
        std::fstream chunk(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
        chunk.seekg(std::streamoff(at));
        const char old = char(chunk.get());
        chunk.seekp(std::streamoff(at));
        chunk.put(char(old ^ 0x10));
        chunk.close();
        EXPECT_EQ(content_of(**store, "x").value(), content);
        const auto totals = scrub_store(**store);
        ASSERT_TRUE(totals.ok()) << totals.error().message;
        num_damaged += totals->num_damaged;
        EXPECT_EQ(totals->repaired.num_repaired, 1) << entry.path() << " byte " << at;
      }
    }
  }
  EXPECT_EQ(num_damaged, 3 * (64 + 50));
}

TEST(Store, AFileWithAnotherChecksumThanThatOfItsRecordIsAnError) {
  const TestStore test({2, 1});
  auto store = test.open();
  ASSERT_TRUE(put_files(**store, {test.made("x", "some bytes")}).ok());
  FileAnswer file = (*store)->ask({.kind = QuestionKind::File, .text = "x"}).value();
  const FileSink ignore = [](std::span<const std::byte>) { return Status(Done{}); };
  EXPECT_TRUE(get_file(**store, file, ignore).ok());
  ++file.files[0].record.checksum;
  EXPECT_FALSE(get_file(**store, file, ignore).ok());
}

TEST(Store, AFolderOfAnotherStoreAndADiskOfAnOldEpochAreRefused) {
  const TestStore test({2, 1}, 4), other({2, 1}, 4);
  StoreFile mixed = test.file;
  mixed.id = other.file.id + 1;
  const auto refused = Store::open(mixed, test.options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("belongs to another store"), std::string::npos);
  // Two folders of one store may not change places either.
  mixed = test.file;
  std::swap(mixed.dirs[0], mixed.dirs[1]);
  EXPECT_FALSE(Store::open(mixed, test.options).ok());

  test.lose(2);
  std::filesystem::create_directories(test.file.dirs[2]);
  ASSERT_TRUE(test.open().ok());  // takes the new disk in
  test.bring_back(2);
  auto store = test.open();
  ASSERT_TRUE(store.ok());
  EXPECT_NE((*store)->why_unusable(2).find("old epoch"), std::string::npos);
}

TEST(Store, WritesGoElsewhereAndDrainMovesChunks) {
  const TestStore test({2, 1}, 5);
  const std::string content = random_bytes(5, 50'000);
  test.lose(0);
  {
    auto store = test.open();
    const auto put = put_files(**store, {test.made("x", content)});
    ASSERT_TRUE(put.ok()) << put.error().message;
    EXPECT_EQ(put->chunks_to_repair, 0);
    const auto drained = drain_server(**store, "s1");
    ASSERT_TRUE(drained.ok()) << drained.error().message;
    EXPECT_GT(drained->num_repaired, 0);
    EXPECT_EQ((*store)->overview()->chunks_of_server[1], 0);
    EXPECT_EQ(content_of(**store, "x").value(), content);
    EXPECT_FALSE(drain_server(**store, "s9").ok());
  }
}

TEST(Store, AFolderWhoseDiskIsNotMountedIsNoNewDisk) {
  TestStore test({2, 1}, 4);
  const std::string content = random_bytes(8, 9000);
  {
    auto store = test.open();
    ASSERT_TRUE(put_files(**store, {test.made("x", content)}).ok());
  }
  // As if a disk had been mounted at each folder; below it lies an empty folder.
  test.file.mounts = test.file.dirs;
  test.lose(1);
  std::filesystem::create_directories(test.file.dirs[1]);
  {
    auto store = test.open();
    ASSERT_TRUE(store.ok()) << store.error().message;
    EXPECT_NE((*store)->why_unusable(1).find("no disk is mounted at " + test.file.dirs[1]),
              std::string::npos);
    ASSERT_TRUE(put_files(**store, {test.made("y", content)}).ok());
    EXPECT_TRUE(is_empty_folder(test.file.dirs[1]));
  }
  test.bring_back(1);  // mounted again: nothing was lost
  {
    auto store = test.open();
    EXPECT_EQ((*store)->why_unusable(1), "");
    EXPECT_EQ(scrub_store(**store)->num_missing, 0);
  }
  test.replace_with_empty(1);
  test.options.takes_new_disks = true;
  auto store = test.open();
  EXPECT_EQ((*store)->why_unusable(1), "");
  EXPECT_EQ((*store)->overview()->servers[1].incarnation, 2u);
  EXPECT_EQ(content_of(**store, "x").value(), content);
  // An empty disk at the place of the one that it replaces is taken in by itself.
  test.file.mounts[2] = mount_point_of(test.file.dirs[2]);
  test.options.takes_new_disks = false;
  test.replace_with_empty(2);
  store->reset();
  store = test.open();
  EXPECT_EQ((*store)->overview()->servers[2].incarnation, 2u);
}

TEST(Store, ADrainedServerWithAnEmptyFolderStaysDrained) {
  TestStore test({2, 1}, 5);
  {
    auto store = test.open();
    ASSERT_TRUE(put_files(**store, {test.made("x", random_bytes(9, 9000))}).ok());
    ASSERT_TRUE(drain_server(**store, "s1").ok());
  }
  test.replace_with_empty(1);
  for (const bool takes_new_disks : {false, true}) {
    test.options.takes_new_disks = takes_new_disks;
    auto store = test.open();
    ASSERT_TRUE(store.ok()) << store.error().message;
    ASSERT_TRUE(put_files(**store, {test.made("y", random_bytes(10, 90'000))}).ok());
    const auto overview = (*store)->overview();
    EXPECT_EQ(overview->servers[1].state,
              takes_new_disks ? ServerState::Active : ServerState::Drained);
    EXPECT_EQ(overview->chunks_of_server[1] > 0, takes_new_disks);
    EXPECT_EQ(is_empty_folder(test.file.dirs[1]), !takes_new_disks);
    EXPECT_EQ(word_of(*health_of(**store)), "healthy");
    EXPECT_GT(overview->servers[1].capacity_bytes, 0);
  }
}

TEST(Store, ScrubRemovesWhatACrashLeftOfAChunk) {
  const TestStore test({2, 1});
  auto store = test.open();
  ASSERT_TRUE(put_files(**store, {test.made("x", "text")}).ok());
  const std::string left = test.file.dirs[0] + "/chunks/07/0000000000000007.0.3.new";
  std::filesystem::create_directories(std::filesystem::path(left).parent_path());
  std::ofstream(left) << "half of a chunk";
  EXPECT_EQ(scrub_store(**store)->num_orphans, 1);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_EQ(content_of(**store, "x").value(), "text");
}

TEST(ReadTimes, OneOfTenBlocksAtMostIsDecodedBecauseAReadIsSlow) {
  ReadTimes times;
  int num_hedged = 0;
  for (int block = 1; block <= 1000; ++block) {
    times.begin_block();
    for (int chunk = 0; chunk < 8; ++chunk) times.add(1'000'000);
    num_hedged += times.may_hedge() ? 1 : 0;
    EXPECT_LE(num_hedged * 10, block + 9);
  }
  EXPECT_EQ(num_hedged, 100);
}

TEST(BufferPool, ABufferComesBackOnceItsLastOwnerHasLetItGo) {
  BufferPool pool;
  std::shared_ptr<BlockBuffer> first = pool.take(100);
  std::shared_ptr<BlockBuffer> late = first;
  BlockBuffer* const bytes = first.get();
  first.reset();
  EXPECT_NE(pool.take(100).get(), bytes);  // a late owner may write to it
  late.reset();
  const auto one = pool.take(100), other = pool.take(100);
  EXPECT_TRUE(one.get() == bytes || other.get() == bytes);
}

TEST(Store, ARemovedFileLeavesNothing) {
  const TestStore test({2, 1});
  auto store = test.open();
  ASSERT_TRUE(put_files(**store, {test.made("a/x", "first"), test.made("a/y", "second")}).ok());
  for (const char* path : {"a/x", "a/y"}) {
    MetadataCommand remove{.kind = CommandKind::Remove};
    remove.paths.push_back(path);
    ASSERT_TRUE((*store)->change(remove).ok());
  }
  ASSERT_TRUE((*store)->collect_garbage().ok());
  EXPECT_FALSE(content_of(**store, "a/x").ok());
  const auto totals = scrub_store(**store);
  EXPECT_EQ(totals->num_chunks, 0);
  EXPECT_EQ(totals->num_orphans, 0);
}

// One bit of a parity chunk is wrong, and its checksum fits.
class WrongEncoder : public DiskFaults {
 public:
  Status before(DiskCall, const std::string&, size_t&) override { return Done{}; }
  void after_encoding(std::span<Block> chunks) override {
    chunks.back().bytes[0] ^= std::byte{1};
    chunks.back().checksum = hash64(chunks.back().bytes);
  }
};

TEST(Store, ABlockThatDoesNotDecodeIsNotWritten) {
  WrongEncoder encoder;
  const TestStore test({4, 2}, 0, 1024, &encoder);
  auto store = test.open();
  ASSERT_TRUE(store.ok()) << store.error().message;
  // Every sixteenth block is decoded.
  const auto put = put_files(**store, {test.made("x", random_bytes(1, 16 * 4 * 1024))});
  ASSERT_FALSE(put.ok());
  EXPECT_NE(put.error().message.find("does not decode"), std::string::npos) << put.error().message;
  EXPECT_FALSE(content_of(**store, "x").ok());
}

TEST(Store, TooFewFoldersAreRefused) {
  const TestStore test({4, 2});
  for (const int folder : {0, 1}) test.lose(folder);
  auto store = test.open();
  ASSERT_TRUE(store.ok()) << store.error().message;
  const auto put = put_files(**store, {test.made("x", "text")});
  ASSERT_FALSE(put.ok());  // k chunks could be written, and k + 1 are needed
  EXPECT_NE(put.error().message.find("nothing was stored"), std::string::npos);
  EXPECT_FALSE(content_of(**store, "x").ok());
}

}  // namespace
}  // namespace trireme
