#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "base/hash.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/held_part.h"
#include "checkpoint/parity_file.h"
#include "checkpoint/rebuild_plan.h"
#include "erasure/reed_solomon.h"

// Hosts are folders here: moves are made by reading and writing files.
namespace trireme {

inline std::string bytes_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// `folder_of` has the folder of each host of the moves. Every file is read and written once.
inline void apply_moves(std::span<const PartMove> moves,
                        const std::vector<std::string>& folder_of) {
  std::map<std::string, std::string> files;
  std::set<std::string> changed;
  const auto bytes_at = [&](const std::string& path) -> std::string& {
    const auto [file, is_new] = files.try_emplace(path);
    if (is_new) file->second = bytes_in(path);
    return file->second;
  };
  for (const PartMove& move : moves) {
    const std::string& source = bytes_at(folder_of[size_t(move.from)] + "/" + move.source);
    const std::string path = folder_of[size_t(move.to)] + "/" + move.target;
    std::string& target = bytes_at(path);
    changed.insert(path);
    const size_t end = size_t(move.target_offset + move.bytes);
    if (target.size() < end) target.resize(end);
    const std::span to(target.data() + move.target_offset, size_t(move.bytes));
    if (move.is_first) std::ranges::fill(to, 0);
    add_product(move.coefficient,
                std::as_bytes(std::span(source).subspan(size_t(move.source_offset), to.size())),
                std::as_writable_bytes(to));
  }
  for (const std::string& path : changed) write_bytes(path, files[path]);
}

// A checkpoint of one tensor and its state over hosts of one or two ranks each. The ranks have
// parts of different lengths; the last host has one rank.
class HostsTest : public FolderTest {
 protected:
  static constexpr int64_t kPart = 40;

  std::string folder(int host) const { return fmt::format("{}/host{}/step-000007", root(), host); }

  void save(int num_hosts, int num_data, int num_parity, int ranks_of_host = 2) {
    HostsRecord record{.step = 7,
                       .job = 11,
                       .epoch = 2,
                       .num_data = num_data,
                       .num_parity = num_parity,
                       .hosts = {}};
    int num_ranks = 0;
    for (int host = 0; host < num_hosts; ++host) {
      record.hosts.push_back({fmt::format("h{}", host),
                              domains_.empty() ? "" : domains_[size_t(host)],
                              {num_ranks++}});
      if (host + 1 == num_hosts) break;
      for (int lane = 1; lane < ranks_of_host; ++lane) {
        record.hosts.back().ranks.push_back(num_ranks++);
      }
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
      std::filesystem::remove_all(folder(host));
      std::filesystem::create_directories(folder(host));
      for (const int rank : record.hosts[size_t(host)].ranks) {
        const int64_t first = begin_of(rank), count = begin_of(rank + 1) - first;
        const TensorPiece piece{"w", shape, DType::F32, Slice::range(first, count),
                                values_.data() + first};
        parts.push_back(write_shards(folder(host), rank, std::span(&piece, 1)).value());
        EXPECT_EQ(
            shard_bytes(std::span(&piece, 1)),
            int64_t(std::filesystem::file_size(folder(host) + "/" + shard_file_name(rank, 0))));
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

  std::vector<std::string> domains_;  // [host]; empty: none
  HostsRecord record_;
  CheckpointIndex index_;
  std::vector<float> values_;
};

}  // namespace trireme
