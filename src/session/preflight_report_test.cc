#include "session/preflight_report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

// Returns a report of ranks and links that differ by less than kOddFactor.
PreflightReport alike(int ranks) {
  PreflightReport report;
  for (int rank = 0; rank < ranks; ++rank) {
    const double wobble = 1.0 + 0.1 * double(rank % 3);
    report.ranks.push_back(
        {rank, fmt::format("h{}", rank), 1e11 * wobble, 1e10 / wobble, 1e9 * wobble});
    for (int peer = 0; peer < rank; ++peer)
      report.links.push_back({peer, rank, 2e9 * wobble, 1e-5});
  }
  return report;
}

TEST(Preflight, NamesNobodyWhoseNumbersAreLikeThoseOfOthers) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    EXPECT_TRUE(odd_ones(alike(ranks)).empty()) << ranks;
    EXPECT_NE(preflight_json(alike(ranks)).find("\"good\": true"), std::string::npos);
  }
}

TEST(Preflight, NamesTheOneThatIsSlowerByItsKindWithTheMedianAndTheFactor) {
  for (const int ranks : {3, 4, 8}) {
    for (int slow = 0; slow < ranks; ++slow) {
      const auto expect = [&](const char* what, PreflightReport report) {
        const std::vector<OddOne> odd = odd_ones(report);
        ASSERT_EQ(odd.size(), 1u) << what << " of rank " << slow << " of " << ranks;
        EXPECT_EQ(odd[0].what, what);
        EXPECT_EQ(odd[0].rank, slow);
        EXPECT_EQ(odd[0].host, report.ranks[size_t(slow)].host);
        EXPECT_GT(odd[0].factor(), 3.0);
        EXPECT_NE(preflight_text(report).find(fmt::format("odd   rank {}", slow)),
                  std::string::npos);
      };
      PreflightReport report = alike(ranks);
      report.ranks[size_t(slow)].flops_per_s /= 5;
      expect("compute", report);
      report = alike(ranks);
      report.ranks[size_t(slow)].memory_bytes_per_s /= 5;
      expect("memory", report);
      report = alike(ranks);
      report.ranks[size_t(slow)].disk_bytes_per_s /= 5;
      expect("disk", report);
      report = alike(ranks);
      for (PreflightLink& link : report.links) {
        if (link.a == slow || link.b == slow) link.bytes_per_s /= 20;
      }
      expect("link", report);
    }
  }
}

TEST(Preflight, NamesASlowLinkBetweenTwoRanksThatAreFast) {
  PreflightReport report = alike(6);
  report.links[4].bytes_per_s /= 20;
  const std::vector<OddOne> odd = odd_ones(report);
  ASSERT_EQ(odd.size(), 1u);
  EXPECT_EQ(odd[0].rank, report.links[4].a);
  EXPECT_EQ(odd[0].peer, report.links[4].b);
}

TEST(Preflight, OfTwoNamesTheOneThatIsMuchSlower) {
  PreflightReport report = alike(2);
  report.ranks[1].flops_per_s /= 4;
  const std::vector<OddOne> odd = odd_ones(report);
  ASSERT_EQ(odd.size(), 1u);
  EXPECT_EQ(odd[0].rank, 1);
}

}  // namespace
}  // namespace trireme
