#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/shape.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice.h"

namespace trireme {

// Where a run stands, beside its tensors.
struct CheckpointInfo {
  int64_t step = 0;         // steps done
  int64_t next_sample = 0;  // global number of the next sample: with the seed, the data position
  int64_t tokens_seen = 0;
  uint64_t seed = 0;
  std::string data_identity;  // hash of the training tokens, so that other data are noticed
  std::string optimizer;      // "adamw"
  std::map<std::string, double> optimizer_scalars;  // finite: updates done, loss scale, ...
};

// Part of a tensor, dense, in a shard file.
struct StoredSlice {
  Slice slice;
  std::string file;
  int64_t offset = 0;     // bytes from the file's start
  uint64_t checksum = 0;  // XXH3-64 of its bytes
};

struct StoredTensor {
  DType dtype = DType::F32;
  Shape shape;                      // of the whole tensor
  std::vector<StoredSlice> slices;  // in a complete index: disjoint, and together the tensor
};

struct StoredFile {
  int64_t bytes = 0;
  uint64_t checksum = 0;  // XXH3-64: of a shard's header, of an attached file's content
};

// What one rank wrote. Goes to rank 0 as text.
struct IndexPart {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, StoredFile> shards;
};

struct CheckpointIndex {
  CheckpointInfo info;
  IndexPart contents;
  std::map<std::string, StoredFile> attached;  // config.resolved.toml, tokenizer.json, ...
};

inline constexpr int kCheckpointVersion = 1;

// index.json ends with a checksum of all that stands before it (docs/formats/checkpoint.md).
std::string print_index(const CheckpointIndex& index);
// Refuses what is damaged, of another version, or does not describe every tensor exactly once.
Result<CheckpointIndex> parse_index(std::string_view text);

std::string print_index_part(const IndexPart& part);
Result<IndexPart> parse_index_part(std::string_view text);

// Adds what another rank wrote. Fails when the two disagree about a tensor or share a file name.
Status merge_index_part(IndexPart& contents, const IndexPart& part);

// How a slice appears in its shard: a whole tensor under its name and shape, so that any reader of
// safetensors finds it; a part as "wq[0:4, 8:16]" or "wq{4096:8192}".
SafetensorsSpec spec_in_shard(const std::string& name, DType dtype, const Shape& full_shape,
                              const Slice& slice);

// "step-000010"; -1 for a name that is not of this form.
std::string step_folder_name(int64_t step);
int64_t step_of_folder_name(std::string_view name);

}  // namespace trireme
