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
#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint_index.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice.h"

namespace trireme {

class ThreadTeam;

// What a rank wants of a tensor, whatever the slices are in which it was written.
struct TensorRequest {
  std::string name;
  Shape full_shape;          // must be the checkpoint's
  DType dtype = DType::F32;  // floating-point tensors are converted
  Slice slice;
  void* out = nullptr;  // dense
};

struct LoadOptions {
  int num_threads = 1;
  bool allow_nonfinite = false;  // else a NaN or Inf is refused with its tensor and index
  Progress* progress = nullptr;  // advances with every piece that was read
};

// A checkpoint's folder, opened: the index and the shards' headers have been read and agree, the
// shards are open. Safe to read from several threads.
class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::string& folder);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::string& folder() const { return folder_; }
  const CheckpointInfo& info() const { return index_.info; }
  const CheckpointIndex& index() const { return index_; }
  const StoredTensor* find(std::string_view name) const;  // null when absent

  // Fills every request. The checksum of every slice that is touched is compared once.
  Status read(std::span<const TensorRequest> requests, const LoadOptions& options = {}) const;

  Result<std::string> read_attached(const std::string& name) const;

  // Reads everything and compares all checksums. Returns what is wrong; empty: nothing.
  std::vector<std::string> verify(int num_threads, Progress* progress = nullptr) const;

 private:
  struct PlacedSlice;  // a stored slice with its bytes
  struct ReadJob;
  using NamedSlice = std::pair<const std::string*, const PlacedSlice*>;

  Checkpoint(std::string folder, CheckpointIndex index);
  Status open_shards();
  Status place_slices(const std::string& name, const StoredTensor& tensor);
  Result<ReadJob> make_job(const TensorRequest& request) const;
  // These return "" or what is wrong.
  std::string copy_tile(const ReadJob& job, int64_t begin, int64_t end, bool allow_nonfinite) const;
  std::string check_slice(const std::string& name, const PlacedSlice& placed,
                          Progress* progress) const;
  std::vector<std::string> check_slices(std::span<const NamedSlice> slices, ThreadTeam& team,
                                        Progress* progress) const;

  std::string folder_;
  CheckpointIndex index_;
  std::map<std::string, SafetensorsFile> shards_;
  // Of every tensor, in the index's order of slices.
  std::map<std::string, std::vector<std::unique_ptr<PlacedSlice>>, std::less<>> placed_;
};

struct LatestCheckpoint {
  std::string path;  // "": there is none
  int64_t step = -1;
  std::vector<std::string> skipped;  // newer ones that do not open: path and reason
};

// The newest checkpoint in `root` that opens, of a step below `before_step`. A root that does not
// exist holds none.
Result<LatestCheckpoint> find_latest_checkpoint(const std::string& root,
                                                int64_t before_step = INT64_MAX);

}  // namespace trireme
