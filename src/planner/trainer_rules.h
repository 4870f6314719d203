#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schema/model_spec.h"
#include "schema/stage_shape.h"
#include "schema/trainer_practice.h"

namespace trireme {

std::string_view name_of(TrainerKind trainer);
// A Usage error names the nearest trainer.
Result<TrainerKind> trainer_named(std::string_view name);

// Bytes of a parameter that are stored all the time, before they are shared out.
struct StateBytes {
  double params = 0.0;
  double grads = 0.0;
  double optimizer = 0.0;

  // What each of `ranks` data-parallel ranks stores: level 1 shares out the optimizer's state,
  // level 2 also gradients, level 3 also parameters (ZeRO, Rajbhandari et al. 2020).
  StateBytes shared(int zero, int ranks) const;
  double total() const { return params + grads + optimizer; }
};

// 16-bit parameters and gradients, fp32 master weights and moments: the ZeRO paper.
inline constexpr StateBytes kZeroPaperState{2, 2, 12};
// The same with moments of 16 bits.
inline constexpr StateBytes kBf16MomentState{2, 2, 8};

// What a trainer keeps.
struct TrainerRules {
  StateBytes state;
  int most_zero = 3;                // highest level of ZeRO that it has
  bool rebuilds_blocks = false;     // level 3 holds whole blocks while they compute
  bool offloads_optimizer = false;  // to the memory of the host: moments and master weights
  bool offloads_all = false;        // also parameters and gradients; blocks come back to compute
  bool stores_scores = false;       // attention without a fused kernel
  bool fuses_gate = true;           // false: SwiGLU also keeps the activated gate
  // recompute = "selective" keeps the output of every second product, beginning with the first.
  bool keeps_every_other_product = false;
};
TrainerRules rules_of(TrainerKind trainer);

// Megatron-LM before fused attention: what the papers of 2022 and 2023 measured.
TrainerRules megatron_with_scores();

// One kind of value that a layer keeps from its forward to its backward pass.
struct KeptActivation {
  std::string_view name;
  double bytes_per_token = 0.0;
  enum class Cut : uint8_t { Sequence, Tensor } cut = Cut::Sequence;  // over tp: which parts
  bool is_score = false;  // grows with the square of the sequence
};

// What a layer keeps without recomputation, at 16 bits, before anything is cut.
std::vector<KeptActivation> kept_by_layer(const ModelSpec& model, const TrainerRules& rules);
// What it keeps with recompute = "selective".
std::vector<KeptActivation> kept_with_selective(const ModelSpec& model, const TrainerRules& rules);

// Bytes that one rank keeps of a layer for one micro-batch, with the recomputation of `shape`.
double kept_bytes(const ModelSpec& model, const TrainerRules& rules, const StageShape& shape);

// Of what B finds of a layer, the share that W needs: inputs of matrix products and the gradients
// of their outputs.
double share_held_for_weights(const ModelSpec& model, const TrainerRules& rules);

}  // namespace trireme
