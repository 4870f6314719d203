#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/progress.h"
#include "base/result.h"
#include "base/shape.h"
#include "checkpoint/checkpoint_index.h"
#include "checkpoint/slice.h"

namespace trireme {

// What a rank holds of a tensor: borrowed, dense, written straight from where it lies. Tensors are
// named by the logical parameter ("layers.3.attn.wq"), its optimizer state with a prefix
// ("exp_avg/layers.3.attn.wq", "exp_avg_sq/...", "master/..."), so that a checkpoint does not
// depend on the layout that wrote it. A replicated tensor is written by one rank.
struct TensorPiece {
  std::string name;
  Shape full_shape;  // of the whole tensor
  DType dtype = DType::F32;
  Slice slice;  // which of its elements
  const void* data = nullptr;
};

// A small file kept with the tensors: config.resolved.toml, tokenizer.json.
struct AttachedFile {
  std::string name;
  std::string content;
};

struct SaveOptions {
  int64_t keep = 3;  // verified checkpoints that stay, see apply_retention; 0: all, none is read
  int64_t max_shard_bytes = int64_t{4} << 30;  // a larger piece has a shard of its own
  Progress* progress = nullptr;                // is shown every call that may take long
};

// A save by several ranks is
//   rank 0:      folder = begin_checkpoint(root, step), sent to all ranks
//   every rank:  part = write_shards(folder, rank, pieces), sent to rank 0 as print_index_part
//   rank 0:      commit_checkpoint(folder, ...) with all parts, or abandon_checkpoint(folder)
// The exchange is the caller's. Until the commit the checkpoint does not exist, and at whichever
// point it ends, the one before stays loadable.

// Removes what saves that did not end have left in `root` and makes an empty temporary folder.
// `root` is created if need be, but not the folder that it lies in: a run whose folder is gone must
// not make another one. Returns the folder's path.
Result<std::string> begin_checkpoint(const std::string& root, int64_t step,
                                     const SaveOptions& options = {});

// Writes the pieces into shard files of this rank, each synced.
Result<IndexPart> write_shards(const std::string& folder, int rank,
                               std::span<const TensorPiece> pieces,
                               const SaveOptions& options = {});

// Writes the attached files and the index, renames the folder to root/step-NNNNNN (replacing one of
// that name), then applies options.keep. Returns the path.
// Fails, and leaves nothing, when the parts do not make every tensor whole exactly once.
Result<std::string> commit_checkpoint(const std::string& folder, const CheckpointInfo& info,
                                      std::span<const AttachedFile> attached,
                                      std::span<const IndexPart> parts,
                                      const SaveOptions& options = {});

// Removes a temporary folder, also while other ranks still write in it: they fail.
void abandon_checkpoint(const std::string& folder);

// All of it, for a single rank. Returns the path of the checkpoint.
Result<std::string> save_checkpoint(const std::string& root, const CheckpointInfo& info,
                                    std::span<const AttachedFile> attached,
                                    std::span<const TensorPiece> pieces,
                                    const SaveOptions& options = {});

}  // namespace trireme
