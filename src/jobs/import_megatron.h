#pragma once

#include "jobs/job_reader.h"

namespace trireme {

// The parts of a job of Megatron-LM. Each function reads its settings, and assigns our keys.

// Family, sizes, vocabulary, activation, positions, attention and further tokens. Returns true if
// the model has experts.
bool read_megatron_model(JobReader& job);
void read_megatron_experts(JobReader& job);
// Ranks, pipeline and its stages, ZeRO, recomputation and offload.
void read_megatron_layout(JobReader& job);

// The width of an MLP that is not made of experts; 0 if the job does not say d_model.
int64_t megatron_dense_d_ff(JobReader& job);

// A number of ranks, 1 if it is absent. Products of three of them do not overflow, whatever the job
// says.
int64_t megatron_degree(JobReader& job, std::string_view key);

// Flags that change neither memory nor time of a step, separated by spaces.
std::string_view megatron_known_flags();

}  // namespace trireme
