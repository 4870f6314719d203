#pragma once

#include "schema/trainer_practice.h"

namespace trireme {

// Megatron-LM 3.0 (2022), with which the papers on sequence parallelism and on zero-bubble
// schedules were measured: attention stores its scores, a stage waits for its messages, and
// gradients are reduced behind the last one. `practice_of` has the version of today.
TrainerPractice practice_of_megatron_2022();

}  // namespace trireme
