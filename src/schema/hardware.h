#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/link_tier.h"
#include "schema/node_map.h"
#include "schema/run_config_fields.h"
#include "schema/trainer_practice.h"

namespace trireme {

struct OtherDevice;

// The speed and memory of a rank's device and of its links. It is measured by `trireme calibrate`
// or described in a file of clusters/ (docs/formats/hardware.md). docs/prices.md has the formulas
// in which these numbers stand.
struct Hardware {
  std::string name;
  int threads = 1;          // of a rank
  double fp32_flops = 0.0;  // measured or stated peak of one rank with all its threads
  double bf16_flops = 0.0;
  double fp16_flops = 0.0;
  double memory_bytes_per_s = 0.0;
  int64_t memory_bytes = 0;  // of one rank; 0: unknown
  // Multiprocessors over which a product's tiles are dealt out; 0: products have no tiles that
  // count.
  int multiprocessors = 0;
  // Fused attention computes whole tiles of so many queries and keys, in fp32; 0: causal pairs,
  // in the dtype of the run.
  int attention_tile = 0;

  // The free numbers, fitted to single kernels and collectives.
  double matmul_share = 0.85;  // share of the peak that large products reach
  double matmul_depth = 0.0;   // a product of depth k takes the time of one of k + this
  // FLOPs per second that products in 16 bits sustain under the device's power limit, which lowers
  // its clock; 0: the limit does not bind.
  double sustained_flops = 0.0;
  // At which a product moves its operands and its result before and behind its FLOPs, as a
  // processor does; 0: while it computes.
  double matmul_bytes_per_s = 0.0;
  double attention_share = 0.6;           // share of the peak that fused attention reaches
  double attention_backward_share = 0.0;  // and its backward pass; 0: the same
  double memory_share = 1.0;              // share of memory_bytes_per_s that other kernels reach
  double vector_share = 0.0;  // share of fp32_flops that they reach; 0: they only move bytes
  double launch_s = 0.0;      // of a kernel, by the host, or on a processor by its threads
  double collective_s = 0.0;  // time of a collective beside its messages
  double background_s = 0.0;  // more of a transfer that another thread makes on the same core
  // Of a core, for each byte that a rank sends to other ranks while it receives as many. Compute
  // that runs beside a transfer on the same core lasts so much longer.
  double core_s_per_byte = 0.0;
  double step_s = 0.0;            // time of a step that no kernel accounts for
  double reduce_bytes_per_s = 0;  // speed of adding one vector to another
  double overlap_share = 0.0;     // of the compute, that a collective beside it takes
  // Of a rank, read or written, through which memory.offload moves its data: the disk here, the
  // link to the host's memory on a cluster of other devices. 0: unknown, and not priced.
  double offload_bytes_per_s = 0;
  double offload_write_bytes_per_s = 0;  // of what is written; 0: as fast as what is read
  // Share of their speed that the compute and the moving of this data lose while both run: on a
  // processor they share the cores.
  double offload_share = 0.0;

  // What a long run needs beside time (planner/token_cost.h); 0: unknown, and not told.
  double watts = 0;       // of one device at work
  double mtbf_hours = 0;  // of one device: mean time between failures that stop a run
  double restart_s = 0;   // from a failure to the next step

  std::vector<LinkTier> tiers;  // innermost first

  // Other devices of a mixed cluster, by their first ranks. Empty: all ranks have this device.
  std::vector<OtherDevice> others;

  // How the trainer that runs on the device executes a model. Not part of a file.
  TrainerPractice practice;

  // Which ranks share memory.
  NodeMap nodes() const;
  // Describes nodes of `ranks` ranks, and the links between nodes if there are any.
  void set_nodes(int64_t ranks, LinkSpec inside, LinkSpec between = {});
  // Bytes per second that memory.offload writes.
  double offload_write_speed() const {
    return offload_write_bytes_per_s > 0.0 ? offload_write_bytes_per_s : offload_bytes_per_s;
  }
  // Peak of products of the dtype: F32, BF16 or F16.
  double peak_flops(DType compute) const;
  // FLOPs per second of deep products of the dtype under the power limit.
  double product_flops(DType compute) const;

  // True if threads do everything themselves, one after the other: launch a kernel, move its data,
  // compute. On other devices these times overlap.
  bool is_processor() const { return matmul_bytes_per_s > 0.0; }

  bool is_mixed() const;
  int num_devices() const;
  // The number of a rank's device: 0 is this one, n is others[n - 1].
  int device_of(int position) const;
  int64_t ranks_of_device(int device, int64_t num_ranks) const;  // of a run of so many ranks
  // Returns the cluster as if every rank had the device of this number, on nodes of its kind.
  Hardware all_of_device(int device) const;
  // Returns the cluster as if every node had so many ranks, one of the sizes of its nodes.
  Hardware on_equal_nodes(int64_t ranks_per_node) const;
  int64_t most_memory_bytes() const;  // of the device that has the most
};

// A device of a mixed cluster and the neighbouring ranks that have it, which fill whole nodes.
struct OtherDevice {
  std::string label;  // the name of its table, [devices.LABEL]
  int64_t first_rank = 0;
  int64_t ranks = 0;           // 0: all behind the first one
  int64_t ranks_per_node = 0;  // 0: as many as the innermost tier says
  Hardware device;             // only the numbers of device_fields differ from the cluster's
};

// Returns the fields of a hardware file in its order, those of the tiers last. The pointers are
// valid as long as `hardware` and its tiers.
std::vector<ConfigField> hardware_fields(Hardware& hardware);
std::vector<ConfigField> tier_fields(LinkTier& tier);
// Returns the fields of a table [devices.LABEL]: the ranks that have the device, and the numbers
// that may differ from device to device. All others describe the cluster.
std::vector<ConfigField> device_fields(OtherDevice& other);

// Returns the text of the whole file.
std::string to_toml(const Hardware& hardware);

// Returns the values that cannot be used for pricing, one sentence each.
std::vector<std::string> validate(const Hardware& hardware);

}  // namespace trireme
