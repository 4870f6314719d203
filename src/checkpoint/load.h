#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/input_file.h"
#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint_index.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice.h"

namespace trireme {

class ThreadTeam;

// The part of a tensor that a rank wants. It may differ from the slices that were written.
struct TensorRequest {
  std::string name;
  Shape full_shape;          // must be that of the checkpoint
  DType dtype = DType::F32;  // floating-point tensors are converted to it
  Slice slice;
  void* out = nullptr;  // dense
};

struct LoadOptions {
  int num_threads = 1;
  bool allow_nonfinite = false;  // if false, a NaN or Inf is refused with its tensor and index
  Progress* progress = nullptr;  // advances with every piece that is read
};

// An open checkpoint folder. Opening reads the index and the headers of the shards, checks that
// they agree, and keeps the shards open. Several threads may read from it.
class Checkpoint {
 public:
  // `open_input` opens the files of a folder that is not on this machine, such as one of a store.
  static Result<Checkpoint> open(const std::string& folder, const OpenInput& open_input = {});
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::string& folder() const { return folder_; }
  const CheckpointInfo& info() const { return index_.info; }
  const CheckpointIndex& index() const { return index_; }
  const StoredTensor* find(std::string_view name) const;  // null if absent

  // Fulfils every request. The checksum of every slice that is needed is checked once.
  Status read(std::span<const TensorRequest> requests, const LoadOptions& options = {}) const;

  Result<std::string> read_attached(const std::string& name) const;

  // Reads everything and checks all checksums. Returns the problems; empty if there are none.
  std::vector<std::string> verify(int num_threads, Progress* progress = nullptr) const;

 private:
  struct PlacedSlice;  // a stored slice with its bytes
  struct ReadJob;
  using NamedSlice = std::pair<const std::string*, const PlacedSlice*>;

  Checkpoint(std::string folder, CheckpointIndex index, OpenInput open_input);
  Status open_shards();
  Status place_slices(const std::string& name, const StoredTensor& tensor);
  Result<ReadJob> make_job(const TensorRequest& request) const;
  // These return "" or the problem.
  std::string copy_tile(const ReadJob& job, int64_t begin, int64_t end, bool allow_nonfinite) const;
  std::string check_slice(const std::string& name, const PlacedSlice& placed,
                          Progress* progress) const;
  std::vector<std::string> check_slices(std::span<const NamedSlice> slices, ThreadTeam& team,
                                        Progress* progress) const;

  std::string folder_;
  CheckpointIndex index_;
  OpenInput open_input_;
  std::map<std::string, SafetensorsFile> shards_;
  // The slices of every tensor, in the order of the index.
  std::map<std::string, std::vector<std::unique_ptr<PlacedSlice>>, std::less<>> placed_;
};

struct LatestCheckpoint {
  std::string path;  // "": there is none
  int64_t step = -1;
  std::vector<std::string> skipped;  // newer checkpoints that do not open: path and reason
};

// Finds the newest checkpoint in `root` that opens and has a step below `before_step`. If `root`
// does not exist it contains none.
Result<LatestCheckpoint> find_latest_checkpoint(const std::string& root,
                                                int64_t before_step = INT64_MAX);

}  // namespace trireme
