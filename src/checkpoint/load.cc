#include "checkpoint/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/nearest_name.h"
#include "checkpoint/convert.h"
#include "device/thread_team.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Number of elements of a request that one thread copies at a time.
constexpr int64_t kTile = int64_t{1} << 20;
// Bytes that are read from a file at a time. They stay in the cache until they are used.
constexpr int64_t kWindowBytes = int64_t{256} << 10;

// Returns the index of an element of the flattened tensor, such as "[3, 17]".
std::string index_text(int64_t flat, const Shape& shape) {
  std::string text;
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    text = std::to_string(flat % shape[dim]) + (text.empty() ? "" : ", ") + text;
    flat /= shape[dim];
  }
  return "[" + text + "]";
}

// The bytes of a stored slice, for callers that ask for them in ascending order. It reads some
// bytes ahead, so that short runs share a read.
class SliceWindow {
 public:
  SliceWindow(const SafetensorsFile& shard, const SafetensorsEntry& entry)
      : shard_(shard), entry_(entry) {}

  // `length` is at most kWindowBytes. The pointer is valid until the next call.
  Result<const std::byte*> at(int64_t begin, int64_t length) {
    if (begin < begin_ || begin + length > end_) {
      const int64_t end = std::min(begin + kWindowBytes, entry_.end - entry_.begin);
      bytes_.resize(static_cast<size_t>(std::max<int64_t>(end - begin, bytes_.size())));
      TRIREME_TRY_DONE(
          shard_.read(entry_, begin, std::span(bytes_).first(static_cast<size_t>(end - begin))));
      begin_ = begin;
      end_ = end;
    }
    return static_cast<const std::byte*>(bytes_.data() + (begin - begin_));
  }

 private:
  const SafetensorsFile& shard_;
  const SafetensorsEntry& entry_;
  std::vector<std::byte> bytes_;
  int64_t begin_ = 0;  // first byte of the slice in bytes_
  int64_t end_ = 0;
};

Result<CheckpointIndex> read_index(const std::string& folder, const OpenInput& open_input) {
  const std::string path = folder + "/index.json";
  TRIREME_TRY(file, open_named(path, open_input));
  TRIREME_TRY(text, file.read_all());
  auto index = parse_index(text);
  if (!index.ok()) return with_context(index.error(), path);
  return index;
}

}  // namespace

struct Checkpoint::PlacedSlice {
  const StoredSlice* stored = nullptr;
  SliceRuns runs;
  const SafetensorsFile* shard = nullptr;
  const SafetensorsEntry* entry = nullptr;
  mutable std::atomic<bool> checked = false;

  int64_t bytes() const { return entry->end - entry->begin; }
};

struct Checkpoint::ReadJob {
  const TensorRequest* request = nullptr;
  DType stored_dtype = DType::F32;
  SliceRuns runs;
  std::vector<const PlacedSlice*> slices;  // slices that overlap the request
};

Checkpoint::Checkpoint(std::string folder, CheckpointIndex index, OpenInput open_input)
    : folder_(std::move(folder)), index_(std::move(index)), open_input_(std::move(open_input)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Result<Checkpoint> Checkpoint::open(const std::string& folder, const OpenInput& open_input) {
  TRIREME_TRY(index, read_index(folder, open_input));
  Checkpoint checkpoint(folder, std::move(index), open_input);
  TRIREME_TRY_DONE(checkpoint.open_shards());
  for (const auto& [name, tensor] : checkpoint.index_.contents.tensors) {
    TRIREME_TRY_DONE(checkpoint.place_slices(name, tensor));
  }
  return checkpoint;
}

Status Checkpoint::open_shards() {
  for (const auto& [name, stored] : index_.contents.shards) {
    TRIREME_TRY(input, open_named(folder_ + "/" + name, open_input_));
    TRIREME_TRY(file, SafetensorsFile::open(std::move(input)));
    if (file.bytes() != stored.bytes) {
      return damaged(
          fmt::format("{}: {} bytes, the index says {}", file.path(), file.bytes(), stored.bytes));
    }
    if (file.header_checksum() != stored.checksum) {
      return damaged(file.path() + ": the header does not match its checksum in the index");
    }
    shards_.emplace(name, std::move(file));
  }
  for (const auto& [name, stored] : index_.attached) {
    TRIREME_TRY(file, open_named(folder_ + "/" + name, open_input_));
    if (file.bytes() != stored.bytes) {
      return damaged(
          fmt::format("{}: {} bytes, the index says {}", file.path(), file.bytes(), stored.bytes));
    }
  }
  return Done{};
}

Status Checkpoint::place_slices(const std::string& name, const StoredTensor& tensor) {
  auto& placed = placed_[name];
  for (const StoredSlice& stored : tensor.slices) {
    const SafetensorsFile& shard = shards_.at(stored.file);
    const SafetensorsSpec spec = spec_in_shard(name, tensor.dtype, tensor.shape, stored.slice);
    const SafetensorsEntry* entry = shard.header().find(spec.name);
    const bool agrees = entry != nullptr && entry->dtype == spec.dtype &&
                        std::ranges::equal(entry->extents, spec.shape.extents()) &&
                        shard.header().data_offset + entry->begin == stored.offset;
    if (!agrees) {
      return damaged(
          fmt::format("{}: does not hold {} where the index says", shard.path(), spec.name));
    }
    placed.push_back(std::unique_ptr<PlacedSlice>(
        new PlacedSlice{&stored, SliceRuns(stored.slice, tensor.shape), &shard, entry}));
  }
  return Done{};
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = index_.contents.tensors.find(std::string(name));
  return found == index_.contents.tensors.end() ? nullptr : &found->second;
}

Result<Checkpoint::ReadJob> Checkpoint::make_job(const TensorRequest& request) const {
  const StoredTensor* tensor = find(request.name);
  if (tensor == nullptr) {
    std::vector<std::string> names;
    for (const auto& [name, stored] : index_.contents.tensors) names.push_back(name);
    const std::string nearest = nearest_name(request.name, names);
    return Error{ErrorKind::Usage,
                 fmt::format("{}: has no tensor {}{}", folder_, request.name,
                             nearest.empty() ? "" : "; did you mean " + nearest + "?")};
  }
  if (!(tensor->shape == request.full_shape)) {
    return Error{ErrorKind::Usage, fmt::format("{}: tensor {} has shape {}, the model needs {}",
                                               folder_, request.name, tensor->shape.to_string(),
                                               request.full_shape.to_string())};
  }
  if (!is_convertible(tensor->dtype, request.dtype)) {
    return Error{ErrorKind::Usage,
                 fmt::format("{}: tensor {} is {}, which does not convert to {}", folder_,
                             request.name, name_of(tensor->dtype), name_of(request.dtype))};
  }
  TRIREME_CHECK(request.slice.fits(request.full_shape),
                request.name + request.slice.to_string() + " lies outside its tensor");
  ReadJob job{&request, tensor->dtype, SliceRuns(request.slice, tensor->shape), {}};
  for (const auto& placed : placed_.at(request.name)) {
    if (overlap(request.slice, placed->stored->slice, tensor->shape)) {
      job.slices.push_back(placed.get());
    }
  }
  return job;
}

std::string Checkpoint::check_slice(const std::string& name, const PlacedSlice& placed,
                                    Progress* progress) const {
  if (placed.checked.load(std::memory_order_relaxed)) return "";
  Hasher64 hasher;
  SliceWindow window(*placed.shard, *placed.entry);
  for (int64_t begin = 0; begin < placed.bytes(); begin += kWindowBytes) {
    const int64_t length = std::min(kWindowBytes, placed.bytes() - begin);
    const Result<const std::byte*> bytes = window.at(begin, length);
    if (!bytes.ok()) return bytes.error().message;
    hasher.update({*bytes, static_cast<size_t>(length)});
    if (progress != nullptr) progress->advance();
  }
  const uint64_t checksum = hasher.digest();
  if (checksum == placed.stored->checksum) {
    placed.checked.store(true, std::memory_order_relaxed);
    return "";
  }
  return fmt::format("{}/{}: tensor {}{} (bytes {} to {}) has checksum {}, the index says {}",
                     folder_, placed.stored->file, name, placed.stored->slice.to_string(),
                     placed.stored->offset, placed.stored->offset + placed.bytes(), hex64(checksum),
                     hex64(placed.stored->checksum));
}

std::vector<std::string> Checkpoint::check_slices(std::span<const NamedSlice> slices,
                                                  ThreadTeam& team, Progress* progress) const {
  const ShownCall call(progress, "read", folder_);
  for (const auto& [name, slice] : slices) {
    if (!slice->checked) slice->shard->will_read(*slice->entry);
  }
  std::vector<std::string> problems(slices.size());
  team.parallel_for(static_cast<int64_t>(slices.size()), [&](int64_t index, int) {
    problems[index] = check_slice(*slices[index].first, *slices[index].second, progress);
  });
  std::erase(problems, "");
  return problems;
}

// Copies elements begin .. end - 1 of a request.
std::string Checkpoint::copy_tile(const ReadJob& job, int64_t begin, int64_t end,
                                  bool allow_nonfinite) const {
  const TensorRequest& request = *job.request;
  const int64_t stored_width = size_of(job.stored_dtype);
  const int64_t piece = kWindowBytes / stored_width;
  std::byte* out = static_cast<std::byte*>(request.out);
  std::string unreadable;
  int64_t nonfinite = -1;  // index of an element of the request
  for (const PlacedSlice* placed : job.slices) {
    SliceWindow window(*placed->shard, *placed->entry);
    const auto copy = [&](int64_t element, int64_t source, int64_t length) {
      const auto bytes = window.at(source * stored_width, length * stored_width);
      if (!bytes.ok()) unreadable = bytes.error().message;
      if (!bytes.ok()) return;
      const int64_t found = copy_converted(
          *bytes, job.stored_dtype, out + element * size_of(request.dtype), request.dtype, length);
      if (found >= 0 && (nonfinite < 0 || element + found < nonfinite)) nonfinite = element + found;
    };
    for_each_common_run(job.runs, begin, end, placed->runs,
                        [&](int64_t element, int64_t source, int64_t length) {
                          for (int64_t at = 0; at < length; at += piece) {
                            copy(element + at, source + at, std::min(piece, length - at));
                          }
                        });
  }
  if (!unreadable.empty() || nonfinite < 0 || allow_nonfinite) return unreadable;
  return fmt::format("{}: tensor {} holds a NaN or Inf{} at {}", folder_, request.name,
                     job.stored_dtype == request.dtype
                         ? std::string()
                         : fmt::format(" (as {})", name_of(request.dtype)),
                     index_text(job.runs.flat_of(nonfinite), request.full_shape));
}

Status Checkpoint::read(std::span<const TensorRequest> requests, const LoadOptions& options) const {
  struct Tile {
    const ReadJob* job;
    int64_t begin, end;
  };
  std::vector<ReadJob> jobs;
  for (const TensorRequest& request : requests) {
    TRIREME_TRY(job, make_job(request));
    jobs.push_back(std::move(job));
  }
  std::vector<Tile> tiles;
  std::vector<NamedSlice> slices;
  for (const ReadJob& job : jobs) {
    for (const PlacedSlice* slice : job.slices) slices.emplace_back(&job.request->name, slice);
    for (int64_t begin = 0; begin < job.runs.num_elements(); begin += kTile) {
      tiles.push_back({&job, begin, std::min(begin + kTile, job.runs.num_elements())});
    }
  }
  const auto by_place = [](const NamedSlice& a, const NamedSlice& b) {
    return std::tie(a.second->stored->file, a.second->stored->offset) <
           std::tie(b.second->stored->file, b.second->stored->offset);
  };
  std::sort(slices.begin(), slices.end(), by_place);
  const auto same = [](const NamedSlice& a, const NamedSlice& b) { return a.second == b.second; };
  slices.erase(std::unique(slices.begin(), slices.end(), same), slices.end());

  ThreadTeam team(options.num_threads);
  std::vector<std::string> problems = check_slices(slices, team, options.progress);
  if (!problems.empty()) return damaged(problems.front());

  problems.resize(tiles.size());
  team.parallel_for(static_cast<int64_t>(tiles.size()), [&](int64_t index, int) {
    const Tile& tile = tiles[index];
    problems[index] = copy_tile(*tile.job, tile.begin, tile.end, options.allow_nonfinite);
    if (options.progress != nullptr) options.progress->advance();
  });
  std::erase(problems, "");
  if (problems.empty()) return Done{};
  return damaged(problems.front());
}

Result<std::string> Checkpoint::read_attached(const std::string& name) const {
  const std::string path = folder_ + "/" + name;
  const auto stored = index_.attached.find(name);
  if (stored == index_.attached.end()) {
    return Error{ErrorKind::Usage, folder_ + ": holds no file " + name};
  }
  TRIREME_TRY(file, open_named(path, open_input_));
  TRIREME_TRY(text, file.read_all());
  if (hash64(text) != stored->second.checksum) {
    return damaged(path + ": does not match its checksum in the index");
  }
  return std::move(text);
}

std::vector<std::string> Checkpoint::verify(int num_threads, Progress* progress) const {
  std::vector<NamedSlice> slices;
  for (const auto& [name, tensor] : placed_) {
    for (const auto& placed : tensor) {
      placed->checked = false;
      slices.emplace_back(&name, placed.get());
    }
  }
  ThreadTeam team(num_threads);
  std::vector<std::string> problems = check_slices(slices, team, progress);
  for (const auto& [name, stored] : index_.attached) {
    if (auto text = read_attached(name); !text.ok()) problems.push_back(text.error().message);
  }
  return problems;
}

Result<LatestCheckpoint> find_latest_checkpoint(const std::string& root, int64_t before_step) {
  LatestCheckpoint latest;
  std::error_code error;
  if (!fs::exists(root, error)) return latest;
  std::vector<int64_t> steps;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const int64_t step = step_of_folder_name(entry.path().filename().string());
    if (step >= 0 && step < before_step) steps.push_back(step);
  }
  if (error) return damaged(root + ": cannot read: " + error.message());
  std::sort(steps.rbegin(), steps.rend());
  for (int64_t step : steps) {
    const std::string path = root + "/" + step_folder_name(step);
    const auto checkpoint = Checkpoint::open(path);
    if (checkpoint.ok() && checkpoint->info().step == step) {
      latest.path = path;
      latest.step = step;
      return latest;
    }
    latest.skipped.push_back(checkpoint.ok()
                                 ? fmt::format("{}: is of step {}", path, checkpoint->info().step)
                                 : checkpoint.error().message);
  }
  return latest;
}

}  // namespace trireme
