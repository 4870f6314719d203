// A server that is slow now and then, or always: what reads wait for, and how many blocks are
// decoded only because of it.

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "store/shared_store_fixture.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

// Reads of chunks in the folder of one server take longer: each one of `every`.
class SlowReads : public DiskFaults {
 public:
  Status before(DiskCall call, const std::string& path, size_t&) override {
    const bool is_slow = call == DiskCall::Read && path.find("/d2/chunks/") != std::string::npos &&
                         delay.load() > 0ms && num_reads++ % every == 0;
    if (is_slow) std::this_thread::sleep_for(delay.load());
    return Done{};
  }
  std::atomic<std::chrono::milliseconds> delay = 0ms;
  std::atomic<int> every = 1;
  std::atomic<int> num_reads = 0;
};

class SlowServer : public SharedStore {
 protected:
  struct Reading {
    double share_decoded = 0.0;  // of the blocks
    double longest_s = 0.0;      // that a reader has waited for bytes
    int num_full_waits = 0;      // that lasted about as long as a slow read
    double seconds = 0.0;
  };

  void SetUp() override {
    SharedStore::SetUp();
    faults_ = &slow_;
    file_.code = {4, 2};
    for (size_t server = 0; server < 6; ++server) start_here(server);
    ASSERT_TRUE(create().ok());
    auto store = open(StoreAccess::Write);
    ASSERT_TRUE(put_files(**store, {made("x", content_)}).ok());
  }
  void TearDown() override {
    slow_.delay = 0ms;
    SharedStore::TearDown();
  }
  Reading read(std::chrono::milliseconds delay) {
    auto store = open(StoreAccess::Read);
    // The times of reads are known then. Its blocks count, too: a hedge that it has left over is
    // there for the next read.
    const auto calm = get_file(**store, "x", [](std::span<const std::byte>) { return Done{}; });
    EXPECT_TRUE(calm.ok()) << calm.error().message;
    slow_.delay = delay;
    Reading reading;
    const int64_t begin_ns = monotonic_ns();
    int64_t before_ns = begin_ns;
    std::string bytes;
    const auto got = get_file(**store, "x", [&](std::span<const std::byte> part) -> Status {
      const int64_t now_ns = monotonic_ns();
      const double wait_s = double(now_ns - before_ns) * 1e-9;
      reading.longest_s = std::max(reading.longest_s, wait_s);
      if (wait_s >= 0.9e-3 * double(delay.count())) ++reading.num_full_waits;
      before_ns = now_ns;
      bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
      return Done{};
    });
    EXPECT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(bytes, content_);
    reading.seconds = double(monotonic_ns() - begin_ns) * 1e-9;
    reading.share_decoded =
        double(calm->decoded_blocks + got->decoded_blocks) / double(2 * kBlocks);
    std::printf("%.1f %% of the blocks decoded, longest wait %.0f ms, %.2f s in all\n",
                100 * reading.share_decoded, 1e3 * reading.longest_s, reading.seconds);
    return reading;
  }

  static constexpr size_t kBlocks = 300;
  const std::string content_ = random_bytes(1, kBlocks * 4 * 4096);
  SlowReads slow_;
};

// About one of 150 reads is slow, which are eight. So the 95th percentile is that of fast reads,
// and the reader waits for hardly any slow one. On a busy machine other hedges may use up their
// share.
TEST_F(SlowServer, AReadThatIsSlowNowAndThenIsHedged) {
  slow_.every = 24;
  const Reading reading = read(1000ms);
  EXPECT_GT(reading.share_decoded, 0.0);
  EXPECT_LE(reading.share_decoded, 0.10);
  EXPECT_LE(reading.num_full_waits, 2);
}

// Every block has a chunk at the slow server, and most of them are data. A reader that decoded all
// of them would double the load of the others.
TEST_F(SlowServer, OneThatIsAlwaysSlowHasAtMostOneOfTenBlocksDecoded) {
  const Reading reading = read(40ms);
  EXPECT_GT(reading.share_decoded, 0.0);
  EXPECT_LE(reading.share_decoded, 0.10);
}

}  // namespace
}  // namespace trireme
