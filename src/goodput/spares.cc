#include "goodput/spares.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trireme {
namespace {

constexpr double kPercentile = 0.99;
constexpr double kLeastProbability = 1e-12;  // smaller ones change no percentile

// The probabilities of 0, 1, 2, ... units in repair, up to the last one that counts.
std::vector<double> binomial(int64_t units, double share) {
  if (units == 0 || share <= 0.0) return {1.0};
  std::vector<double> probabilities;
  const double n = double(units), mean = n * share;
  for (int64_t k = 0; k <= units; ++k) {
    const double log_choose =
        std::lgamma(n + 1.0) - std::lgamma(double(k) + 1.0) - std::lgamma(n - double(k) + 1.0);
    const double probability =
        std::exp(log_choose + double(k) * std::log(share) + (n - double(k)) * std::log1p(-share));
    probabilities.push_back(probability);
    if (double(k) > mean && probability < kLeastProbability) break;
  }
  return probabilities;
}

// The probabilities of `a` hosts and `b` units of `hosts_of_unit` hosts.
std::vector<double> together(const std::vector<double>& a, const std::vector<double>& b,
                             int64_t hosts_of_unit) {
  std::vector<double> sum(a.size() + (b.size() - 1) * size_t(hosts_of_unit), 0.0);
  for (size_t k = 0; k < b.size(); ++k) {
    for (size_t i = 0; i < a.size(); ++i) sum[i + k * size_t(hosts_of_unit)] += a[i] * b[k];
  }
  return sum;
}

}  // namespace

Spares spares_of_job(const FailureRates& rates, int64_t devices) {
  const int64_t hosts = rates.hosts_of(devices);
  const double repair_days = rates.repair_hours / 24.0;
  double of_hosts = 0.0, of_racks = 0.0, of_pods = 0.0;  // failures per day
  for (const JobCause& cause : causes_of_job(rates, devices)) {
    if (cause.domain == FailureDomain::Process) continue;
    (cause.domain == FailureDomain::Rack  ? of_racks
     : cause.domain == FailureDomain::Pod ? of_pods
                                          : of_hosts) += cause.per_day;
  }
  Spares spares;
  std::vector<double> in_repair = {1.0};
  const auto add = [&](double per_day, int64_t hosts_of_unit) {
    const int64_t size = std::min(hosts_of_unit, hosts);
    const int64_t units = (hosts + size - 1) / size;
    const double failures = per_day / double(units) * repair_days;
    const double share = failures / (1.0 + failures);
    in_repair = together(in_repair, binomial(units, share), size);
    spares.mean_in_repair += double(units * size) * share;
  };
  add(of_hosts, 1);
  add(of_racks, rates.hosts_per_rack);
  add(of_pods, rates.hosts_per_pod);
  double below = 0.0;
  for (const double probability : in_repair) {
    below += probability;
    if (below >= kPercentile) break;
    ++spares.hosts;
  }
  spares.hosts = std::min(spares.hosts, int64_t(in_repair.size()) - 1);
  return spares;
}

}  // namespace trireme
