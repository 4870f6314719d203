// NVIDIA's figures of DGX A100 and H100 SuperPODs of 8 and of 256 devices, as public lectures on
// distributed training show them: PFLOP/s, bisection bandwidth, and the rate at which every device
// can sum a large vector over all of them.

#include <fmt/format.h>

#include <iterator>

#include "compile/link_cost.h"
#include "reproduce/printed_digits.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

struct PodSpec {
  const char* name;
  double device_tflops;
  bool sums_in_switch;                 // so that a device sends its vector once
  double node_gb_per_s, pod_gb_per_s;  // of a device, one way, inside a node and above
};

// A100: 312 TFLOP/s, NVLink of 300 GB/s one way, an adapter of 200 Gbit/s for each device.
// H100: 2 PFLOP/s of FP8, NVLink of 450 GB/s one way, and between nodes half of it.
constexpr PodSpec kPods[] = {
    {"A100", 312.0, false, 300.0, 25.0},
    {"H100", 2000.0, true, 450.0, 225.0},
};

Hardware tiers_of(const PodSpec& pod) {
  Hardware hardware;
  const auto tier = [&](const char* name, int64_t ranks, double gb_per_s) {
    hardware.tiers.push_back({.name = name, .ranks = ranks, .link = {0.0, gb_per_s * 1e9}});
  };
  tier("node", 8, pod.node_gb_per_s);
  tier("pod", 256, pod.pod_gb_per_s);
  return hardware;
}

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

// The table adds up the one-way links of all devices at the outermost tier in use.
double bisection_gb_per_s(const Hardware& pod, int ranks) {
  return ranks * pair_link(pod, 0, ranks - 1).bytes_per_s * 1e-9;
}

// The bound of the lecture: a device sends every byte twice, as an addend and as a sum, or once
// where the switch adds. Prices of runs are finer (compile/collective_price.h).
double reduce_gb_per_s(const PodSpec& pod, int ranks) {
  const double times_sent = pod.sums_in_switch ? 1.0 : 2.0;
  return group_link(tiers_of(pod), {ranks, 1}).bytes_per_s / times_sent * 1e-9;
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
            pod_row(pod, row.ranks, "bisection, GB/s", bisection_gb_per_s(tiers_of(pod), row.ranks),
                    0, row.bisection_gb_per_s[i]),
            pod_row(pod, row.ranks, "all-reduce, GB/s", reduce_gb_per_s(pod, row.ranks), 0,
                    row.reduce_gb_per_s[i])}) {
        result.table.rows.push_back(reproduced);
      }
    }
  }
  return result;
}

}  // namespace trireme
