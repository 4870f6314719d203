#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/held_part.h"
#include "checkpoint/load.h"
#include "checkpoint/parity_file.h"
#include "checkpoint/rebuild_plan.h"
#include "erasure/reed_solomon.h"

// Hosts are folders here: moves are made by reading and writing files.
namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string bytes_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// `folder_of` has the folder of each host of the moves.
void apply_moves(std::span<const PartMove> moves, const std::vector<std::string>& folder_of) {
  for (const PartMove& move : moves) {
    const std::string source = bytes_in(folder_of[size_t(move.from)] + "/" + move.source);
    const std::string path = folder_of[size_t(move.to)] + "/" + move.target;
    std::string target = bytes_in(path);
    const size_t end = size_t(move.target_offset + move.bytes);
    if (target.size() < end) target.resize(end);
    const std::span to(target.data() + move.target_offset, size_t(move.bytes));
    if (move.is_first) std::ranges::fill(to, 0);
    add_product(move.coefficient,
                std::as_bytes(std::span(source).subspan(size_t(move.source_offset), to.size())),
                std::as_writable_bytes(to));
    write_bytes(path, target);
  }
}

// A checkpoint of one tensor and its state over hosts of one or two ranks each. The ranks have
// parts of different lengths; the last host has one rank.
class HostMemoryTest : public FolderTest {
 protected:
  static constexpr int64_t kPart = 40;

  std::string folder(int host) const { return fmt::format("{}/host{}/step-000007", root(), host); }

  void save(int num_hosts, int num_data, int num_parity) {
    HostsRecord record{.step = 7,
                       .job = 11,
                       .epoch = 2,
                       .num_data = num_data,
                       .num_parity = num_parity,
                       .hosts = {}};
    int num_ranks = 0;
    for (int host = 0; host < num_hosts; ++host) {
      record.hosts.push_back({fmt::format("h{}", host), {num_ranks++}});
      if (host + 1 < num_hosts) record.hosts.back().ranks.push_back(num_ranks++);
    }
    const Shape shape{int64_t(num_ranks) * kPart};
    values_.resize(size_t(shape[0]));
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = float(i) + 0.5f;
    // Part r + 1 begins 3 elements later than it would if all parts were alike.
    const auto begin_of = [&](int rank) {
      return rank == 0 ? 0 : rank == num_ranks ? shape[0] : rank * kPart + 3;
    };
    std::vector<IndexPart> parts;
    for (int host = 0; host < num_hosts; ++host) {
      fs::remove_all(folder(host));
      fs::create_directories(folder(host));
      for (const int rank : record.hosts[size_t(host)].ranks) {
        const int64_t first = begin_of(rank), count = begin_of(rank + 1) - first;
        const TensorPiece piece{"w", shape, DType::F32, Slice::range(first, count),
                                values_.data() + first};
        parts.push_back(write_shards(folder(host), rank, std::span(&piece, 1)).value());
        EXPECT_EQ(shard_bytes(std::span(&piece, 1)),
                  int64_t(fs::file_size(folder(host) + "/" + shard_file_name(rank, 0))));
      }
    }
    CheckpointIndex index{.info = SmallState(7).info};
    for (const IndexPart& part : parts) ASSERT_TRUE(merge_index_part(index.contents, part).ok());
    const std::string text = print_index(index);
    record.index_checksum = hash64(text);
    for (int host = 0; host < num_hosts; ++host) {
      record.own = host;
      write_bytes(folder(host) + "/index.json", text);
      write_bytes(folder(host) + "/" + kHostsFile, print_hosts_record(record));
    }
    record_ = record;
    index_ = index;
    encode();
  }

  void encode() {
    std::vector<std::byte> buffer(100);
    for (const ParityGroup& group : record_.groups()) {
      std::vector<std::string> folders;
      for (const int host : group.hosts) folders.push_back(folder(host));
      for (int lane = 0; lane < record_.num_lanes(); ++lane) {
        std::vector<std::string> files;
        std::vector<int64_t> bytes;
        for (const int host : group.hosts) {
          files.push_back(record_.shard_of(host, lane, index_));
          bytes.push_back(files.back().empty() ? 0 : index_.contents.shards.at(files.back()).bytes);
        }
        apply_moves(parity_moves(group, lane, files, bytes), folders);
        const int64_t piece =
            piece_bytes(*std::max_element(bytes.begin(), bytes.end()), group.num_data());
        for (const int host : group.hosts) {
          record_.own = host;
          for (int row = 0; row < group.num_parity; ++row) {
            ASSERT_TRUE(seal_parity_file(folder(host), record_, lane, row, piece, buffer).ok());
          }
        }
      }
    }
  }

  // What the hosts hold, without those of `lost`.
  std::vector<HeldPart> held(uint32_t lost) {
    std::vector<HeldPart> parts;
    for (int host = 0; host < int(record_.hosts.size()); ++host) {
      if ((lost >> host & 1) != 0) continue;
      std::vector<std::string> problems;
      const auto found = find_parts(fs::path(folder(host)).parent_path(), 11, problems);
      if (found.empty()) {
        parts.push_back({});
        continue;
      }
      const Result<HeldPart> part = check_part(found.front(), 1, nullptr, problems);
      parts.push_back(part.ok() ? parse_held_part(print_held_part(*part), record_).value()
                                : HeldPart{});
    }
    return parts;
  }

  // Rebuilds on the hosts that are left, and reads everything on the first of them, or a part on
  // every one of them.
  std::string problem_of_resume(uint32_t lost) {
    const std::vector<HeldPart> parts = held(lost);
    const Result<RebuildPlan> plan = plan_rebuild(record_, index_, parts);
    if (!plan.ok()) return plan.error().message;
    std::vector<std::string> today;
    for (size_t at = 0; at < parts.size(); ++at) {
      today.push_back(fmt::format("{}/today{}", root(), at));
      fs::remove_all(today.back());
      fs::create_directories(today.back());
      write_bytes(today.back() + "/index.json", print_index(index_));
      if (parts[at].host < 0) continue;
      for (const auto& entry : fs::directory_iterator(folder(parts[at].host))) {
        const std::string name = entry.path().filename();
        const bool is_part = name.starts_with("parity-") ||
                             (plan->holder_of.contains(name) &&
                              plan->holder_of.at(name) == int(at) && !plan->rebuilt.contains(name));
        if (is_part) fs::copy(entry.path(), today.back() + "/" + name);
      }
    }
    apply_moves(plan->moves, today);
    for (const auto& [file, at] : plan->rebuilt) {
      const Status intact = check_shard(today[size_t(at)] + "/" + file, file, index_, nullptr);
      if (!intact.ok()) return intact.error().message;
    }
    return problem_of_fetch(*plan, today);
  }

  // Every host reads a share that fits no part of the checkpoint.
  std::string problem_of_fetch(const RebuildPlan& plan, const std::vector<std::string>& today) {
    const Shape shape = index_.contents.tensors.at("w").shape;
    const int64_t share = shape[0] / int64_t(today.size());
    std::vector<float> out(size_t(shape[0]), 0.0f);
    std::vector<TensorRequest> requests;
    std::vector<NeededRanges> needs;
    for (size_t at = 0; at < today.size(); ++at) {
      const int64_t first = int64_t(at) * share;
      const int64_t count = at + 1 == today.size() ? shape[0] - first : share;
      requests.push_back({"w", shape, DType::F32, Slice::range(first, count), out.data() + first});
      const NeededRanges own = needed_ranges(index_, std::span(&requests.back(), 1));
      needs.push_back(parse_ranges(print_ranges(own), index_).value());
    }
    apply_moves(fetch_moves(index_, plan.holder_of, needs), today);
    for (size_t at = 0; at < today.size(); ++at) {
      for (const auto& [file, stored] : index_.contents.shards) {
        fs::resize_file(today[at] + "/" + file, uint64_t(stored.bytes));
      }
      const Result<Checkpoint> checkpoint = Checkpoint::open(today[at]);
      if (!checkpoint.ok()) return checkpoint.error().message;
      const Status read = checkpoint->read(std::span(&requests[at], 1));
      if (!read.ok()) return read.error().message;
    }
    return out == values_ ? "" : "other values";
  }

  HostsRecord record_;
  CheckpointIndex index_;
  std::vector<float> values_;
};

TEST_F(HostMemoryTest, AnyLossOfAtMostMHostsIsRebuiltAndReadByTheOthers) {
  for (const auto& [k, m] : {std::pair{1, 1}, {2, 1}, {4, 2}}) {
    save(k + m, k, m);
    for (uint32_t lost = 0; lost + 1 < uint32_t{1} << (k + m); ++lost) {
      const std::string problem = problem_of_resume(lost);
      if (std::popcount(lost) <= m) {
        ASSERT_EQ(problem, "") << k << "+" << m << " without " << lost;
      } else {
        ASSERT_NE(problem.find("step 7 cannot be taken from memory: of hosts h0, "),
                  std::string::npos)
            << problem;
      }
    }
  }
}

// Two groups: one host of each may be lost.
TEST_F(HostMemoryTest, GroupsAreRebuiltByThemselves) {
  save(5, 1, 1);
  for (int a = 0; a < 5; ++a) {
    for (int b = 0; b < 5; ++b) {
      const std::string problem = problem_of_resume(1u << a | 1u << b);
      EXPECT_EQ(problem.empty(), a == b || a % 2 != b % 2) << a << " " << b << problem;
    }
  }
}

TEST_F(HostMemoryTest, WithoutParityAllHostsAreNeeded) {
  save(3, 1, 0);
  EXPECT_EQ(problem_of_resume(0), "");
  EXPECT_EQ(problem_of_resume(1),
            "step 7 cannot be taken from memory: intact blocks are missing on h0, and there is no "
            "parity");
}

// Every byte of every file of a host: the shard, the parity, both of its checksums, the index and
// the record. The state comes back from the other hosts all the same.
TEST_F(HostMemoryTest, EveryFlippedByteOfAHostIsNoticedAndRepaired) {
  save(3, 2, 1);
  const std::vector<HeldPart> whole = held(0);
  int64_t num_bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder(1))) {
    const std::string path = entry.path(), original = bytes_in(path);
    const size_t stride = std::max<size_t>(1, original.size() / 60);
    for (size_t at = 0; at < original.size(); at += stride) {
      std::string bytes = original;
      bytes[at] = char(bytes[at] ^ 4);
      write_bytes(path, bytes);
      const HeldPart part = held(0)[1];
      const bool is_noticed =
          part.host < 0 || part.blocks != whole[1].blocks || part.rows != whole[1].rows;
      ASSERT_TRUE(is_noticed) << path << " byte " << at;
      if (at % (8 * stride) == 0) {
        ASSERT_EQ(problem_of_resume(0), "") << path << " byte " << at;
      }
      ++num_bytes;
    }
    write_bytes(path, original);
  }
  EXPECT_GT(num_bytes, 300);
}

// A parity file that has a checksum of its own is not taken for another one.
TEST_F(HostMemoryTest, APieceOfAnotherPlaceOrSaveIsRefused) {
  save(3, 2, 1);
  const std::string own = folder(1) + "/" + parity_file_name(0, 0);
  for (const std::string& other :
       {folder(0) + "/" + parity_file_name(0, 0), folder(1) + "/" + parity_file_name(1, 0)}) {
    const std::string original = bytes_in(own);
    write_bytes(own, bytes_in(other));
    EXPECT_FALSE(held(0)[1].rows[0]);
    write_bytes(own, original);
  }
  record_.own = 1;
  EXPECT_TRUE(check_parity_file(folder(1), record_, 0, 0, nullptr).ok());
  record_.epoch = 3;
  EXPECT_FALSE(check_parity_file(folder(1), record_, 0, 0, nullptr).ok());
}

TEST_F(HostMemoryTest, RecordsComeBackFromTheirTextAndOthersAreRefused) {
  save(4, 2, 1);
  const std::string text = print_hosts_record(record_);
  EXPECT_EQ(print_hosts_record(parse_hosts_record(text).value()), text);
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parse_hosts_record(text.substr(0, length)).ok());
  }
  std::vector<std::string> problems;
  EXPECT_TRUE(find_parts(root() + "/host0", 12, problems).empty());  // another job
  EXPECT_TRUE(problems.empty());
  EXPECT_FALSE(parse_held_part("9 .11 .1", record_).ok());
  EXPECT_FALSE(parse_held_part("0 .1 .1", record_).ok());
  EXPECT_FALSE(parse_held_part("0 .12 .1", record_).ok());
  EXPECT_FALSE(parse_ranges("nowhere 0 1\n", index_).ok());
  EXPECT_FALSE(parse_ranges(shard_file_name(0, 0) + " 5 99999\n", index_).ok());
}

}  // namespace
}  // namespace trireme
