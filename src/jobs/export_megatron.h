#pragma once

#include "jobs/job_writer.h"

namespace trireme {

// The parts of a job of Megatron-LM about the model. Each function writes settings, and refuses
// what they cannot express.

// Family, sizes, vocabulary, activation, positions, attention and further tokens.
void write_megatron_model(JobWriter& job);
// Nothing for a model without experts.
void write_megatron_experts(JobWriter& job);

}  // namespace trireme
