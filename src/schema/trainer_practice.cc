#include "schema/trainer_practice.h"

namespace trireme {
namespace {

// The update of mixed precision with one kernel for all parameters, bytes of a parameter: the
// 16-bit gradient is read and written in fp32 (6), read for the norm (4), and read again with the
// master weight and both moments, which are written (28); then the 16-bit weight is written (2).
constexpr double kMixedUpdateBytes = 40.0;

}  // namespace

TrainerPractice practice_of(TrainerKind trainer) {
  switch (trainer) {
    case TrainerKind::Megatron:
    case TrainerKind::DeepSpeed:  // Megatron-DeepSpeed runs the layers of Megatron-LM
      return {.attention = AttentionPractice::Materialized,
              .fuses_kernels = false,
              .reduces_beside_compute = false,
              .blocks_on_transfers = true,
              .splits_messages = true,
              .recomputes_attention = true,
              .recomputes_whole_layers = true,
              .grad_bytes = 2,
              .update_bytes = kMixedUpdateBytes};
    case TrainerKind::Torchtitan:
      return {.fuses_kernels = false,
              .recomputes_attention = true,
              .recomputes_whole_layers = true,
              .grad_bytes = 4};
  }
  return {};
}

}  // namespace trireme
