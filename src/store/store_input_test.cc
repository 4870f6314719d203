#include "store/store_input.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "store/shared_store_fixture.h"

namespace trireme {
namespace {

Status put_content(const TestStore& test, const std::vector<FileToPut>& files) {
  TRIREME_TRY(store, test.open());
  TRIREME_TRY(totals, put_files(*store, files));
  static_cast<void>(totals);
  return Done{};
}

Result<std::shared_ptr<const InputBytes>> input_of(const TestStore& test, const std::string& path,
                                                   int64_t most_bytes = 1'000'000) {
  return open_store_input([&test] { return test.open_for_reading(); }, path,
                          std::make_shared<InputBudget>(most_bytes));
}

// Reads ranges of the file and compares them with the content. Returns the first error.
Status compare_ranges(const InputBytes& input, const std::string& content, uint64_t seed,
                      int num_ranges) {
  std::mt19937_64 random(seed);
  std::string read;
  for (int range = 0; range < num_ranges; ++range) {
    const size_t begin = random() % content.size();
    read.resize(random() % std::min<size_t>(content.size() - begin + 1, 20'000));
    TRIREME_TRY_DONE(input.read(int64_t(begin), std::as_writable_bytes(std::span(read))));
    EXPECT_EQ(read, content.substr(begin, read.size())) << begin;
  }
  return Done{};
}

void scrub(const TestStore& test) {
  const auto store = test.open().value();
  EXPECT_TRUE(scrub_store(*store).ok());
}

TEST(StoreInput, EveryRangeHasTheBytesOfTheFileWithAnyCacheAndUpToMFoldersLost) {
  for (const StoreCode code : {StoreCode{4, 2}, StoreCode{2, 1}, StoreCode{1, 2}}) {
    const TestStore test(code);
    const std::string large = random_bytes(1, 100'000), small = random_bytes(2, 700);
    ASSERT_TRUE(put_content(test, {test.made("large", large), test.made("small", small)}).ok());
    for (const int64_t most_bytes : {int64_t{0}, int64_t{20'000}, int64_t{1'000'000}}) {
      for (int num_lost = 0; num_lost <= code.num_parity; ++num_lost) {
        for (int folder = 0; folder < num_lost; ++folder) test.lose(folder);
        const auto input = input_of(test, "large", most_bytes).value();
        ASSERT_EQ(input->bytes(), int64_t(large.size()));
        EXPECT_TRUE(compare_ranges(*input, large, 3, 60).ok());
        EXPECT_TRUE(
            compare_ranges(*input_of(test, "small", most_bytes).value(), small, 4, 20).ok());
        for (int folder = 0; folder < num_lost; ++folder) test.bring_back(folder);
      }
    }
  }
}

TEST(StoreInput, ThreadsReadTheSameFileAndHintsChangeNothing) {
  const TestStore test({4, 2});
  const std::string content = random_bytes(1, 200'000);
  ASSERT_TRUE(put_content(test, {test.made("f", content)}).ok());
  const auto input = input_of(test, "f", 30'000).value();
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t part = 0; part < 20; ++part) {
        input->will_read(int64_t(part * 10'000), 15'000);
        EXPECT_TRUE(compare_ranges(*input, content, thread * 100 + part, 4).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  input->will_read(-1, 10);
  input->will_read(int64_t(content.size()) - 1, 1'000'000);
  std::byte byte;
  EXPECT_FALSE(input->read(int64_t(content.size()), std::span(&byte, 1)).ok());
}

// The announcement of a whole file reads no more than half of the budget ahead, and what is let go
// of counts no longer.
TEST(StoreInput, LongHintsDoNotPushOutWhatIsNeededFirst) {
  const TestStore test({2, 1});
  const std::string content = random_bytes(1, 400'000);
  ASSERT_TRUE(put_content(test, {test.made("f", content)}).ok());
  const auto budget = std::make_shared<InputBudget>(100'000);
  {
    const auto input =
        open_store_input([&test] { return test.open_for_reading(); }, "f", budget).value();
    for (int time = 0; time < 3; ++time) input->will_read(0, int64_t(content.size()));
    EXPECT_GT(budget->held_bytes, 40'000);
    EXPECT_LE(budget->held_bytes, 60'000);
    EXPECT_TRUE(compare_ranges(*input, content, 1, 50).ok());
    EXPECT_LE(budget->held_bytes, 100'000);
    EXPECT_LE(budget->unread_bytes, budget->held_bytes);
  }
  EXPECT_EQ(budget->held_bytes, 0);
  EXPECT_EQ(budget->unread_bytes, 0);
}

// More folders die in the life of a reader than the code bears at once, with repair between.
TEST(StoreInput, ReadsOnWhileFoldersDieOneByOneAndAreRepaired) {
  const TestStore test({2, 1});
  const std::string content = random_bytes(1, 60'000);
  ASSERT_TRUE(put_content(test, {test.made("f", content)}).ok());
  const auto input = input_of(test, "f", 0).value();
  for (int folder = 0; folder < 3; ++folder) {
    test.lose(folder);
    EXPECT_TRUE(compare_ranges(*input, content, uint64_t(folder), 10).ok()) << folder;
    test.replace_with_empty(folder);
    scrub(test);
    EXPECT_TRUE(compare_ranges(*input, content, uint64_t(folder) + 10, 10).ok()) << folder;
  }
}

TEST(StoreInput, MoreLossesThanTheCodeBearsAndAReplacedFileAreErrors) {
  const TestStore test({2, 1});
  const std::string content = random_bytes(1, 60'000);
  ASSERT_TRUE(put_content(test, {test.made("f", content)}).ok());
  EXPECT_FALSE(input_of(test, "g").ok());
  const auto input = input_of(test, "f", 0).value();
  test.lose(0);
  test.lose(1);
  const Status lost = compare_ranges(*input, content, 1, 20);
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().kind, ErrorKind::Damaged);
  EXPECT_NE(lost.error().message.find("bears the loss of 1"), std::string::npos)
      << lost.error().message;
  test.bring_back(0);
  test.bring_back(1);
  EXPECT_TRUE(compare_ranges(*input, content, 1, 20).ok());

  ASSERT_TRUE(put_content(test, {test.made("f", random_bytes(2, 60'000))}).ok());
  const Status replaced = compare_ranges(*input, content, 1, 20);
  ASSERT_FALSE(replaced.ok());
  EXPECT_NE(replaced.error().message.find("was replaced"), std::string::npos)
      << replaced.error().message;
}

// If the bytes of a new file lie otherwise in their blocks, a reader that knows the old places
// would read other bytes.
TEST(StoreInput, TheSameBytesAtAnotherPlaceAreRefused) {
  const TestStore test({2, 1});
  const std::string content = random_bytes(1, 60'000);
  ASSERT_TRUE(put_content(test, {test.made("f", content)}).ok());
  const auto input = input_of(test, "f", 0).value();
  ASSERT_TRUE(
      put_content(test, {test.made("pad", random_bytes(2, 700)), test.made("f", content)}).ok());
  const Status moved = compare_ranges(*input, content, 1, 20);
  ASSERT_FALSE(moved.ok());
  EXPECT_NE(moved.error().message.find("written again"), std::string::npos)
      << moved.error().message;
}

// Returns how many bytes this process has read from files and sockets.
int64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  io >> name >> bytes;
  return name == "rchar:" ? bytes : -1;
}

constexpr uint32_t kLargeChunk = 1 << 20;

// A small read of a file that does not fit into memory reads the two pieces in which it lies at
// most. Of a chunk that is lost, it reads these pieces of the others.
TEST(StoreInput, ASmallReadReadsThePiecesInWhichItLies) {
  const StoreCode code{2, 1};
  const TestStore test(code, 0, kLargeChunk);
  const std::string content = random_bytes(1, 8 * kLargeChunk);
  ASSERT_TRUE(put_content(test, {test.made("f", content)}).ok());
  for (const bool is_one_lost : {false, true}) {
    if (is_one_lost) test.lose(0);
    const auto input = input_of(test, "f", int64_t{1} << 20).value();
    std::mt19937_64 random(2);
    std::string read(4096, ' ');
    const int64_t num_chunks = is_one_lost ? code.num_data : 1;
    int num_hedged = 0;  // reads that took so long that other chunks were read, too
    for (int time = 0; time < 30; ++time) {
      const size_t begin = random() % (content.size() - read.size());
      const int64_t before = bytes_read();
      ASSERT_TRUE(input->read(int64_t(begin), std::as_writable_bytes(std::span(read))).ok());
      EXPECT_EQ(read, content.substr(begin, read.size())) << begin;
      const int64_t bytes = bytes_read() - before;
      num_hedged += bytes >= 2 * num_chunks * (kChunkPieceBytes + 4096);
      EXPECT_LT(bytes, 2 * code.num_chunks() * (kChunkPieceBytes + 4096)) << begin;
    }
    EXPECT_LE(num_hedged, 5);
  }
}

// A file that is read from its beginning to its end is fetched by whole chunks.
TEST(StoreInput, ALongRunReadsEachByteOnceAndChunksAsAWhole) {
  const TestStore test({2, 1}, 0, kLargeChunk);
  const std::string content = random_bytes(1, 8 * kLargeChunk);
  ASSERT_TRUE(put_content(test, {test.made("f", content)}).ok());
  const auto input = input_of(test, "f", int64_t{4} << 20).value();
  std::string read(10'000, ' ');
  const int64_t before = bytes_read();
  for (size_t begin = 0; begin + read.size() <= content.size(); begin += read.size()) {
    ASSERT_TRUE(input->read(int64_t(begin), std::as_writable_bytes(std::span(read))).ok());
    ASSERT_EQ(read, content.substr(begin, read.size())) << begin;
  }
  // Reading pieces again for every read would move six times the bytes. On a busy machine a few
  // reads seem slow and are hedged, which reads some chunks twice.
  EXPECT_LT(bytes_read() - before, 2 * int64_t(content.size()));
}

class SharedStoreInput : public SharedStore {};

TEST_F(SharedStoreInput, ASmallReadFetchesThePiecesInWhichItLiesFromTheServers) {
  for (size_t server = 0; server < 3; ++server) start_here(server);
  StoreOptions writing = options(StoreAccess::Write);
  writing.most_chunk_bytes = kLargeChunk;
  ASSERT_TRUE(create_shared_store(file_, addresses_, {}, writing).ok());
  const std::string content = random_bytes(1, 8 * kLargeChunk);
  ASSERT_TRUE(put_files(**Store::open(file_, writing), {made("f", content)}).ok());
  const auto input = open_store_input([&] { return open(StoreAccess::Read); }, "f",
                                      std::make_shared<InputBudget>(int64_t{1} << 20))
                         .value();
  std::mt19937_64 random(2);
  std::string read(4096, ' ');
  for (int time = 0; time < 20; ++time) {
    if (time == 10) servers_[1].reset();
    const size_t begin = random() % (content.size() - read.size());
    const int64_t before = bytes_read();
    ASSERT_TRUE(input->read(int64_t(begin), std::as_writable_bytes(std::span(read))).ok());
    EXPECT_EQ(read, content.substr(begin, read.size())) << begin;
    // Servers and client are one process: the server reads the disk, and the client the socket.
    EXPECT_LT(bytes_read() - before, 2 * 2 * 2 * (kChunkPieceBytes + 8192)) << begin;
  }
}

}  // namespace
}  // namespace trireme
