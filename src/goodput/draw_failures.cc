#include "goodput/draw_failures.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "base/philox.h"

namespace trireme {
namespace {

constexpr int kOrdinary = -1;  // a host that is no lemon

bool is_of_one_host(const JobCause& cause) {
  return cause.domain == FailureDomain::Device || cause.domain == FailureDomain::Host;
}

// A number in (0, 1).
double uniform(uint32_t word) { return (double(word) + 0.5) * 0x1p-32; }

// The hosts of the job: in use, standing by, and in repair. A host is kOrdinary or the number of a
// lemon.
class Hosts {
 public:
  explicit Hosts(const FailingJob& job)
      : drain_after_(job.lemon_drain_after),
        repair_s_(job.repair_s),
        spares_(size_t(job.spares), kOrdinary) {
    const auto num_lemons = int64_t(std::lround(job.lemon_share * double(job.hosts)));
    ordinary_ = job.hosts - num_lemons;
    for (int lemon = 0; lemon < num_lemons; ++lemon) lemons_.push_back(lemon);
    failures_.resize(size_t(num_lemons));
  }

  double lemons() const { return double(lemons_.size()); }
  double ordinary() const { return double(ordinary_); }

  // One of the lemons in use fails; `which` in (0, 1) chooses it. Returns how long the job waits.
  double lose_lemon(double which, double now) {
    const size_t place = std::min(size_t(which * lemons()), lemons_.size() - 1);
    const int lemon = lemons_[place];
    lemons_[place] = lemons_.back();
    lemons_.pop_back();
    const bool is_drained = drain_after_ > 0 && ++failures_[size_t(lemon)] >= drain_after_;
    repairs_.emplace(now + repair_s_, is_drained ? kOrdinary : lemon);
    return replace(1, now);
  }

  double lose_ordinary(int64_t count, double now) {
    count = std::min(count, ordinary_);
    ordinary_ -= count;
    for (int64_t i = 0; i < count; ++i) repairs_.emplace(now + repair_s_, kOrdinary);
    return replace(count, now);
  }

 private:
  void take_repaired() {
    spares_.push_back(repairs_.top().second);
    repairs_.pop();
  }
  double replace(int64_t count, double now) {
    while (!repairs_.empty() && repairs_.top().first <= now) take_repaired();
    double ready_at = now;
    while (int64_t(spares_.size()) < count) {
      ready_at = repairs_.top().first;
      take_repaired();
    }
    for (; count > 0; --count) {
      if (spares_.back() == kOrdinary) {
        ++ordinary_;
      } else {
        lemons_.push_back(spares_.back());
      }
      spares_.pop_back();
    }
    return ready_at - now;
  }

  int64_t drain_after_ = 0;
  double repair_s_ = 0.0;
  int64_t ordinary_ = 0;
  std::vector<int> lemons_;               // in use
  std::vector<int64_t> failures_;         // of each lemon
  std::vector<int> spares_;               // those that were repaired last are taken first
  using Repair = std::pair<double, int>;  // when it ends, and of which host
  std::priority_queue<Repair, std::vector<Repair>, std::greater<>> repairs_;
};

// Causes of one kind, to choose one by its rate.
struct CauseGroup {
  std::vector<int> causes;
  std::vector<double> up_to;  // sums of the rates per second

  double rate() const { return up_to.empty() ? 0.0 : up_to.back(); }
  void add(int cause, double per_s) {
    causes.push_back(cause);
    up_to.push_back(rate() + per_s);
  }
  int choose(double share) const {
    const auto found = std::upper_bound(up_to.begin(), up_to.end(), share * rate());
    return causes[std::min(size_t(found - up_to.begin()), causes.size() - 1)];
  }
};

int64_t hosts_taken(const FailingJob& job, FailureDomain domain) {
  switch (domain) {
    case FailureDomain::Process:
      return 0;
    case FailureDomain::Device:
    case FailureDomain::Host:
      return 1;
    case FailureDomain::Rack:
      return job.hosts_per_rack;
    case FailureDomain::Pod:
      return job.hosts_per_pod;
  }
  return 0;
}

}  // namespace

FailingJob failing_job(const FailureRates& rates, int64_t devices, int64_t spares) {
  return {.causes = causes_of_job(rates, devices),
          .hosts = rates.hosts_of(devices),
          .hosts_per_rack = rates.hosts_per_rack,
          .hosts_per_pod = rates.hosts_per_pod,
          .spares = spares,
          .repair_s = rates.repair_hours * 3600.0,
          .lemon_share = rates.lemon_share,
          .lemon_factor = rates.lemon_factor,
          .lemon_drain_after = rates.lemon_drain_after};
}

std::vector<FailureEvent> draw_failures(const FailingJob& job, double seconds, uint64_t seed) {
  CauseGroup of_hosts, others;
  for (int i = 0; i < int(job.causes.size()); ++i) {
    const JobCause& cause = job.causes[size_t(i)];
    if (cause.per_day <= 0.0) continue;
    (is_of_one_host(cause) ? of_hosts : others).add(i, cause.per_day / kSecondsOfDay);
  }
  Hosts hosts(job);
  const auto weight = [&] { return hosts.ordinary() + job.lemon_factor * hosts.lemons(); };
  const double weight_at_start = weight();
  const RngKey key = rng_key(seed, "failures");
  std::vector<FailureEvent> events;
  double now = 0.0;
  for (uint64_t number = 0;; ++number) {
    const double host_rate = of_hosts.rate() * weight() / weight_at_start;
    const double rate = host_rate + others.rate();
    if (rate <= 0.0) return events;
    const PhiloxCounter words = philox(key, counter_of(number, 0));
    now -= std::log(uniform(words[0])) / rate;
    if (now >= seconds) return events;
    const double which = uniform(words[1]) * rate;
    FailureEvent event{.at_s = now};
    if (which >= host_rate) {
      event.cause = others.choose((which - host_rate) / others.rate());
      const FailureDomain domain = job.causes[size_t(event.cause)].domain;
      event.wait_s = hosts.lose_ordinary(hosts_taken(job, domain), now);
    } else {
      event.cause = of_hosts.choose(which / host_rate);
      const bool is_lemon = uniform(words[2]) * weight() < job.lemon_factor * hosts.lemons();
      event.wait_s =
          is_lemon ? hosts.lose_lemon(uniform(words[3]), now) : hosts.lose_ordinary(1, now);
    }
    events.push_back(event);
  }
}

}  // namespace trireme
