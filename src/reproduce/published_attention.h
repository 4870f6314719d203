#pragma once

#include "schema/trainer_practice.h"

// Speeds of attention kernels that published runs used and that are not those of the files of
// clusters/. All are shares of the peak over long sequences with a causal mask.
namespace trireme {

// FlashAttention-2 on H100, where it uses nothing that is new in the device.
void use_flash_attention_2_on_h100(TrainerPractice& practice);

// The first FlashAttention in Triton.
void use_triton_attention_on_a100(TrainerPractice& practice);
void use_triton_attention_on_h100(TrainerPractice& practice);

}  // namespace trireme
