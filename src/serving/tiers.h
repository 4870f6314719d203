#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/hardware.h"

namespace trireme {

// A tier of machines, and the link from it to the next one. Data never flow back.
struct Tier {
  std::string name;
  double bytes_per_s = 0.0;  // of the link; 0: there is none
  double price_per_gb = 0.0;
  double latency_s = 0.0;
};

inline constexpr int64_t kMostWorkers = 1'000'000;  // of a kind

// Equal workers of one tier. A worker serves one operator.
struct WorkerKind {
  std::string name;
  int tier = 0;
  int64_t workers = 0;  // that can be had
  double price_per_hour = 0.0;
  double memory_bytes = 0.0;
  std::string cluster;               // hardware file of its device, for language models
  std::string device;                // of a mixed cluster: the label of the device
  std::optional<Hardware> hardware;  // the device
};

// Tiers in the order in which data flow.
struct Tiers {
  std::vector<Tier> tiers;
  std::vector<WorkerKind> kinds;

  int tier_named(const std::string& name) const;  // -1: there is none
};

}  // namespace trireme
