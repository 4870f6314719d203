// A writer of a shared store and metadata that come and go, on a clock of the test.

#include "store/writer_lease.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace trireme {
namespace {

constexpr double kLeaseS = 120.0;
constexpr double kMostAnswerS = 1.5;  // of metadata that can be reached
constexpr double kMostPieceS = 1.0;   // of the work between two chances to renew

// Metadata that cannot be reached from out_from to out_until.
class SimulatedMetadata {
 public:
  explicit SimulatedMetadata(uint64_t seed) : random_(seed) { draw_outage(0.0); }

  double between(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  void work(double seconds) {
    now_s_ += seconds;
    if (now_s_ > out_until_) draw_outage(now_s_);
  }
  // A call begins on time or waits for the end of the outage, and is broken off at its deadline.
  Status renew(double deadline_s) {
    const double begin_s = now_s_;
    const double free_s = begin_s >= out_from_ && begin_s < out_until_ ? out_until_ : begin_s;
    const double answered_s = free_s + between(0.001, kMostAnswerS);
    now_s_ = std::min(answered_s, begin_s + deadline_s);
    if (now_s_ < answered_s) return Error{ErrorKind::Runtime, "no answer"};
    longest_gap_s_ = std::max(longest_gap_s_, now_s_ - renewed_s_);
    renewed_s_ = now_s_;
    return Done{};
  }

  double now_s() const { return now_s_; }
  double longest_gap_s() const { return longest_gap_s_; }
  int num_outages() const { return num_outages_; }
  bool is_out() const { return now_s_ >= out_from_ && now_s_ < out_until_; }

 private:
  void draw_outage(double after_s) {
    out_from_ = after_s + between(30.0, 90.0);
    out_until_ = out_from_ + between(0.1, 90.0);
    ++num_outages_;
  }

  std::mt19937_64 random_;
  double now_s_ = 0.0, out_from_ = 0.0, out_until_ = 0.0;
  double renewed_s_ = 0.0, longest_gap_s_ = 0.0;
  int num_outages_ = 0;
};

// An outage of 90 s is the longest, and the lease has 120 s. The writer is at work for most of an
// outage, and its lease never ends.
TEST(WriterLease, ARenewalBlocksAWriterForSecondsAndKeepsItsLeaseThroughAnOutage) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SimulatedMetadata metadata(seed);
    WriterLease lease(
        kLeaseS, [&](double deadline_s) { return metadata.renew(deadline_s); },
        [&] { return metadata.now_s(); });
    double blocked_s = 0.0, out_s = 0.0;
    while (metadata.now_s() < 3600.0) {
      const bool is_out = metadata.is_out();
      const double piece_s = metadata.between(0.001, kMostPieceS);
      metadata.work(piece_s);
      const double before_s = metadata.now_s();
      ASSERT_TRUE(lease.renew_if_due().ok()) << "seed " << seed;
      const double took_s = metadata.now_s() - before_s;
      ASSERT_LE(took_s, 2.0 + 1e-9) << "seed " << seed << " at " << before_s;
      if (is_out) out_s += piece_s + took_s;
      if (is_out) blocked_s += took_s;
    }
    EXPECT_LE(metadata.longest_gap_s(), kLeaseS) << "seed " << seed;
    // Attempts of two seconds begin two seconds apart; one may begin or end with the outage.
    EXPECT_LE(blocked_s, 0.5 * out_s + 4.0 * metadata.num_outages()) << "seed " << seed;
  }
}

TEST(WriterLease, ATokenThatHasEndedEndsTheWrite) {
  double now_s = 0.0;
  int num_calls = 0;
  WriterLease lease(
      kLeaseS,
      [&](double) -> Status {
        ++num_calls;
        return usage("the token has ended");
      },
      [&] { return now_s; });
  now_s = kLeaseS / 6 - 0.001;
  EXPECT_TRUE(lease.renew_if_due().ok());
  EXPECT_EQ(num_calls, 0);
  now_s = kLeaseS / 6;
  const Status ended = lease.renew_if_due();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().message, "the token has ended");
}

}  // namespace
}  // namespace trireme
