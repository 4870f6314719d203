#include "checkpoint/scrub_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>

#include "base/file.h"
#include "base/input_file.h"
#include "base/leftovers.h"
#include "checkpoint/parity_file.h"
#include "checkpoint/rebuild_plan.h"
#include "erasure/reed_solomon.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMovedAtOnce = int64_t{1} << 20;

// A file that is rebuilt beside the damaged one, from products that are added to it.
class RebuiltFile {
 public:
  static Result<std::unique_ptr<RebuiltFile>> create(const std::string& path) {
    auto file = std::make_unique<RebuiltFile>();
    file->path_ = path;
    file->fd_ = create_temporary(path, O_RDWR, 0600, file->temporary_);
    if (file->fd_ < 0) return file->failure("make the file");
    return file;
  }
  RebuiltFile() = default;
  RebuiltFile(const RebuiltFile&) = delete;
  RebuiltFile& operator=(const RebuiltFile&) = delete;
  ~RebuiltFile() {
    if (fd_ < 0) return;
    ::unlink(temporary_.c_str());
    ::close(fd_);
  }

  const std::string& temporary() const { return temporary_; }

  Status set_length(int64_t bytes) {
    if (::ftruncate(fd_, bytes) != 0) return failure("set the length");
    return Done{};
  }

  Status add(const PartMove& move, const InputFile& source) {
    std::vector<std::byte> from(size_t(std::min(kMovedAtOnce, move.bytes))), to(from.size());
    for (int64_t done = 0; done < move.bytes; done += int64_t(from.size())) {
      const size_t count = size_t(std::min(int64_t(from.size()), move.bytes - done));
      const auto given = std::span(from).first(count), sum = std::span(to).first(count);
      TRIREME_TRY_DONE(source.read(move.source_offset + done, given));
      std::memset(sum.data(), 0, count);
      if (!move.is_first && !read(move.target_offset + done, sum)) return failure("read");
      add_product(move.coefficient, given, sum);
      if (!write(move.target_offset + done, sum)) return failure("write");
    }
    return Done{};
  }

  // Replaces the damaged file.
  Status commit() {
    if (::fsync(fd_) != 0) return failure("sync");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failure("rename");
    ::close(fd_);
    fd_ = -1;
    return sync_folder(fs::path(path_).parent_path().string());
  }

 private:
  // Bytes behind the end are zero.
  bool read(int64_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      const ssize_t got = ::pread(fd_, out.data(), out.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return got == 0;
      out = out.subspan(size_t(got));
      offset += got;
    }
    return true;
  }
  bool write(int64_t offset, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t put = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return false;
      bytes = bytes.subspan(size_t(put));
      offset += put;
    }
    return true;
  }
  Error failure(const char* action) const {
    return damaged(fmt::format("{}: cannot {}: {}", path_, action, std::strerror(errno)));
  }

  std::string path_, temporary_;
  int fd_ = -1;
};

// The parts of one save, and what each host holds of them.
class PartsRepair {
 public:
  PartsRepair(std::span<const FoundPart> parts, std::span<ScrubbedFolder* const> scrubbed,
              const ScrubOptions& options)
      : parts_(parts), scrubbed_(scrubbed), options_(options), record_(parts.front().record) {}

  void run() {
    for (size_t i = 0; i < parts_.size(); ++i) {
      Result<HeldPart> held =
          check_part(parts_[i], options_.num_threads, options_.progress, scrubbed_[i]->damage);
      if (!held.ok()) scrubbed_[i]->lost.push_back(held.error().message);
      held_.push_back(held.ok() ? std::move(*held) : HeldPart{});
    }
    if (!has_losses()) return;
    if (!options_.repairs) return lose_all("it is not repaired, because that was not asked for");
    const Result<CheckpointIndex> index = read_index();
    if (!index.ok()) return lose_all(index.error().message);
    repair_blocks(*index);
    repair_rows(*index);
  }

 private:
  bool is_whole(const HeldPart& part) const {
    return std::count(part.blocks.begin(), part.blocks.end(), false) +
               std::count(part.rows.begin(), part.rows.end(), false) ==
           0;
  }
  bool has_losses() const {
    return !std::all_of(held_.begin(), held_.end(),
                        [&](const HeldPart& part) { return is_whole(part); });
  }
  void lose_all(const std::string& why) {
    for (size_t i = 0; i < held_.size(); ++i) {
      if (!is_whole(held_[i])) scrubbed_[i]->lost.push_back(why);
    }
  }

  Result<CheckpointIndex> read_index() const {
    TRIREME_TRY(text, read_text_file(parts_.front().folder + "/index.json"));
    return parse_index(text);
  }

  // The part of a host, or -1.
  int part_of(int host) const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].record.own == host) return int(i);
    }
    return -1;
  }

  // Makes `target` in the folder of a part from the moves that write it. `check` looks at the
  // result under its temporary name before it replaces the damaged file.
  template <typename Check>
  Status rebuild(const std::string& target, int part, int64_t bytes,
                 const std::vector<const PartMove*>& moves, const std::vector<int>& part_of_host,
                 Check&& check) {
    const std::string path = parts_[size_t(part)].folder + "/" + target;
    TRIREME_TRY(file, RebuiltFile::create(path));
    TRIREME_TRY_DONE(file->set_length(bytes));
    for (const PartMove* move : moves) {
      const int from = part_of_host[size_t(move->from)];
      TRIREME_TRY(source, InputFile::open(parts_[size_t(from)].folder + "/" + move->source));
      TRIREME_TRY_DONE(file->add(*move, source));
      if (options_.progress != nullptr) options_.progress->advance();
    }
    TRIREME_TRY_DONE(check(file->temporary()));
    TRIREME_TRY_DONE(file->commit());
    scrubbed_[size_t(part)]->repaired.push_back(target);
    return Done{};
  }

  // Every group by itself, so that one that has lost too much does not keep the others from repair.
  void repair_blocks(const CheckpointIndex& index) {
    for (const ParityGroup& group : record_.groups()) {
      repair_group(group, index, plan_group_rebuild(record_, index, held_, group));
    }
  }

  void repair_group(const ParityGroup& group, const CheckpointIndex& index,
                    const Result<RebuildPlan>& plan) {
    std::vector<int> own(parts_.size());  // moves of a rebuild name the parts themselves
    std::iota(own.begin(), own.end(), 0);
    for (const int host : group.hosts) {
      const int part = part_of(host);
      if (part < 0) continue;
      HeldPart& held = held_[size_t(part)];
      for (int lane = 0; lane < record_.num_lanes(); ++lane) {
        if (held.host < 0 || held.blocks[size_t(lane)]) continue;
        if (!plan.ok()) {
          scrubbed_[size_t(part)]->lost.push_back(plan.error().message);
          break;
        }
        const std::string file = record_.shard_of(host, lane, index);
        std::vector<const PartMove*> into;
        for (const PartMove& move : plan->moves) {
          if (move.target == file) into.push_back(&move);
        }
        const Status made = rebuild(file, part, index.contents.shards.at(file).bytes, into, own,
                                    [&](const std::string& path) {
                                      return check_shard(path, file, index, options_.progress);
                                    });
        if (made.ok()) {
          held.blocks[size_t(lane)] = true;
        } else {
          scrubbed_[size_t(part)]->lost.push_back(made.error().message);
        }
      }
    }
  }

  // Parity pieces are made again from the shards, if all of a group are intact.
  void repair_rows(const CheckpointIndex& index) {
    for (const ParityGroup& group : record_.groups()) {
      for (int lane = 0; lane < record_.num_lanes(); ++lane) {
        for (int row = 0; row < group.num_parity; ++row) repair_row(group, lane, row, index);
      }
    }
  }

  void repair_row(const ParityGroup& group, int lane, int row, const CheckpointIndex& index) {
    std::vector<std::string> files;
    std::vector<int64_t> bytes;
    std::vector<int> part_of_member;
    bool has_all = true;
    for (const int host : group.hosts) {
      files.push_back(record_.shard_of(host, lane, index));
      bytes.push_back(files.back().empty() ? 0 : index.contents.shards.at(files.back()).bytes);
      part_of_member.push_back(part_of(host));
      const int part = part_of_member.back();
      has_all = has_all && (files.back().empty() || (part >= 0 && held_[size_t(part)].host >= 0 &&
                                                     held_[size_t(part)].blocks[size_t(lane)]));
    }
    const std::string target = parity_file_name(lane, row);
    const int64_t piece =
        piece_bytes(*std::max_element(bytes.begin(), bytes.end()), group.num_data());
    const std::vector<PartMove> moves = parity_moves(group, lane, files, bytes);
    for (size_t member = 0; member < group.hosts.size(); ++member) {
      const int part = part_of_member[member];
      if (part < 0 || held_[size_t(part)].host < 0) continue;
      if (held_[size_t(part)].rows[size_t(lane * group.num_parity + row)]) continue;
      if (!has_all) {
        scrubbed_[size_t(part)]->lost.push_back(
            fmt::format("{}: cannot be made again: a shard of its group is lost", target));
        continue;
      }
      std::vector<const PartMove*> into;
      for (const PartMove& move : moves) {
        if (move.to == int(member) && move.target == target) into.push_back(&move);
      }
      const HostsRecord& own = parts_[size_t(part)].record;
      const Status made = rebuild(
          target, part, piece, into, part_of_member,
          [&](const std::string& path) { return seal_parity(path, own, lane, row, piece); });
      if (!made.ok()) scrubbed_[size_t(part)]->lost.push_back(made.error().message);
    }
  }

  Status seal_parity(const std::string& path, const HostsRecord& own, int lane, int row,
                     int64_t bytes) const {
    std::vector<std::byte> buffer(size_t(std::min(kMovedAtOnce, std::max<int64_t>(bytes, 1))));
    return seal_parity_at(path, own, lane, row, bytes, buffer);
  }

  std::span<const FoundPart> parts_;
  std::span<ScrubbedFolder* const> scrubbed_;
  const ScrubOptions& options_;
  const HostsRecord& record_;
  std::vector<HeldPart> held_;  // [part]
};

}  // namespace

void scrub_parts(std::span<const FoundPart> parts, std::span<ScrubbedFolder* const> scrubbed,
                 const ScrubOptions& options) {
  PartsRepair(parts, scrubbed, options).run();
}

}  // namespace trireme
