#include "checkpoint/save.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/remove_folder.h"
#include "checkpoint/check_coverage.h"
#include "checkpoint/retention.h"
#include "checkpoint/safetensors_writer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWrittenAtOnce = size_t{16} << 20;

Error failed(const std::string& path, const char* action, const std::string& why) {
  return damaged(path + ": cannot " + action + ": " + why);
}

bool is_temporary(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("step-") && name.find(".tmp-") != std::string::npos;
}

std::string temporary_path(const fs::path& root, int64_t step) {
  return (root / fmt::format("{}.tmp-{}", step_folder_name(step), ::getpid())).string();
}

void remove_unfinished_saves(const fs::path& root) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    if (is_temporary(entry.path())) leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, error);
}

struct ShardPiece {
  const TensorPiece* piece = nullptr;
  SafetensorsSpec spec;
};

// Groups the pieces into shards, in order. A shard has at most max_bytes unless it has only one
// piece.
std::vector<std::vector<ShardPiece>> group_into_shards(std::span<const TensorPiece> pieces,
                                                       int64_t max_bytes) {
  std::vector<ShardPiece> sorted;
  for (const TensorPiece& piece : pieces) {
    TRIREME_CHECK(piece.slice.fits(piece.full_shape),
                  piece.name + piece.slice.to_string() + " lies outside its tensor");
    if (piece.slice.num_elements() == 0) continue;
    sorted.push_back(
        {&piece, spec_in_shard(piece.name, piece.dtype, piece.full_shape, piece.slice)});
  }
  std::sort(sorted.begin(), sorted.end(), [](const ShardPiece& a, const ShardPiece& b) {
    return precedes_in_safetensors(a.spec, b.spec);
  });
  std::vector<std::vector<ShardPiece>> shards;
  int64_t bytes = 0;
  for (ShardPiece& piece : sorted) {
    if (shards.empty() || bytes + piece.spec.bytes() > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += piece.spec.bytes();
    shards.back().push_back(std::move(piece));
  }
  return shards;
}

// Writes a piece in parts, so that an abandoned save ends soon.
Status write_piece(SafetensorsWriter& writer, const ShardPiece& piece,
                   const std::atomic<bool>* is_abandoned) {
  std::span<const std::byte> bytes{static_cast<const std::byte*>(piece.piece->data),
                                   static_cast<size_t>(piece.spec.bytes())};
  while (!bytes.empty()) {
    if (is_abandoned != nullptr && is_abandoned->load()) {
      return Error{ErrorKind::Runtime, "the save was abandoned"};
    }
    const auto part = bytes.first(std::min(bytes.size(), kWrittenAtOnce));
    TRIREME_TRY_DONE(writer.write(part));
    bytes = bytes.subspan(part.size());
  }
  return Done{};
}

// A copy in memory must be written as it was made.
Status check_unchanged(const std::string& path, const TensorPiece& piece, uint64_t written) {
  if (!piece.checksum || *piece.checksum == written) return Done{};
  return failed(
      path, "write",
      fmt::format("the copy of {}{} in memory has changed since it was made (checksum {} "
                  "instead of {}); check the memory of this machine",
                  piece.name, piece.slice.to_string(), hex64(written), hex64(*piece.checksum)));
}

Result<SafetensorsWriter::Written> write_to_file(const std::string& path,
                                                 std::span<const ShardPiece> pieces,
                                                 std::vector<SafetensorsSpec> specs,
                                                 const SaveOptions& options) {
  TRIREME_TRY(writer, SafetensorsWriter::create(path, std::move(specs), {}, options.progress));
  for (const ShardPiece& piece : pieces) {
    TRIREME_TRY_DONE(write_piece(writer, piece, options.is_abandoned));
  }
  return writer.finish();
}

Status write_shard(const std::string& folder, const std::string& file,
                   std::span<const ShardPiece> pieces, IndexPart& part,
                   const SaveOptions& options) {
  std::vector<SafetensorsSpec> specs;
  for (const ShardPiece& piece : pieces) specs.push_back(piece.spec);
  TRIREME_TRY(written, write_to_file(folder + "/" + file, pieces, std::move(specs), options));
  part.shards[file] = {.bytes = written.bytes, .checksum = written.header_checksum};
  for (size_t index = 0; index < pieces.size(); ++index) {
    const TensorPiece& piece = *pieces[index].piece;
    TRIREME_TRY_DONE(check_unchanged(folder + "/" + file, piece, written.checksums[index]));
    part.tensors.at(piece.name)
        .slices.push_back({.slice = piece.slice,
                           .file = file,
                           .offset = written.offsets[index],
                           .checksum = written.checksums[index]});
  }
  return Done{};
}

// Renames `temporary` to `path`, which may hold an older checkpoint of the same step. If the file
// system can exchange two folders atomically, one of them is always there.
Status rename_into_place(const std::string& temporary, const std::string& path) {
  if (::rename(temporary.c_str(), path.c_str()) == 0) return Done{};
  if (errno != ENOTEMPTY && errno != EEXIST) return failed(path, "create", std::strerror(errno));
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    return Done{};
  }
  const std::string old = temporary + "-old";
  if (::rename(path.c_str(), old.c_str()) != 0) {
    return failed(path, "replace", std::strerror(errno));
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    ::rename(old.c_str(), path.c_str());
    return failed(path, "replace", why);
  }
  std::error_code ignored;
  fs::remove_all(old, ignored);
  return Done{};
}

Status write_index(const std::string& folder, const CheckpointInfo& info,
                   std::span<const AttachedFile> attached, std::span<const IndexPart> parts,
                   const SaveOptions& options) {
  Progress* const progress = options.progress;
  CheckpointIndex index{.info = info};
  for (const IndexPart& part : parts) TRIREME_TRY_DONE(merge_index_part(index.contents, part));
  TRIREME_TRY_DONE(check_coverage(index.contents));
  for (const AttachedFile& file : attached) {
    TRIREME_TRY_DONE(write_file_atomically(folder + "/" + file.name, file.content, progress));
    index.attached[file.name] = {.bytes = static_cast<int64_t>(file.content.size()),
                                 .checksum = hash64(file.content)};
  }
  return write_file_atomically(folder + "/index.json", print_index(index), progress);
}

}  // namespace

Result<std::string> begin_checkpoint(const std::string& root, int64_t step,
                                     const SaveOptions& options) {
  const ShownCall call(options.progress, "mkdir", root);
  std::error_code error;
  fs::create_directory(root, error);
  if (error) return failed(root, "create", error.message());
  remove_unfinished_saves(root);
  const std::string folder = temporary_path(root, step);
  fs::create_directory(folder, error);
  if (error) return failed(folder, "create", error.message());
  return folder;
}

std::string shard_file_name(int rank, int number) {
  return fmt::format("shard-{:05}-{:03}.safetensors", rank, number);
}

int64_t shard_bytes(std::span<const TensorPiece> pieces) {
  const auto shards = group_into_shards(pieces, INT64_MAX);
  if (shards.empty()) return 0;
  std::vector<SafetensorsSpec> specs;
  int64_t bytes = 0;
  for (const ShardPiece& piece : shards.front()) {
    specs.push_back(piece.spec);
    bytes += piece.spec.bytes();
  }
  return bytes + int64_t(print_safetensors_header(specs, {}).size());
}

Result<IndexPart> write_shards(const std::string& folder, int rank,
                               std::span<const TensorPiece> pieces, const SaveOptions& options) {
  IndexPart part;
  for (const TensorPiece& piece : pieces) {
    const auto [tensor, is_new] =
        part.tensors.emplace(piece.name, StoredTensor{piece.dtype, piece.full_shape, {}});
    TRIREME_CHECK(
        is_new || (tensor->second.dtype == piece.dtype && tensor->second.shape == piece.full_shape),
        "two pieces of " + piece.name + " disagree about it");
  }
  int number = 0;
  for (const auto& shard : group_into_shards(pieces, options.max_shard_bytes)) {
    const std::string file = shard_file_name(rank, number++);
    TRIREME_TRY_DONE(write_shard(folder, file, shard, part, options));
  }
  return part;
}

Status finish_checkpoint(const std::string& folder, const CheckpointInfo& info,
                         std::span<const AttachedFile> attached, std::span<const IndexPart> parts,
                         const SaveOptions& options) {
  const Status status = write_index(folder, info, attached, parts, options);
  if (status.ok()) return status;
  abandon_checkpoint(folder);
  return with_context(status.error(), fmt::format("saving step {}", info.step));
}

Result<std::string> publish_checkpoint(const std::string& folder, int64_t step,
                                       const SaveOptions& options) {
  const fs::path root = fs::path(folder).parent_path();
  const std::string path = (root / step_folder_name(step)).string();
  const ShownCall call(options.progress, "rename", path);
  const auto publish = [&] { return rename_into_place(folder, path); };
  const Status status = options.publish ? options.publish(publish) : publish();
  if (!status.ok()) {
    abandon_checkpoint(folder);
    return with_context(status.error(), fmt::format("saving step {}", step));
  }
  TRIREME_TRY_DONE(sync_folder(root.string(), options.progress));
  if (options.keep > 0) apply_retention(root.string(), step, {.keep = options.keep});
  return path;
}

Result<std::string> commit_checkpoint(const std::string& folder, const CheckpointInfo& info,
                                      std::span<const AttachedFile> attached,
                                      std::span<const IndexPart> parts,
                                      const SaveOptions& options) {
  TRIREME_TRY_DONE(finish_checkpoint(folder, info, attached, parts, options));
  return publish_checkpoint(folder, info.step, options);
}

// Renames the folder before it is removed, so that other ranks cannot create new files in it.
void abandon_checkpoint(const std::string& folder) {
  if (!is_temporary(folder)) return;
  std::error_code error;
  const std::string doomed = folder + "-old";
  fs::rename(folder, doomed, error);
  remove_folder(error ? folder : doomed);
}

Result<std::string> save_checkpoint(const std::string& root, const CheckpointInfo& info,
                                    std::span<const AttachedFile> attached,
                                    std::span<const TensorPiece> pieces,
                                    const SaveOptions& options) {
  TRIREME_TRY(folder, begin_checkpoint(root, info.step, options));
  auto part = write_shards(folder, 0, pieces, options);
  if (!part.ok()) {
    abandon_checkpoint(folder);
    return with_context(part.error(), fmt::format("saving step {}", info.step));
  }
  return commit_checkpoint(folder, info, attached, {&*part, 1}, options);
}

}  // namespace trireme
