#include "checkpoint/rebuild_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <tuple>

#include "checkpoint/parity_file.h"

namespace trireme {
namespace {

// The blocks of one lane of a group, and its pieces.
class LanePieces {
 public:
  LanePieces(const ParityGroup& group, std::span<const int64_t> bytes_of)
      : bytes_of_(bytes_of),
        piece_(piece_bytes(*std::max_element(bytes_of.begin(), bytes_of.end()), group.num_data())) {
  }
  // The bytes of a piece; the last pieces of a block may be short or empty.
  int64_t bytes(const GroupPiece& piece) const {
    if (piece.is_parity) return piece_;
    const int64_t left = bytes_of_[size_t(piece.member)] - offset(piece);
    return std::clamp<int64_t>(left, 0, piece_);
  }
  int64_t offset(const GroupPiece& piece) const {
    return piece.is_parity ? 0 : piece.number * piece_;
  }

 private:
  std::span<const int64_t> bytes_of_;
  int64_t piece_;
};

PartMove move_of(const PieceProduct& product, const LanePieces& pieces) {
  return {.source_offset = pieces.offset(product.source),
          .target_offset = pieces.offset(product.target),
          .bytes = std::min(pieces.bytes(product.source), pieces.bytes(product.target)),
          .coefficient = product.coefficient,
          .is_first = product.is_first};
}

int holder_of_host(std::span<const HeldPart> holders, int host) {
  for (size_t h = 0; h < holders.size(); ++h) {
    if (holders[h].host == host) return int(h);
  }
  return -1;
}

// Plans the shards of one group.
class GroupRebuild {
 public:
  GroupRebuild(const HostsRecord& record, const CheckpointIndex& index,
               std::span<const HeldPart> holders, const ParityGroup& group)
      : record_(record), index_(index), holders_(holders), group_(group) {
    for (const int host : group.hosts) {
      holder_.push_back(holder_of_host(holders, host));
      if (holder_.back() >= 0) present_.push_back(holder_.back());
    }
  }

  Status add_to(RebuildPlan& plan) const {
    for (int lane = 0; lane < record_.num_lanes(); ++lane) TRIREME_TRY_DONE(add_lane(lane, plan));
    return Done{};
  }

 private:
  Status add_lane(int lane, RebuildPlan& plan) const {
    std::vector<std::string> files;
    std::vector<int64_t> bytes;
    std::vector<MemberLoss> losses;
    std::vector<int> where = holder_;  // of each member's shard
    bool is_lost = false;
    for (size_t member = 0; member < group_.hosts.size(); ++member) {
      files.push_back(record_.shard_of(group_.hosts[member], lane, index_));
      const bool has_shard = !files.back().empty();
      bytes.push_back(has_shard ? index_.contents.shards.at(files.back()).bytes : 0);
      losses.push_back(loss_of(int(member), lane, has_shard));
      if (losses.back().block) where[member] = rebuilder_of(int(member));
      is_lost = is_lost || losses.back().block;
    }
    if (is_lost) {
      const auto products = rebuild_products(group_.num_data(), group_.num_parity, losses);
      if (!products.ok() || present_.empty()) return refusal(losses);
      const LanePieces pieces(group_, bytes);
      for (const PieceProduct& product : *products) {
        PartMove move = move_of(product, pieces);
        if (move.bytes == 0) continue;
        move.from = holder_[size_t(product.source.member)];
        move.to = where[size_t(product.target.member)];
        move.source = product.source.is_parity ? parity_file_name(lane, product.source.number)
                                               : files[size_t(product.source.member)];
        move.target = files[size_t(product.target.member)];
        plan.moves.push_back(std::move(move));
      }
    }
    for (size_t member = 0; member < files.size(); ++member) {
      if (files[member].empty()) continue;
      plan.holder_of[files[member]] = where[member];
      if (losses[member].block) plan.rebuilt[files[member]] = where[member];
    }
    return Done{};
  }

  MemberLoss loss_of(int member, int lane, bool has_shard) const {
    const int holder = holder_[size_t(member)];
    MemberLoss loss;
    loss.block = has_shard && (holder < 0 || !holders_[size_t(holder)].blocks[size_t(lane)]);
    for (int row = 0; row < group_.num_parity; ++row) {
      const size_t at = size_t(lane * group_.num_parity + row);
      loss.rows.push_back(holder < 0 || !holders_[size_t(holder)].rows[at]);
    }
    return loss;
  }

  // The remaining hosts of the group take turns in rebuilding its shards.
  int rebuilder_of(int member) const {
    return present_.empty() ? -1 : present_[size_t(member) % present_.size()];
  }

  Error refusal(const std::vector<MemberLoss>& losses) const {
    std::vector<std::string> all, lost;
    for (size_t member = 0; member < losses.size(); ++member) {
      const std::string& name = record_.hosts[size_t(group_.hosts[member])].name;
      all.push_back(name);
      const std::vector<bool>& rows = losses[member].rows;
      const bool has_all =
          !losses[member].block && std::find(rows.begin(), rows.end(), true) == rows.end();
      if (!has_all) lost.push_back(name);
    }
    if (group_.num_parity == 0) {
      return damaged(
          fmt::format("step {} cannot be taken from memory: intact blocks are missing on {}, and "
                      "there is no parity",
                      record_.step, fmt::join(lost, ", ")));
    }
    return damaged(
        fmt::format("step {} cannot be taken from memory: of hosts {}, which protect each other, "
                    "intact blocks are missing on {}, and at most {} may lack them",
                    record_.step, fmt::join(all, ", "), fmt::join(lost, ", "), group_.num_parity));
  }

  const HostsRecord& record_;
  const CheckpointIndex& index_;
  std::span<const HeldPart> holders_;
  const ParityGroup& group_;
  std::vector<int> holder_;   // [member]: current host; -1: lost
  std::vector<int> present_;  // current hosts that hold something of the group
};

// The header of a shard ends where its first tensor begins.
std::map<std::string, int64_t> header_bytes(const CheckpointIndex& index) {
  std::map<std::string, int64_t> bytes;
  for (const auto& [file, stored] : index.contents.shards) bytes[file] = stored.bytes;
  for (const auto& [name, tensor] : index.contents.tensors) {
    for (const StoredSlice& slice : tensor.slices) {
      int64_t& least = bytes.at(slice.file);
      least = std::min(least, slice.offset);
    }
  }
  return bytes;
}

void sort_and_join(std::vector<ByteRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  std::vector<ByteRange> joined;
  for (const ByteRange& range : ranges) {
    if (!joined.empty() && range.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  ranges = std::move(joined);
}

}  // namespace

std::vector<PartMove> parity_moves(const ParityGroup& group, int lane,
                                   std::span<const std::string> file_of,
                                   std::span<const int64_t> bytes_of) {
  const LanePieces pieces(group, bytes_of);
  std::vector<PartMove> moves;
  for (const PieceProduct& product : encode_products(group.num_data(), group.num_parity)) {
    PartMove move = move_of(product, pieces);
    if (move.bytes == 0) continue;
    move.from = product.source.member;
    move.to = product.target.member;
    move.source = file_of[size_t(product.source.member)];
    move.target = parity_file_name(lane, product.target.number);
    moves.push_back(std::move(move));
  }
  return moves;
}

Result<RebuildPlan> plan_rebuild(const HostsRecord& record, const CheckpointIndex& index,
                                 std::span<const HeldPart> holders) {
  RebuildPlan plan;
  for (const ParityGroup& group : record.groups()) {
    TRIREME_TRY_DONE(GroupRebuild(record, index, holders, group).add_to(plan));
  }
  for (const auto& [file, stored] : index.contents.shards) {
    if (plan.holder_of.contains(file)) continue;
    return damaged(
        fmt::format("step {}: no host of {} has written {}", record.step, kHostsFile, file));
  }
  return plan;
}

Result<RebuildPlan> plan_group_rebuild(const HostsRecord& record, const CheckpointIndex& index,
                                       std::span<const HeldPart> holders,
                                       const ParityGroup& group) {
  RebuildPlan plan;
  TRIREME_TRY_DONE(GroupRebuild(record, index, holders, group).add_to(plan));
  return plan;
}

NeededRanges needed_ranges(const CheckpointIndex& index, std::span<const TensorRequest> requests) {
  NeededRanges ranges;
  for (const TensorRequest& request : requests) {
    const auto found = index.contents.tensors.find(request.name);
    if (found == index.contents.tensors.end()) continue;  // refused by Checkpoint::read
    const StoredTensor& tensor = found->second;
    if (!(tensor.shape == request.full_shape)) continue;  // refused there, too
    for (const StoredSlice& slice : tensor.slices) {
      if (!overlap(request.slice, slice.slice, tensor.shape)) continue;
      ranges[slice.file].push_back(
          {slice.offset, slice.offset + slice.slice.num_elements() * size_of(tensor.dtype)});
    }
  }
  for (auto& [file, list] : ranges) sort_and_join(list);
  return ranges;
}

void merge_ranges(NeededRanges& ranges, const NeededRanges& more) {
  for (const auto& [file, list] : more) {
    std::vector<ByteRange>& all = ranges[file];
    all.insert(all.end(), list.begin(), list.end());
    sort_and_join(all);
  }
}

std::string print_ranges(const NeededRanges& ranges) {
  std::string text;
  for (const auto& [file, list] : ranges) {
    for (const ByteRange& range : list) {
      text += fmt::format("{} {} {}\n", file, range.begin, range.end);
    }
  }
  return text;
}

Result<NeededRanges> parse_ranges(std::string_view text, const CheckpointIndex& index) {
  NeededRanges ranges;
  std::istringstream lines{std::string(text)};
  std::string file;
  ByteRange range;
  while (lines >> file) {
    const auto shard = index.contents.shards.find(file);
    const bool is_valid = (lines >> range.begin >> range.end) &&
                          shard != index.contents.shards.end() && range.begin >= 0 &&
                          range.begin < range.end && range.end <= shard->second.bytes;
    if (!is_valid) return damaged("a rank has asked for bytes that no shard has");
    ranges[file].push_back(range);
  }
  for (auto& [name, list] : ranges) sort_and_join(list);
  return ranges;
}

std::vector<PartMove> fetch_moves(const CheckpointIndex& index,
                                  const std::map<std::string, int>& holder_of,
                                  std::span<const NeededRanges> needs) {
  const std::map<std::string, int64_t> headers = header_bytes(index);
  const int num_hosts = int(needs.size());
  std::vector<PartMove> moves;
  for (int to = 0; to < num_hosts; ++to) {
    for (const auto& [file, holder] : holder_of) {
      if (holder == to) continue;
      std::vector<ByteRange> ranges = {{0, headers.at(file)}};
      if (const auto found = needs[size_t(to)].find(file); found != needs[size_t(to)].end()) {
        ranges.insert(ranges.end(), found->second.begin(), found->second.end());
      }
      sort_and_join(ranges);
      for (const ByteRange& range : ranges) {
        moves.push_back({.from = holder,
                         .to = to,
                         .source = file,
                         .target = file,
                         .source_offset = range.begin,
                         .target_offset = range.begin,
                         .bytes = range.end - range.begin});
      }
    }
  }
  // In each turn every host gives to one other.
  std::stable_sort(moves.begin(), moves.end(), [&](const PartMove& a, const PartMove& b) {
    const auto turn = [&](const PartMove& m) { return (m.to - m.from + num_hosts) % num_hosts; };
    return turn(a) < turn(b);
  });
  return moves;
}

}  // namespace trireme
