#pragma once

#include <cstdint>
#include <span>

namespace trireme {

// A measured run of an MPT model with FSDP that shards everything (ZeRO-3): the tables of
// scripts/train/benchmarking/README.md in mosaicml/llm-foundry (Apache-2.0).
struct LlmFoundryRow {
  const char* model;
  int64_t seq_len;
  int num_ranks;
  int64_t micro_sequences, num_microbatches;
  bool recomputes;
  double tokens_per_s;
};

std::span<const LlmFoundryRow> llm_foundry_rows_80g();
std::span<const LlmFoundryRow> llm_foundry_rows_40g();
std::span<const LlmFoundryRow> llm_foundry_rows_h100();

}  // namespace trireme
