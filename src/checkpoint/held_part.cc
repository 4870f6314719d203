#include "checkpoint/held_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "base/hash.h"
#include "base/input_file.h"
#include "checkpoint/parity_file.h"
#include "device/thread_team.h"

namespace trireme {
namespace {

constexpr int64_t kCheckedAtOnce = int64_t{256} << 10;

// Returns the hash of the bytes from `begin` to `end`.
Result<uint64_t> hash_of(const InputFile& file, int64_t begin, int64_t end, Progress* progress) {
  std::vector<std::byte> bytes(size_t(std::min(kCheckedAtOnce, std::max<int64_t>(end - begin, 0))));
  Hasher64 hasher;
  for (int64_t at = begin; at < end;) {
    const auto piece = std::span(bytes).first(size_t(std::min(kCheckedAtOnce, end - at)));
    TRIREME_TRY_DONE(file.read(at, piece));
    hasher.update(piece);
    at += int64_t(piece.size());
    if (progress != nullptr) progress->advance();
  }
  return hasher.digest();
}

Result<std::string> read_matching_index(const FoundPart& part) {
  TRIREME_TRY(index, read_text_file(part.folder + "/index.json"));
  if (hash64(index) == part.record.index_checksum) return index;
  return damaged(
      fmt::format("{}/index.json: does not match its checksum in {}", part.folder, kHostsFile));
}

Result<FoundPart> open_part(const std::string& folder) {
  const std::string path = folder + "/" + kHostsFile;
  TRIREME_TRY(text, read_text_file(path));
  Result<HostsRecord> record = parse_hosts_record(text);
  if (!record.ok()) return with_context(record.error(), path);
  FoundPart part{folder, std::move(*record)};
  TRIREME_TRY_DONE(read_matching_index(part));
  return part;
}

std::string bits_of(const std::vector<bool>& flags) {
  std::string text = ".";  // so that no flags are a word, too
  for (const bool flag : flags) text += flag ? '1' : '0';
  return text;
}

Result<std::vector<bool>> flags_in(std::string_view text, size_t count) {
  std::vector<bool> flags;
  bool is_valid = text.size() == count + 1 && text[0] == '.';
  for (size_t i = 1; is_valid && i < text.size(); ++i) {
    is_valid = text[i] == '0' || text[i] == '1';
    flags.push_back(text[i] == '1');
  }
  if (is_valid) return flags;
  return damaged("a host has told which blocks it holds, but of another checkpoint");
}

}  // namespace

std::vector<FoundPart> find_parts(const std::string& root, uint64_t job,
                                  std::vector<std::string>& problems) {
  std::vector<FoundPart> parts;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    const int64_t step = step_of_folder_name(entry.path().filename().string());
    if (step < 0) continue;
    Result<FoundPart> part = open_part(entry.path().string());
    if (!part.ok()) {
      problems.push_back(part.error().message);
    } else if (part->record.job == job && part->record.step == step) {
      parts.push_back(std::move(*part));
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const FoundPart& a, const FoundPart& b) { return a.record.step > b.record.step; });
  return parts;
}

Status check_shard(const std::string& path, const std::string& file, const CheckpointIndex& index,
                   Progress* progress) {
  const StoredFile& stored = index.contents.shards.at(file);
  TRIREME_TRY(shard, SafetensorsFile::open(path));
  if (shard.bytes() != stored.bytes) {
    return damaged(
        fmt::format("{}: {} bytes, the index says {}", path, shard.bytes(), stored.bytes));
  }
  if (shard.header_checksum() != stored.checksum) {
    return damaged(path + ": the header does not match its checksum in the index");
  }
  TRIREME_TRY(bytes, InputFile::open(path));
  for (const auto& [name, tensor] : index.contents.tensors) {
    for (const StoredSlice& slice : tensor.slices) {
      if (slice.file != file) continue;
      const int64_t end = slice.offset + slice.slice.num_elements() * size_of(tensor.dtype);
      TRIREME_TRY(hash, hash_of(bytes, slice.offset, end, progress));
      if (hash == slice.checksum) continue;
      return damaged(fmt::format("{}: tensor {}{} has checksum {}, the index says {}", path, name,
                                 slice.slice.to_string(), hex64(hash), hex64(slice.checksum)));
    }
  }
  return Done{};
}

Result<HeldPart> check_part(const FoundPart& part, int num_threads, Progress* progress,
                            std::vector<std::string>& problems) {
  TRIREME_TRY(text, read_matching_index(part));
  TRIREME_TRY(index, parse_index(text));
  const HostsRecord& record = part.record;
  const int num_rows = record.group_of(record.own).num_parity, num_lanes = record.num_lanes();
  // Blocks first, then rows. std::vector<bool> cannot be written by several threads.
  std::vector<Status> checks(size_t(num_lanes * (1 + num_rows)), Done{});
  const ShownCall call(progress, "read", part.folder);
  ThreadTeam team(num_threads);
  team.parallel_for(int64_t(checks.size()), [&](int64_t i, int) {
    const int lane = int(i) % num_lanes, row = int(i) / num_lanes - 1;
    if (row >= 0) {
      checks[size_t(i)] = check_parity_file(part.folder, record, lane, row, progress);
      return;
    }
    const std::string file = record.shard_of(record.own, lane, index);
    if (!file.empty()) {
      checks[size_t(i)] = check_shard(part.folder + "/" + file, file, index, progress);
    }
  });
  HeldPart held{.host = record.own};
  for (const Status& check : checks) {
    if (!check.ok()) problems.push_back(check.error().message);
  }
  for (int lane = 0; lane < num_lanes; ++lane) {
    held.blocks.push_back(checks[size_t(lane)].ok());
    for (int row = 0; row < num_rows; ++row) {
      held.rows.push_back(checks[size_t((1 + row) * num_lanes + lane)].ok());
    }
  }
  return held;
}

std::string print_held_part(const HeldPart& part) {
  return fmt::format("{} {} {}", part.host, bits_of(part.blocks), bits_of(part.rows));
}

Result<HeldPart> parse_held_part(std::string_view text, const HostsRecord& record) {
  HeldPart part;
  const size_t first = text.find(' '), second = text.rfind(' ');
  const std::string_view number = text.substr(0, std::min(first, text.size()));
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), part.host);
  const bool is_number = error == std::errc() && end == number.data() + number.size();
  if (first == second || !is_number || part.host < -1 || part.host >= int(record.hosts.size())) {
    return damaged("a host has told which blocks it holds, but not legibly");
  }
  if (part.host < 0) return HeldPart{};
  const size_t lanes = size_t(record.num_lanes());
  const size_t rows = lanes * size_t(record.group_of(part.host).num_parity);
  TRIREME_TRY(blocks, flags_in(text.substr(first + 1, second - first - 1), lanes));
  TRIREME_TRY(held_rows, flags_in(text.substr(second + 1), rows));
  part.blocks = std::move(blocks);
  part.rows = std::move(held_rows);
  return part;
}

}  // namespace trireme
