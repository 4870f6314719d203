#pragma once

#include <string>

#include "autoparallel/planned_run.h"

namespace trireme {

// Words about the stages of a plan by op, for its text, its JSON and its picture.

// Returns the units from `first` on, such as "embedding, layers 0 to 5".
std::string units_text(const PlannedRun& run, int first, int count);
// The ranks of a stage.
struct RanksOfStage {
  std::string devices;  // their names and nodes if the cluster is mixed, else ""
  double memory_bytes;  // of the rank that has the least
};
RanksOfStage ranks_of_stage(const PlannedRun& run, int first_rank, int num_ranks);
// Returns what a stage needs and what its ranks have, such as "79.5 GiB of 80.0 GiB"; only the
// first if the memory of a rank is unknown.
std::string memory_text(const StagePlan& stage, const RanksOfStage& ranks);
// Returns what is done with the state of a unit and what it computes again, such as "ZeRO 3".
std::string sharding_text(const UnitWay& way);
// Returns what the units of a kind are called, such as "6 layers" or "head".
std::string unit_text(const OpGroups& groups, const PlacedUnits& units);
// True if two stages differ only in their ranks and layers.
bool are_alike(const StagePlan& a, const StagePlan& b);

}  // namespace trireme
