#include "autoparallel/cluster_stages.h"

#include <algorithm>
#include <set>

namespace trireme {
namespace {

PlannedRun run_on(const PlannedRun& of_all, int device, double memory_bytes) {
  PlannedRun run = of_all;
  run.hardware = of_all.hardware.all_of_device(device);
  run.memory_bytes = memory_bytes;
  return run;
}

std::vector<int> devices_of_ranks(const PlannedRun& run) {
  std::vector<int> device_of;
  for (int rank = 0; rank < run.num_ranks; ++rank) {
    device_of.push_back(run.hardware.device_of(rank));
  }
  return device_of;
}

// Returns the sets of devices that neighbouring ranks have. That of the first rank comes first.
std::vector<std::vector<int>> sets_of_devices(const std::vector<int>& device_of) {
  std::vector<std::vector<int>> sets;
  for (size_t first = 0; first < device_of.size(); ++first) {
    if (first > 0 && device_of[first] == device_of[first - 1]) continue;
    std::set<int> devices;
    for (size_t rank = first; rank < device_of.size(); ++rank) {
      if (!devices.insert(device_of[rank]).second) continue;
      std::vector<int> rising(devices.begin(), devices.end());
      if (std::find(sets.begin(), sets.end(), rising) == sets.end()) sets.push_back(rising);
    }
  }
  return sets;
}

}  // namespace

double memory_of_device(const PlannedRun& run, int device) {
  const int64_t own = run.hardware.all_of_device(device).memory_bytes;
  const bool counts = run.hardware.is_mixed() && own > 0;
  return counts ? std::min(run.memory_bytes, double(own)) : run.memory_bytes;
}

ClusterStages::OfDevice::OfDevice(const PlannedRun& of_all, int device, double memory_bytes,
                                  int64_t sequences, double same_bytes)
    : run(run_on(of_all, device, memory_bytes)), search(run, sequences, same_bytes) {}

ClusterStages::ClusterStages(const PlannedRun& run, int64_t sequences, double same_bytes)
    : sequences_(sequences), device_of_(devices_of_ranks(run)), next_change_(device_of_.size()) {
  for (int rank = run.num_ranks - 1, next = run.num_ranks; rank >= 0; --rank) {
    next_change_[size_t(rank)] = next;
    if (rank > 0 && device_of_[size_t(rank)] != device_of_[size_t(rank) - 1]) next = rank;
  }
  for (std::vector<int>& devices : sets_of_devices(device_of_)) {
    mixes_.push_back(searches_of(run, devices, sequences, same_bytes));
    number_of_.emplace(std::move(devices), int(number_of_.size()));
  }
}

std::vector<ClusterStages::OfDevice*> ClusterStages::searches_of(const PlannedRun& run,
                                                                 const std::vector<int>& devices,
                                                                 int64_t sequences,
                                                                 double same_bytes) {
  double least_bytes = run.memory_bytes;
  for (const int device : devices) {
    least_bytes = std::min(least_bytes, memory_of_device(run, device));
  }
  std::vector<OfDevice*> searches;
  for (const int device : devices) {
    std::unique_ptr<OfDevice>& search = of_devices_[{device, least_bytes}];
    if (!search)
      search = std::make_unique<OfDevice>(run, device, least_bytes, sequences, same_bytes);
    searches.push_back(search.get());
  }
  return searches;
}

int ClusterStages::mix_of(int first_rank, int num_ranks) const {
  std::set<int> devices;
  for (int rank = first_rank; rank < first_rank + num_ranks; rank = next_change_[size_t(rank)]) {
    devices.insert(device_of_[size_t(rank)]);
  }
  return number_of_.at({devices.begin(), devices.end()});
}

double ClusterStages::best_seconds(int mix, int first_unit, int last_unit, int num_ranks,
                                   int in_flight) {
  double slowest_s = 0.0;
  for (OfDevice* device : mixes_[size_t(mix)]) {
    slowest_s = std::max(slowest_s,
                         device->search.best_seconds(first_unit, last_unit, num_ranks, in_flight));
  }
  return slowest_s;
}

void ClusterStages::leave_out_above(double step_s, const std::vector<int>& mesh_sizes) {
  if (num_mixes() > 1) return;
  mixes_.front().front()->search.leave_out_above(step_s, mesh_sizes);
}

SecondsBounds ClusterStages::bounds(int mix, int first_unit, int last_unit, int num_ranks,
                                    int in_flight) {
  SecondsBounds slowest{0.0, 0.0};
  for (OfDevice* device : mixes_[size_t(mix)]) {
    const SecondsBounds own = device->search.bounds(first_unit, last_unit, num_ranks, in_flight);
    slowest.lower = std::max(slowest.lower, own.lower);
    slowest.upper = std::max(slowest.upper, own.upper);
  }
  return slowest;
}

std::optional<StagePlan> ClusterStages::best(int mix, int first_unit, int last_unit, int num_ranks,
                                             int in_flight) {
  std::optional<StagePlan> slowest;
  for (OfDevice* device : mixes_[size_t(mix)]) {
    auto stage = device->search.best(first_unit, last_unit, num_ranks, in_flight);
    if (!stage) return std::nullopt;
    if (!slowest || stage->seconds > slowest->seconds) slowest = std::move(stage);
  }
  return slowest;
}

std::optional<StagePlan> ClusterStages::uniform_stage(int mix, const StageSearch::Uniform& uniform,
                                                      int first_unit, int last_unit,
                                                      int in_flight) {
  std::optional<StagePlan> slowest;
  for (OfDevice* device : mixes_[size_t(mix)]) {
    auto stage = device->search.uniform_stage(uniform, first_unit, last_unit, in_flight);
    if (!stage || stage->bytes > device->run.memory_bytes) return std::nullopt;
    if (!slowest || stage->seconds > slowest->seconds) slowest = std::move(stage);
  }
  return slowest;
}

StageSearch& ClusterStages::slowest_search(int first_rank, const StagePlan& stage) {
  const std::vector<OfDevice*>& devices = mixes_[size_t(mix_of(first_rank, stage.num_ranks))];
  if (devices.size() == 1) return devices.front()->search;
  const auto seconds_on = [&](OfDevice* device) {
    return device->search.best_seconds(stage.first_unit, stage.first_unit + stage.num_units - 1,
                                       stage.num_ranks, stage.in_flight);
  };
  return (*std::max_element(
              devices.begin(), devices.end(),
              [&](OfDevice* a, OfDevice* b) { return seconds_on(a) < seconds_on(b); }))
      ->search;
}

double ClusterStages::uniform_seconds(int mix, const StageSearch::Uniform& uniform, int unit) {
  double slowest_s = 0.0;
  for (OfDevice* device : mixes_[size_t(mix)]) {
    const auto stage = device->search.uniform_stage(uniform, unit, unit, 1);
    slowest_s = std::max(slowest_s, stage ? stage->seconds : kImpossible);
  }
  return slowest_s;
}

}  // namespace trireme
