#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>

#include "base/shared_record.h"
#include "comm/local/local_backend.h"
#include "comm/waited_time.h"
#include "comm/world.h"

namespace trireme {
namespace {

struct Words {
  std::array<uint64_t, 24> all = {};
};

// Leaves the record as a writer does that loses its core between two words.
template <typename T>
void leave_half_written(SharedRecord<T>& record, const T& value) {
  record.store(value);
  static_assert(std::is_standard_layout_v<SharedRecord<T>>);  // its first member is the version
  reinterpret_cast<std::atomic<uint64_t>&>(record).fetch_add(1);
}

TEST(SharedRecord, AReaderBesideAWriterNeverSeesTwoValuesAtOnce) {
  const auto record = std::make_unique<SharedRecord<Words>>();
  std::atomic<bool> done{false};
  const std::jthread writer([&] {
    for (uint64_t round = 1; !done; ++round) {
      Words words;
      words.all.fill(round);
      record->store(words);
    }
  });
  uint64_t last = 0;
  for (int reads = 0; reads < 1000 && !testing::Test::HasFailure();) {
    const std::optional<Words> seen = record->load();
    if (!seen || seen->all[0] == last) continue;
    for (uint64_t word : seen->all) EXPECT_EQ(word, seen->all[0]);
    EXPECT_GT(seen->all[0], last);
    last = seen->all[0];
    ++reads;
  }
  done = true;
}

TEST(SharedRecord, OfAWriterThatStoppedHalfwayNothingIsRead) {
  const auto record = std::make_unique<SharedRecord<Words>>();
  leave_half_written(*record, Words{});
  EXPECT_FALSE(record->load().has_value());
  record->store(Words{{7}});
  ASSERT_TRUE(record->load().has_value());
  EXPECT_EQ(record->load()->all[0], 7u);
}

// If a job is stopped and continues, or a host sleeps, its waits have not become longer.
TEST(WaitedTime, LeavesOutWhatItsThreadDidNotSee) {
  constexpr int64_t kSecond = 1'000'000'000;
  WaitedTime waited(10 * kSecond);
  for (int look = 1; look <= 100; ++look) waited.look(10 * kSecond + look * kSecond / 100);
  EXPECT_EQ(waited.ns(), kSecond);
  waited.look(80 * kSecond);
  EXPECT_EQ(waited.ns(), kSecond);
  waited.look(80 * kSecond + 1000);
  EXPECT_EQ(waited.ns(), kSecond + 1000);
  EXPECT_EQ(waited.since_ns(), 10 * kSecond);
}

// A rank that loses its core while it writes its wait record is late, but it is not in another
// call.
TEST(SharedRecord, AHalfWrittenWaitIsNotTakenForAnotherCall) {
  LocalHost host(2, {});
  LocalBackend late_backend(host, 1);
  World late(late_backend, {});
  WaitRecord half{.since_ns = 1, .peer = 0};
  half.what.sequence = 1;  // as at the barrier below, except for its hash
  leave_half_written(host.fabric().cell(1).waits[0], half);
  std::thread early([&] {
    LocalBackend backend(host, 0);
    World world(backend, {});
    EXPECT_NO_THROW(world.group().barrier());
  });
  while (host.fabric().cell(0).looked_ns[0].load() == 0) std::this_thread::yield();
  EXPECT_NO_THROW(late.group().barrier());
  early.join();
  EXPECT_FALSE(host.fabric().aborted()) << host.fabric().cause();
}

TEST(SharedRecord, TheTableAtADeadlineNamesARankThatIsHalfway) {
  LocalHost host(2, {});
  leave_half_written(host.fabric().cell(1).waits[0], WaitRecord{.since_ns = 1});
  const std::string table = host.fabric().wait_table(2);
  EXPECT_NE(table.find("rank 1 has begun to wait, but its record is not complete"),
            std::string::npos)
      << table;
}

}  // namespace
}  // namespace trireme
