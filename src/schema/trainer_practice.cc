#include "schema/trainer_practice.h"

#include <algorithm>
#include <iterator>

namespace trireme {
namespace {

constexpr std::string_view kNames[] = {"trireme", "megatron", "deepspeed", "torchtitan"};

// The update of mixed precision with one kernel for all parameters, bytes of a parameter: the 16-bit
// gradient is read and written in fp32 (6), read for the norm (4), and read again with the master
// weight and both moments, which are written (28); then the 16-bit weight is written (2).
constexpr double kMixedUpdateBytes = 40.0;

}  // namespace

TrainerPractice practice_of(TrainerKind trainer) {
  switch (trainer) {
    case TrainerKind::Trireme:
      return {};
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
      return {.fuses_kernels = false, .recomputes_attention = true, .recomputes_whole_layers = true};
  }
  return {};
}

std::string_view name_of(TrainerKind trainer) { return kNames[size_t(trainer)]; }

std::optional<TrainerKind> trainer_of(std::string_view name) {
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return TrainerKind(found - std::begin(kNames));
}

std::vector<std::string_view> trainer_names() {
  return {std::begin(kNames), std::end(kNames)};
}

}  // namespace trireme
