#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/sample_range.h"
#include "base/shape.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice.h"

namespace trireme {

// The position of a run, beside its tensors.
struct CheckpointInfo {
  int64_t step = 0;         // steps done
  int64_t next_sample = 0;  // global number of the next sample, which is the data position
  int64_t tokens_seen = 0;
  std::vector<SampleRange> left_out = {};  // samples on which the run does not train
  uint64_t seed = 0;
  std::string data_identity;  // hash of the training tokens, to notice other data
  std::string optimizer;      // such as "adamw"
  std::map<std::string, double> optimizer_scalars;  // finite values: updates done, loss scale, ...
};

// A part of a tensor, stored dense in a shard file.
struct StoredSlice {
  Slice slice;
  std::string file;
  int64_t offset = 0;     // bytes from the start of the file
  uint64_t checksum = 0;  // XXH3-64 of its bytes
};

struct StoredTensor {
  DType dtype = DType::F32;
  Shape shape;                      // of the whole tensor
  std::vector<StoredSlice> slices;  // in a complete index they are disjoint and cover the tensor
};

struct StoredFile {
  int64_t bytes = 0;
  uint64_t checksum = 0;  // XXH3-64 of a shard's header or of an attached file's content
};

// The shards and tensors that one rank has written. It is sent to rank 0 as text.
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

// index.json ends with a checksum of everything before it (docs/formats/checkpoint.md).
std::string print_index(const CheckpointIndex& index);
// It is an error if the index is damaged, has another version, or does not cover every tensor
// exactly once.
Result<CheckpointIndex> parse_index(std::string_view text);

// Prints the indexes of checkpoints that differ only in their checksums and positions, as those of
// one run in memory do. Shards and tensors are printed once, and every index fills in checksums.
class IndexTemplate {
 public:
  // Every slice has a number in place of its checksum: 0, 1, ... in any order.
  explicit IndexTemplate(const IndexPart& numbered);

  // `checksums`: of the slices, by number. The text is that of print_index.
  std::string print(const CheckpointInfo& info, const std::map<std::string, StoredFile>& attached,
                    std::span<const uint64_t> checksums) const;

 private:
  std::string contents_;
  std::vector<size_t> places_;  // in contents_, by number
};

std::string print_index_part(const IndexPart& part);
Result<IndexPart> parse_index_part(std::string_view text);

// Adds what another rank has written. It is an error if the two disagree about a tensor or share a
// file name.
Status merge_index_part(IndexPart& contents, const IndexPart& part);

// Describes a slice in its shard. A whole tensor has its own name and shape, so that any reader of
// safetensors finds it. A part has a name such as "wq[0:4, 8:16]" or "wq{4096:8192}".
SafetensorsSpec spec_in_shard(const std::string& name, DType dtype, const Shape& full_shape,
                              const Slice& slice);

// Returns "step-000010". step_of_folder_name is the reverse; it returns -1 for any other name.
std::string step_folder_name(int64_t step);
int64_t step_of_folder_name(std::string_view name);

}  // namespace trireme
