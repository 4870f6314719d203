#pragma once

#include <vector>

#include "base/result.h"
#include "reproduce/published_run.h"
#include "reproduce/reproduction.h"

namespace trireme {

// The published tables. Each file holds the figures of one table with their source, and reproduces
// it. No price was fitted on any of them.

std::vector<PublishedRun> megatron_t1_runs();
Result<Reproduction> reproduce_megatron_t1();

std::vector<PublishedRun> korthikanti_t5_runs();
Result<Reproduction> reproduce_korthikanti_t5();

std::vector<PublishedRun> zero_bubble_t4_runs();
Result<Reproduction> reproduce_zero_bubble_t4();

Result<Reproduction> reproduce_zero_bubble_t5();

std::vector<PublishedRun> vtrain_multi_runs();
Result<Reproduction> reproduce_vtrain_multi();

std::vector<PublishedRun> llm_foundry_80g_runs();
std::vector<PublishedRun> llm_foundry_40g_runs();
Result<Reproduction> reproduce_llm_foundry_a100();

std::vector<PublishedRun> llm_foundry_h100_runs();
Result<Reproduction> reproduce_llm_foundry_h100();

std::vector<PublishedRun> dgxc_gpt3_h100_runs();
Result<Reproduction> reproduce_dgxc_gpt3_h100();

std::vector<PublishedRun> torchtitan_a100_runs();
std::vector<PublishedRun> torchtitan_h100_runs();
Result<Reproduction> reproduce_torchtitan_llama();

// Runs of other trainers and devices, a few of each publication.
Result<Reproduction> reproduce_other_runs();

Result<Reproduction> reproduce_zero_t1();
Result<Reproduction> reproduce_lecture_8xa100();
Result<Reproduction> reproduce_lecture_models();
Result<Reproduction> reproduce_korthikanti_t2();
Result<Reproduction> reproduce_superpod();
Result<Reproduction> reproduce_nccl_all_reduce();

}  // namespace trireme
