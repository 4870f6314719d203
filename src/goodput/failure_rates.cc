#include "goodput/failure_rates.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

constexpr double kHoursOfDay = 24.0;

// Failures per day that were measured for jobs of this size: a power law between two measured
// sizes, proportional to the size below the smallest, and constant above the largest, because
// nobody has measured there. 0: none were measured.
double measured_per_day(const std::vector<PublishedMttf>& points, int64_t devices) {
  if (points.empty()) return 0.0;
  const PublishedMttf& first = points.front();
  const PublishedMttf& last = points.back();
  if (devices <= first.devices) {
    return kHoursOfDay / first.hours * double(devices) / double(first.devices);
  }
  if (devices >= last.devices) return kHoursOfDay / last.hours;
  const auto above = std::find_if(points.begin(), points.end(), [&](const PublishedMttf& point) {
    return point.devices >= devices;
  });
  const auto below = above - 1;
  const double share = std::log(double(devices) / double(below->devices)) /
                       std::log(double(above->devices) / double(below->devices));
  return kHoursOfDay / (below->hours * std::pow(above->hours / below->hours, share));
}

}  // namespace

int64_t FailureRates::hosts_of(int64_t devices) const {
  return (devices + devices_per_host - 1) / devices_per_host;
}

std::vector<JobCause> causes_of_job(const FailureRates& rates, int64_t devices) {
  const double hosts = double(rates.hosts_of(devices));
  std::vector<JobCause> causes;
  for (const FailureCause& cause : rates.causes) {
    causes.push_back({.name = cause.name,
                      .failure_class = cause.failure_class,
                      .domain = cause.domain,
                      .per_day = cause.per_host_day * hosts + cause.per_day,
                      .restart_s = cause.restart_s > 0.0 ? cause.restart_s : rates.restart_s});
  }
  const double unnamed = measured_per_day(rates.published, devices) - failures_per_day(causes);
  if (unnamed > 0.0) {
    causes.push_back({.name = "other interruptions",
                      .failure_class = FailureClass::Unknown,
                      .domain = FailureDomain::Process,
                      .per_day = unnamed,
                      .restart_s = rates.restart_s});
  }
  return causes;
}

double failures_per_day(const std::vector<JobCause>& causes) {
  double sum = 0.0;
  for (const JobCause& cause : causes) sum += cause.per_day;
  return sum;
}

double mttf_s(const FailureRates& rates, int64_t devices) {
  const double per_day = failures_per_day(causes_of_job(rates, devices));
  return per_day > 0.0 ? kSecondsOfDay / per_day : std::numeric_limits<double>::infinity();
}

}  // namespace trireme
