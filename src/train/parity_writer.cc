#include "train/parity_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "checkpoint/parity_file.h"
#include "checkpoint/save.h"
#include "train/move_parts.h"

namespace trireme {
namespace {

// How often a job looks whether the other ranks have come as far, and whether they make progress.
constexpr auto kTestEvery = std::chrono::microseconds(100);
constexpr int64_t kLookEveryNs = 50'000'000;
// The others may do something that shows no progress, such as making a large file.
constexpr double kTimeouts = 10.0;
// The call of a job that waits for other ranks. Its own progress is only that of others.
constexpr std::string_view kWaits = "wait";

}  // namespace

ParityWriter::ParityWriter(Group& ranks, const HostPlaces& places, int64_t shard_bytes,
                           std::span<std::byte> buffer, double timeout_s)
    : ranks_(ranks.split(0, ranks.rank(), "memory parity")),
      own_host_(places.own),
      shard_bytes_(size_t(ranks.size())),
      buffer_(buffer),
      timeout_s_(timeout_s) {
  ranks_->all_gather({&shard_bytes, DType::I64, Shape{1}},
                     {shard_bytes_.data(), DType::I64, Shape{int64_t(shard_bytes_.size())}});
}

// The ranks of a host take turns with the lanes that have no rank of their own there.
int ParityWriter::rank_for(const HostsRecord& record, int host, int lane) const {
  const std::vector<int>& ranks = record.hosts[size_t(host)].ranks;
  return ranks[size_t(lane) % ranks.size()];
}

Status ParityWriter::write(const std::string& folder, const HostsRecord& record, Progress& progress,
                           const std::atomic<bool>& is_abandoned) {
  Status first_failure = Done{};
  for (int lane = 0; lane < record.num_lanes(); ++lane) {
    if (rank_for(record, own_host_, lane) != ranks_->rank()) continue;
    const Status written = write_lane(lane, folder, record, progress, is_abandoned);
    if (first_failure.ok()) first_failure = written;  // the other lanes have other ranks
  }
  return first_failure;
}

Status ParityWriter::write_lane(int lane, const std::string& folder, const HostsRecord& record,
                                Progress& progress, const std::atomic<bool>& is_abandoned) {
  const ParityGroup group = record.group_of(own_host_);
  if (group.num_parity == 0) return Done{};
  std::vector<std::string> files;
  std::vector<int64_t> bytes;
  std::vector<int> rank_of;
  for (const int host : group.hosts) {
    const std::vector<int>& ranks = record.hosts[size_t(host)].ranks;
    const bool has_rank = size_t(lane) < ranks.size();
    files.push_back(has_rank ? shard_file_name(ranks[size_t(lane)], 0) : "");
    bytes.push_back(has_rank ? shard_bytes_[size_t(ranks[size_t(lane)])] : 0);
    rank_of.push_back(rank_for(record, host, lane));
  }
  Status moved =
      move_parts(parity_moves(group, lane, files, bytes), {.ranks = *ranks_,
                                                           .rank_of = std::move(rank_of),
                                                           .source_folder = folder,
                                                           .target_folder = folder,
                                                           .buffer = buffer_,
                                                           .timeout_s = timeout_s_,
                                                           .progress = &progress,
                                                           .is_abandoned = &is_abandoned});
  const int64_t length =
      piece_bytes(*std::max_element(bytes.begin(), bytes.end()), group.num_data());
  for (int row = 0; row < group.num_parity && moved.ok(); ++row) {
    moved = seal_parity_file(folder, record, lane, row, length, buffer_.first(kMovedAtOnce));
  }
  return moved;
}

// What the ranks show that are not there yet.
ParityWriter::Others ParityWriter::others() const {
  Others others{.late = ranks_->rank(), .progress = 0};
  for (int member = 0; member < ranks_->size(); ++member) {
    const Progress& shown = ranks_->progress_of(member);
    const std::optional<ProgressCall> call = shown.current();
    if (call && std::string_view(call->call) == kWaits) continue;
    others.late = member;
    others.progress += shown.count();
  }
  return others;
}

// The thread of the rank waits in other calls meanwhile, so this one does not wait in a call. A
// rank that trains needs no deadline here, because nobody waits for it.
bool ParityWriter::all_succeed(bool own, Progress& progress,
                               const std::atomic<bool>& is_abandoned) {
  int64_t num_failed = own ? 0 : 1;
  const TensorRef word{&num_failed, DType::I64, Shape{1}};
  Work work = ranks_->start({.in = word, .out = word});
  if (work.test()) return num_failed == 0;
  const ShownCall call(&progress, kWaits, "the parts of other ranks");
  uint64_t seen = 0;
  int64_t moved_ns = monotonic_ns();
  int64_t looked_ns = moved_ns;
  while (!work.test()) {
    std::this_thread::sleep_for(kTestEvery);
    if (is_abandoned) ranks_->abort("a rank has ended while it made a checkpoint in memory");
    const int64_t now_ns = monotonic_ns();
    if (now_ns - looked_ns < kLookEveryNs) continue;
    looked_ns = now_ns;
    const bool is_waited_for = ranks_->progress().current().has_value();
    const Others them = others();
    if (!is_waited_for || std::exchange(seen, them.progress) != them.progress) {
      moved_ns = now_ns;
      progress.advance();
    }
    const double silent_s = double(now_ns - moved_ns) * 1e-9;
    if (silent_s < kTimeouts * timeout_s_) continue;
    ranks_->abort_for(them.late,
                      fmt::format("rank {} has waited {:.0f} s without progress for rank {} in a "
                                  "checkpoint in memory",
                                  ranks_->rank(), silent_s, them.late));
  }
  return num_failed == 0;
}

}  // namespace trireme
