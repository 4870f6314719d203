#pragma once

#include <cstdint>

#include "goodput/failure_rates.h"

namespace trireme {

// Hosts that should stand by, so that a job rarely waits for a repair.
struct Spares {
  int64_t hosts = 0;            // 99th percentile of the hosts that are in repair at once
  double mean_in_repair = 0.0;  // hosts
};

// The number of hosts (of racks, of pods) in repair is binomial: each is in repair for the share
// r / (1 + r) of the time, r its failures in the time of a repair. Hosts that are lost by racks and
// pods are added as whole racks and pods.
Spares spares_of_job(const FailureRates& rates, int64_t devices);

}  // namespace trireme
