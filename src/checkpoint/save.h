#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
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

// A part of a tensor that a rank writes. The data are borrowed, dense, and written from where they
// are. Tensors have the name of the logical parameter ("layers.3.attn.wq"); optimizer state adds a
// prefix ("exp_avg/layers.3.attn.wq", "exp_avg_sq/...", "master/..."). So a checkpoint does not
// depend on the layout that wrote it. A replicated tensor is written by one rank.
struct TensorPiece {
  std::string name;
  Shape full_shape;  // of the whole tensor
  DType dtype = DType::F32;
  Slice slice;  // the elements in this piece
  const void* data = nullptr;
  // XXH3-64 of the data if they were hashed before, see copy_pieces; a save fails if they changed.
  std::optional<uint64_t> checksum = std::nullopt;
};

// A small file beside the tensors: config.resolved.toml, tokenizer.json.
struct AttachedFile {
  std::string name;
  std::string content;
};

struct SaveOptions {
  // Verified checkpoints to keep, see apply_retention; 0: keeps all and reads none.
  int64_t keep = 3;
  int64_t max_shard_bytes = int64_t{4} << 30;       // a larger piece has its own shard
  Progress* progress = nullptr;                     // shows every call that may take long
  const std::atomic<bool>* is_abandoned = nullptr;  // if it becomes true, writing ends early
  // Decides whether this writer may make the finished checkpoint visible: it calls its argument,
  // which does so, or returns the reason against it. Empty: the writer always may.
  std::function<Status(const std::function<Status()>&)> publish = {};
};

// Several ranks save a checkpoint as follows:
// rank 0:      folder = begin_checkpoint(root, step), sent to all ranks
// every rank:  part = write_shards(folder, rank, pieces), sent to rank 0 as print_index_part
// rank 0:      commit_checkpoint(folder, ...) with all parts, or abandon_checkpoint(folder)
// The caller does the exchange. The checkpoint does not exist before the commit, and wherever a
// save ends, the previous checkpoint can still be loaded.

// Removes what interrupted saves have left in `root` and makes an empty temporary folder. Creates
// `root` if necessary, but not its parent folder: a run whose folder is lost must not make another
// one. Returns the path of the temporary folder.
Result<std::string> begin_checkpoint(const std::string& root, int64_t step,
                                     const SaveOptions& options = {});

// The name of a shard of a rank, from 0.
std::string shard_file_name(int rank, int number);
// The length of the file that write_shards makes of the pieces if they all lie in one shard; 0 if
// it makes none.
int64_t shard_bytes(std::span<const TensorPiece> pieces);

// Writes the pieces into shard files of this rank and syncs each file.
Result<IndexPart> write_shards(const std::string& folder, int rank,
                               std::span<const TensorPiece> pieces,
                               const SaveOptions& options = {});

// Writes the attached files and the index, renames the folder to root/step-NNNNNN (replacing an
// older one), then applies options.keep. Returns the path. If the parts do not cover every tensor
// exactly once it fails and leaves nothing.
Result<std::string> commit_checkpoint(const std::string& folder, const CheckpointInfo& info,
                                      std::span<const AttachedFile> attached,
                                      std::span<const IndexPart> parts,
                                      const SaveOptions& options = {});

// The two halves of commit_checkpoint. The first one writes all that is missing in the folder, the
// second one makes the checkpoint visible. If one of them fails, nothing is left.
Status finish_checkpoint(const std::string& folder, const CheckpointInfo& info,
                         std::span<const AttachedFile> attached, std::span<const IndexPart> parts,
                         const SaveOptions& options = {});
Result<std::string> publish_checkpoint(const std::string& folder, int64_t step,
                                       const SaveOptions& options = {});

// Removes a temporary folder, even while other ranks still write in it; their writes then fail.
void abandon_checkpoint(const std::string& folder);

// Saves a whole checkpoint from a single rank. Returns its path.
Result<std::string> save_checkpoint(const std::string& root, const CheckpointInfo& info,
                                    std::span<const AttachedFile> attached,
                                    std::span<const TensorPiece> pieces,
                                    const SaveOptions& options = {});

}  // namespace trireme
