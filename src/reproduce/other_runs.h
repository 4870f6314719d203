#pragma once

#include <vector>

#include "reproduce/published_run.h"

namespace trireme {

// Published runs that no other table holds, by the cluster on which they ran. Each file names the
// publications.

// DGX H100: Megatron-Core.
std::vector<PublishedRun> other_runs_on_h100();

// DGX A100 with one adapter for each device: Megatron-DeepSpeed.
std::vector<PublishedRun> other_runs_on_a100();

// Nodes of A100 with four adapters of 100 Gbit/s: Megatron-DeepSpeed (BLOOM), fms-fsdp.
std::vector<PublishedRun> other_runs_on_a100_of_100_gbit();

// PyTorch FSDP (fms-fsdp) on nodes of A100 with four adapters of 100 Gbit/s, and on nodes of H100
// with two of 400 Gbit/s.
std::vector<PublishedRun> fms_runs_on_a100();
std::vector<PublishedRun> fms_runs_on_h100();

// Nodes of A100 with 40 GB: GPT-NeoX.
std::vector<PublishedRun> other_runs_on_a100_40g();

}  // namespace trireme
