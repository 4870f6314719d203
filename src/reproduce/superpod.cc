// NVIDIA's figures of DGX A100 and H100 SuperPODs of 8 and of 256 devices, as public lectures on
// distributed training show them: PFLOP/s, bisection bandwidth, and the rate at which every device
// can sum a large vector over all of them.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "reproduce/printed_digits.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

// A tier of links that joins groups of the tier below.
struct PodTier {
  int ranks;        // devices that one group of this tier holds
  double gb_per_s;  // one way, of a device, behind the oversubscription
};

struct PodSpec {
  const char* name;
  double device_tflops;
  bool sums_in_network;  // switches add what passes them, so that a device sends its vector once
  PodTier tiers[2];      // inside a node, and above
};

// A100: 312 TFLOP/s, NVLink of 300 GB/s one way, an adapter of 200 Gbit/s for each device.
// H100: 2 PFLOP/s of FP8, NVLink of 450 GB/s one way, and between nodes half of it.
constexpr PodSpec kPods[] = {
    {"A100", 312.0, false, {{8, 300.0}, {256, 25.0}}},
    {"H100", 2000.0, true, {{8, 450.0}, {256, 225.0}}},
};

// What is published for each of kPods.
struct PodRow {
  int ranks;
  double pflops[2];
  int pflops_digits[2];  // behind the point
  double bisection_gb_per_s[2];
  double reduce_gb_per_s[2];
};

constexpr PodRow kPodRows[] = {
    {8, {2.5, 16}, {1, 0}, {2400, 3600}, {150, 450}},
    {256, {80, 512}, {0, 0}, {6400, 57600}, {100, 450}},
};

std::span<const PodTier> tiers_of(const PodSpec& pod, int ranks) {
  const size_t count = pod.tiers[0].ranks >= ranks ? 1 : 2;
  return {pod.tiers, count};
}

// The table adds up the one-way links of all devices at the outermost tier in use.
double bisection_gb_per_s(const PodSpec& pod, int ranks) {
  return ranks * tiers_of(pod, ranks).back().gb_per_s;
}

// Each tier sums what the tier below has left to a device, one part of the vector for every device
// of a group. A ring sends every part twice, to be summed and to be spread.
double reduce_gb_per_s(const PodSpec& pod, int ranks) {
  const double times_sent = pod.sums_in_network ? 1.0 : 2.0;
  double slowest = std::numeric_limits<double>::infinity();
  int group = 1;
  for (const PodTier& tier : tiers_of(pod, ranks)) {
    slowest = std::min(slowest, group * tier.gb_per_s / times_sent);
    group = tier.ranks;
  }
  return slowest;
}

ReproducedRow pod_row(const PodSpec& pod, int ranks, const char* what, double predicted, int digits,
                      double published) {
  return {.row = fmt::format("{} on {}: {}", pod.name, ranks, what),
          .measured = published,
          .predicted = as_printed(predicted, digits, published)};
}

}  // namespace

Result<Reproduction> reproduce_superpod() {
  Reproduction result;
  result.source = "NVIDIA, DGX A100 and H100 SuperPOD of 256 devices";
  result.table = {.quantity = "rate of all", .unit = "PFLOP/s or GB/s", .digits = 1};
  result.notes = {
      "Peaks are dense bf16 of the A100 and FP8 of the H100, whose 1,979 TFLOP/s are taken as "
      "2,000.",
      "The H100 sums in its switches, so an all-reduce moves its vector once; the A100 does not.",
  };
  for (const PodRow& row : kPodRows) {
    for (size_t i = 0; i < std::size(kPods); ++i) {
      const PodSpec& pod = kPods[i];
      const double pflops = row.ranks * pod.device_tflops / 1e3;
      for (const ReproducedRow& reproduced :
           {pod_row(pod, row.ranks, "PFLOP/s", pflops, row.pflops_digits[i], row.pflops[i]),
            pod_row(pod, row.ranks, "bisection, GB/s", bisection_gb_per_s(pod, row.ranks), 0,
                    row.bisection_gb_per_s[i]),
            pod_row(pod, row.ranks, "all-reduce, GB/s", reduce_gb_per_s(pod, row.ranks), 0,
                    row.reduce_gb_per_s[i])}) {
        result.table.rows.push_back(reproduced);
      }
    }
  }
  return result;
}

}  // namespace trireme
