#include "predict/disturbances.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "base/philox.h"

namespace trireme {
namespace {

constexpr double kMostSigma = 1.0;   // a third of the times are then off by a factor of e or more
constexpr double kMostFactor = 1e6;  // a rank slower than that has failed

Status check_slow_ranks(const std::vector<SlowedRank>& ranks, int num_ranks) {
  std::set<int> named;
  for (const SlowedRank& rank : ranks) {
    const std::string option = fmt::format("--slow-rank {}={}", rank.position, rank.factor);
    if (rank.position < 0 || rank.position >= num_ranks) {
      return usage(
          fmt::format("{}: the plan has ranks 0 to {}; name one of them", option, num_ranks - 1));
    }
    if (!(rank.factor >= 1.0 && rank.factor <= kMostFactor)) {
      return usage(fmt::format(
          "{}: the factor says how many times as long the rank computes, from 1 to {:g}; write it "
          "such as --slow-rank {}=1.3",
          option, kMostFactor, rank.position));
    }
    if (!named.insert(rank.position).second) {
      return usage(
          fmt::format("{}: rank {} is named twice; give it one factor", option, rank.position));
    }
  }
  return Done{};
}

Status check_slow_links(const std::vector<SlowLink>& links, const Hardware& hardware) {
  std::set<std::string> named;
  std::vector<std::string> tiers;
  for (const LinkTier& tier : hardware.tiers) tiers.push_back(tier.name);
  for (const SlowLink& link : links) {
    const std::string option = fmt::format("--slow-link {}={}", link.tier, link.share);
    if (std::find(tiers.begin(), tiers.end(), link.tier) == tiers.end()) {
      const std::string known = tiers.empty()
                                    ? "it has no tiers; describe them in a file for --cluster"
                                    : fmt::format("its tiers are {}", fmt::join(tiers, ", "));
      return usage(
          fmt::format("{}: {} has no tier of this name; {}", option, hardware.name, known));
    }
    if (!(link.share > 0.0 && link.share <= 1.0)) {
      return usage(fmt::format(
          "{}: the share is what remains of the tier's bandwidth, above 0 and at most 1; write it "
          "such as --slow-link {}=0.5",
          option, link.tier));
    }
    if (!named.insert(link.tier).second) {
      return usage(fmt::format("{}: tier {} is named twice; give it one share", option, link.tier));
    }
  }
  return Done{};
}

// A number in (0, 1].
float uniform(uint32_t word) { return float((double(word) + 0.5) * 0x1p-32); }

}  // namespace

Status check_disturbances(const Disturbances& disturbances, int num_ranks,
                          const Hardware& hardware) {
  TRIREME_TRY_DONE(check_slow_ranks(disturbances.ranks, num_ranks));
  TRIREME_TRY_DONE(check_slow_links(disturbances.links, hardware));
  const double sigma = disturbances.jitter.sigma;
  if (sigma >= 0.0 && sigma <= kMostSigma) return Done{};
  return usage(fmt::format(
      "--jitter {}: the relative deviation of an action's time must be from 0 to {:g}; write it "
      "such as --jitter 0.05",
      sigma, kMostSigma));
}

Hardware with_slow_links(Hardware hardware, const std::vector<SlowLink>& links) {
  for (const SlowLink& link : links) {
    const auto tier = std::find_if(hardware.tiers.begin(), hardware.tiers.end(),
                                   [&](const LinkTier& one) { return one.name == link.tier; });
    TRIREME_CHECK(tier != hardware.tiers.end(), "no tier " + link.tier);
    tier->link.bytes_per_s *= link.share;
  }
  return hardware;
}

// The method of Box and Muller: two random words give two normal numbers. A block of the generator
// has four words. Single precision is more than what is known of the times, and twice as fast.
void fill_jitter(const Jitter& jitter, int position, std::span<double> factors) {
  std::fill(factors.begin(), factors.end(), 1.0);
  if (jitter.sigma == 0.0) return;
  const RngKey key = rng_key(jitter.seed, "jitter");
  const float sigma = float(jitter.sigma);
  const auto factor = [&](float z) { return double(std::exp(sigma * (z - 0.5f * sigma))); };
  PhiloxCounter words = {};
  for (size_t i = 0; i < factors.size(); i += 2) {
    if (i % 4 == 0) words = philox(key, counter_of(uint64_t(position), i / 4));
    const float radius = std::sqrt(-2.0f * std::log(uniform(words[i % 4])));
    const float angle = 2.0f * std::numbers::pi_v<float> * uniform(words[i % 4 + 1]);
    factors[i] = factor(radius * std::cos(angle));
    if (i + 1 < factors.size()) factors[i + 1] = factor(radius * std::sin(angle));
  }
}

}  // namespace trireme
