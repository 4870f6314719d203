#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

// The programs for which `plan --export` writes a layout. `plan --from` reads the first three.
enum class JobTrainer : uint8_t { Megatron, Torchtitan, Deepspeed, Nanotron, Accelerate };

inline constexpr JobTrainer kTrainers[] = {JobTrainer::Megatron, JobTrainer::Torchtitan,
                                           JobTrainer::Deepspeed, JobTrainer::Nanotron,
                                           JobTrainer::Accelerate};
inline constexpr JobTrainer kReadTrainers[] = {JobTrainer::Megatron, JobTrainer::Torchtitan,
                                               JobTrainer::Deepspeed};

// "megatron": the word of the command line.
constexpr std::string_view name_of(JobTrainer trainer) {
  constexpr std::string_view names[] = {"megatron", "torchtitan", "deepspeed", "nanotron",
                                        "accelerate"};
  return names[static_cast<int>(trainer)];
}

// "Megatron-LM": the name in messages.
constexpr std::string_view title_of(JobTrainer trainer) {
  constexpr std::string_view titles[] = {"Megatron-LM", "torchtitan", "DeepSpeed", "nanotron",
                                         "Accelerate"};
  return titles[static_cast<int>(trainer)];
}

}  // namespace trireme
