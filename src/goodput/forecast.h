#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "goodput/simulate_job.h"
#include "goodput/spares.h"

namespace trireme {

// The job whose effective share is forecast.
struct GoodputQuestion {
  FailureRates rates;
  int64_t devices = 1;
  double days = 54.0;
  double step_s = 1.0;         // no tier saves more often than once a step
  double disk_save_s = 0.0;    // for which training waits at a save on disk
  double disk_delay_s = 0.0;   // from then until the checkpoint can be used
  double memory_save_s = 0.0;  // for which training waits at a save in memory
  bool has_memory_tier = false;
  double disk_interval_s = 0.0;    // as it is configured; 0: only at the end
  double memory_interval_s = 0.0;  // as it is configured
  uint64_t seed = 1;
  int most_runs = 1000;
};

struct TierIntervals {
  double memory_s = 0.0;
  double disk_s = 0.0;
};

struct MttfOfSize {
  int64_t devices = 0;
  double mttf_s = 0.0;
  double published_s = 0.0;  // 0: the source has none for this size
};

struct ShareOfInterval {
  double interval_s = 0.0;
  double simulated = 0.0;
  double formula = 0.0;
};

// What the failures of one cause cost in the mean of all simulated runs.
struct CauseCost {
  JobCause cause;
  double count = 0.0;  // by the rate
  double simulated_count = 0.0;
  double down_s = 0.0;
  double redone_s = 0.0;

  double lost_s() const { return down_s + redone_s; }
};

// A change that would raise the effective share, and by how much.
struct GoodputChange {
  std::string change;
  double share = 0.0;
  double gain = 0.0;
};

struct GoodputForecast {
  GoodputQuestion question;
  double mttf_s = 0.0;
  int64_t hosts = 0;
  Spares spares;
  std::vector<MttfOfSize> by_size;

  TierIntervals young, daly, simulated;
  std::vector<ShareOfInterval> curve;  // over the interval of the more frequent tier in use

  // With the intervals `simulated`.
  std::vector<double> shares;  // effective share of every simulated run, sorted
  double mean = 0.0;
  double formula = 0.0;
  bool formula_holds = false;  // a failure rarely falls into the recovery from another one
  double saving_share = 0.0, down_share = 0.0, redone_share = 0.0;
  std::vector<CauseCost> by_cause;

  // With the intervals as configured; absent: the run saves only at its end.
  struct Configured {
    TierIntervals intervals;
    double mean = 0.0;
    double formula = 0.0;
  };
  std::optional<Configured> configured;
  std::vector<GoodputChange> changes;  // greatest gain first

  double percentile(double share_of_runs) const;
  double device_hours(double seconds) const { return seconds / 3600.0 * double(question.devices); }
};

// Refuses a question whose simulation would be endless.
Result<GoodputForecast> forecast_goodput(const GoodputQuestion& question);

}  // namespace trireme
