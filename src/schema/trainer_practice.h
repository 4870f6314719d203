#pragma once

#include <cstdint>

namespace trireme {

// How a trainer computes attention. Materialized: the scores of all queries and keys are stored and
// read by several kernels.
enum class AttentionPractice : uint8_t { Fused, Materialized, MaterializedUnfusedSoftmax };

// What differs between trainers in the execution of one and the same layout. The defaults are those
// of this program. Only prices depend on it.
struct TrainerPractice {
  AttentionPractice attention = AttentionPractice::Fused;
  bool fuses_kernels = true;             // residual stream and loss are computed inside products
  bool reduces_beside_compute = true;    // gradients are reduced while others are computed
  bool blocks_on_transfers = false;      // a stage waits for what it sends and receives
  bool splits_messages = false;          // tp ranks each send a part of what stages exchange
  bool recomputes_attention = false;     // recompute = "selective" means the core of attention
  bool recomputes_whole_layers = false;  // recompute = "full" runs every op of a layer again
  int grad_bytes = 4;                    // of a gradient that is reduced
  double update_bytes = 0.0;             // of a parameter, moved by the update; 0: by the tables

  friend bool operator==(const TrainerPractice&, const TrainerPractice&) = default;
};

}  // namespace trireme
