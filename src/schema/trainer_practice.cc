#include "schema/trainer_practice.h"

#include "schema/earlier_megatron.h"

namespace trireme {
namespace {

// The update of mixed precision, bytes of a parameter: the 16-bit gradient is read and written in
// fp32 (6), scaled back in place and checked for infinities (8), read for the norm (4) and clipped
// in place (8). One kernel reads it with the master weight and both moments, which it writes (28).
// The master weight is copied to the 16-bit weight (6), and the gradient is set to zero (2).
constexpr double kMixedUpdateBytes = 62.0;

// The update where products add gradients in fp32, bytes of a parameter: the gradient is read for
// the norm (4), clipped in place (8), and read with the master weight and both moments, which are
// written (28); the master weight is copied to 16 bits (6), and the gradient is set to zero (4).
constexpr double kFp32GradUpdateBytes = 50.0;

// A 16-bit gradient is added to that of the micro-batches before: two are read, one is written.
constexpr double kAddedGradBytes = 6.0;

// Fully sharded data parallelism copies gathered parameters to their places before F and before B
// (4 each), and a 16-bit gradient as fp32 to the buffer that is reduced (6).
constexpr double kShardedCopyBytes = 14.0;

// The update of PyTorch that runs one kernel for all tensors and every operation ("foreach", the
// default on devices), bytes of a parameter in fp32: the gradient is read for the norm (4) and
// clipped in place (8). The weight decays (8); the first moment takes a part of the gradient (12);
// the second decays (8) and takes its square (12), whose root (8) is divided (8) and raised (8),
// and the quotient is added to the weight (16). torch/optim/adamw.py of pytorch/pytorch 2.3.
constexpr double kForeachUpdateBytes = 92.0;

}  // namespace

TrainerPractice practice_of_megatron_2021() {
  return {.attention = AttentionPractice::Materialized,
          .fuses_kernels = false,
          .fuses_dropout_add = true,
          .reduces_beside_compute = false,
          .blocks_on_transfers = true,
          .splits_messages = true,
          .selective = SelectivePractice::Attention,
          .recomputes_whole_layers = true,
          .grad_bytes = 2,
          .grad_copy_bytes = kAddedGradBytes,
          .update_bytes = kMixedUpdateBytes};
}

TrainerPractice practice_of_megatron_2022() {
  TrainerPractice practice = practice_of_megatron_2021();
  practice.hides_tp_sums = true;
  practice.grad_copy_bytes = 0.0;  // the product adds the gradient itself
  return practice;
}

TrainerPractice practice_of(TrainerKind trainer) {
  switch (trainer) {
    case TrainerKind::Megatron:  // Megatron-Core since 2023, with the flags of an exported job
      return {.fuses_kernels = false,
              .fuses_dropout_add = true,
              .splits_messages = true,
              .selective = SelectivePractice::Attention,
              .recomputes_whole_layers = true,
              .hides_tp_sums = true,
              .grad_bytes = 4,
              .update_bytes = kFp32GradUpdateBytes};
    case TrainerKind::DeepSpeed:  // Megatron-DeepSpeed runs the layers of the earlier Megatron-LM
      return practice_of_megatron_2021();
    case TrainerKind::Torchtitan:
      return {.fuses_kernels = false,
              .runs_ops_apart = true,  // torch.compile is off by default
              .runs_products_apart = true,
              .repeats_key_heads = true,
              .selective = SelectivePractice::EveryOtherProduct,
              .recomputes_whole_layers = true,
              .stops_recompute_early = true,
              .grad_bytes = 4,
              .grad_copy_bytes = kShardedCopyBytes,
              .update_bytes = kForeachUpdateBytes};
  }
  return {};
}

}  // namespace trireme
