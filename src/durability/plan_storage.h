#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "durability/draw_losses.h"
#include "durability/storage_cluster.h"
#include "schema/parity_code.h"

namespace trireme {

// What a run asks of the storage.
struct CheckpointTraffic {
  int64_t ranks = 1;
  double save_bytes = 0.0;     // of a checkpoint
  double restore_bytes = 0.0;  // that all ranks together read to resume
  double step_s = 0.0;
  double interval_s = 0.0;  // between two saves, as configured; 0: only at the end
};

// The time of a save and of a restore, if the storage does nothing else.
struct TransferTimes {
  double save_s = 0.0;
  double restore_s = 0.0;
};

// What a cluster gives with one code.
struct CodeOnCluster {
  ParityCode code;
  double stored_bytes = 0.0;       // on disks, for a byte of a file: (k + m) / k
  double capacity_bytes = 0.0;     // of files
  double write_bytes_per_s = 0.0;  // of files, for long; reads have the speed of the cluster
  double repair_share = 0.0;       // of the time in which repair works; from 1 on all is lost
  DrawnLosses drawn;
  LossRate chain;
  double lost_share_per_year = 0.0;  // of the bytes, as drawn
  TransferTimes sustained, peak;     // 0 without a run
  double busy_share = 0.0;           // of the sustained speed that saves take; 0: no interval
  int64_t least_steps = 0;           // between two saves that do not overlap; 0 without a run

  bool keeps_up() const { return repair_share < 1.0; }
  // The probability of the loss of at least one block in a year.
  double loss_in_a_year() const { return keeps_up() ? drawn.rate.in_a_year() : 1.0; }
  double chain_loss_in_a_year() const { return keeps_up() ? chain.in_a_year() : 1.0; }
};

struct StorageQuestion {
  StorageCluster cluster;
  std::vector<ParityCode> codes;
  std::optional<CheckpointTraffic> traffic;
  uint64_t seed = 1;
  int64_t samples = 100'000;
};

struct StoragePlan {
  StorageQuestion question;
  std::vector<CodeOnCluster> codes;  // in the order of the question
};

// Refuses a code that needs more failure domains than the cluster has.
Result<StoragePlan> plan_storage(const StorageQuestion& question);

}  // namespace trireme
