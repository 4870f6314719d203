#include "goodput/expected_share.h"

#include <algorithm>
#include <cmath>

namespace trireme {

double young_interval_s(double save_s, double mttf_s) { return std::sqrt(2.0 * save_s * mttf_s); }

double daly_interval_s(double save_s, double mttf_s) {
  if (save_s >= 2.0 * mttf_s) return mttf_s;
  const double ratio = save_s / (2.0 * mttf_s);
  return young_interval_s(save_s, mttf_s) * (1.0 + std::sqrt(ratio) / 3.0 + ratio / 9.0) - save_s;
}

double lost_by_failures(std::span<const SavePolicy> tiers,
                        std::span<const FailuresOfTier> failures) {
  double lost = 0.0;
  for (size_t i = 0; i < failures.size(); ++i) {
    if (failures[i].per_s == 0.0) continue;  // such a tier may have an infinite interval
    lost +=
        failures[i].per_s * (failures[i].restart_s + tiers[i].delay_s + 0.5 * tiers[i].interval_s);
  }
  return lost;
}

double expected_share(std::span<const SavePolicy> tiers, std::span<const FailuresOfTier> failures) {
  double saving = 0.0;
  for (const SavePolicy& tier : tiers) {
    if (tier.save_s > 0.0) saving += tier.save_s / tier.interval_s;
  }
  return std::max(0.0, 1.0 - lost_by_failures(tiers, failures)) / (1.0 + saving);
}

}  // namespace trireme
