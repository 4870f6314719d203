#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace trireme {

// How a trainer computes attention. Materialized: the scores of all queries and keys are stored,
// and several kernels read and write them.
enum class AttentionPractice : uint8_t { Fused, Materialized, MaterializedUnfusedSoftmax };

// What recompute = "selective" computes again in a layer. EveryOtherProduct: everything except
// attention and the first, third, fifth and so on of its matrix products.
enum class SelectivePractice : uint8_t { NormsAndActivations, Attention, EveryOtherProduct };

// What differs between trainers in the execution of the same layout. The defaults are those of this
// program. Only prices depend on it.
struct TrainerPractice {
  AttentionPractice attention = AttentionPractice::Fused;
  // Of the peak, that its fused kernel reaches, and its backward pass; 0: those of the device, and
  // the same share in both.
  double attention_share = 0.0, attention_backward_share = 0.0;
  bool fuses_kernels = true;       // the residual stream and the loss are computed inside products
  bool fuses_dropout_add = false;  // if not fuses_kernels: one kernel drops and adds the stream
  bool runs_ops_apart = false;     // rotary positions and SwiGLU are several kernels each
  bool runs_norms_apart = false;   // so is an RMS norm
  // Products of the same input are a product each, and their gradients of it are added.
  bool runs_products_apart = false;
  bool repeats_key_heads = false;      // keys and values are copied for every head that reads them
  bool reduces_beside_compute = true;  // gradients are reduced while others are computed
  bool blocks_on_transfers = false;    // a stage waits for what it sends and receives
  bool blocks_on_launches = false;     // the host waits for every kernel before the next
  bool splits_messages = false;        // each tp rank sends a part of what stages exchange
  SelectivePractice selective = SelectivePractice::NormsAndActivations;
  bool recomputes_whole_layers = false;  // recompute = "full": every op of a layer
  bool stops_recompute_early = false;    // then: not behind the last value that B and W need
  bool hides_tp_sums = false;  // sums of input gradients over tp run beside weight gradients
  int grad_bytes = 0;          // of a gradient that is reduced; 0: those of our tables
  // Bytes of a parameter that other kernels move in every micro-batch once a product has written
  // its gradient: they add it to earlier ones, or copy it for its reduction.
  double grad_copy_bytes = 0.0;
  double update_bytes = 0.0;  // of a parameter, moved by the update; 0: those of our tables
  int update_launches = 0;    // kernels that the update launches for each flat tensor of a unit

  // Bytes of a gradient that is reduced, where ours have this dtype.
  int64_t bytes_of_grad(DType ours) const { return grad_bytes > 0 ? grad_bytes : size_of(ours); }

  friend bool operator==(const TrainerPractice&, const TrainerPractice&) = default;
};

// Other programs that train. Each keeps other copies of the parameters and other activations, and
// executes a layout in another way.
enum class TrainerKind : uint8_t { Megatron, Torchtitan, DeepSpeed };
TrainerPractice practice_of(TrainerKind trainer);

// Megatron-LM before version 3.0 (2022), which waits for every sum over tp and adds gradients by
// kernels of their own.
TrainerPractice practice_of_megatron_2021();

}  // namespace trireme
