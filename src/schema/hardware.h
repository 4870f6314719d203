#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/run_config_fields.h"

namespace trireme {

// A link between ranks: a message of n bytes takes latency + n / bandwidth.
struct LinkSpec {
  double latency_s = 0.0;
  double bytes_per_s = 0.0;  // one way
};

// The speed and memory of a rank's device and of its links. It is measured by `trireme calibrate`
// or described in a file of clusters/ (docs/formats/hardware.md).
struct Hardware {
  std::string name;
  int threads = 1;          // of a rank
  double fp32_flops = 0.0;  // measured or stated peak of one rank with all its threads
  double bf16_flops = 0.0;
  double memory_bytes_per_s = 0.0;
  int64_t memory_bytes = 0;    // of one rank; 0: unknown
  double matmul_share = 0.85;  // share of the ceiling that matmuls of training shapes reach
  double attention_share = 0.6;
  int ranks_per_node = 1;
  LinkSpec inside_node;
  LinkSpec between_nodes;
  double reduce_bytes_per_s = 0.0;  // speed of adding one vector to another
};

// Returns the fields of a hardware file in its order. The pointers are valid as long as `hardware`.
std::vector<ConfigField> hardware_fields(Hardware& hardware);

// Returns the text of the whole file.
std::string to_toml(const Hardware& hardware);

// Returns the values that cannot be used for pricing, one sentence each.
std::vector<std::string> validate(const Hardware& hardware);

}  // namespace trireme
