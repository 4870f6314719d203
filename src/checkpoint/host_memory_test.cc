#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "checkpoint/hosts_fixture.h"
#include "checkpoint/load.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class HostMemoryTest : public HostsTest {
 protected:
  // Returns what a host holds, in the words in which it tells the others.
  HeldPart held_by(int host) {
    std::vector<std::string> problems;
    const auto found = find_parts(fs::path(folder(host)).parent_path(), 11, problems);
    if (found.empty()) return {};
    const Result<HeldPart> part = check_part(found.front(), 1, nullptr, problems);
    return part.ok() ? parse_held_part(print_held_part(*part), record_).value() : HeldPart{};
  }

  std::vector<HeldPart> held() {
    std::vector<HeldPart> parts;
    for (int host = 0; host < int(record_.hosts.size()); ++host) parts.push_back(held_by(host));
    return parts;
  }

  static std::vector<HeldPart> without(uint32_t lost, const std::vector<HeldPart>& whole) {
    std::vector<HeldPart> parts;
    for (size_t host = 0; host < whole.size(); ++host) {
      if ((lost >> host & 1) == 0) parts.push_back(whole[host]);
    }
    return parts;
  }

  // Rebuilds on the hosts that are left, and reads everything on the first of them, or a part on
  // every one of them.
  std::string problem_of_resume(const std::vector<HeldPart>& parts) {
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
        if (is_part) fs::create_hard_link(entry.path(), today.back() + "/" + name);
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
};

// Every set of at most m hosts, and every one of m + 1 hosts, which is refused.
TEST_F(HostMemoryTest, AnyLossOfAtMostMHostsIsRebuiltAndReadByTheOthers) {
  for (const auto& [k, m] : {std::pair{1, 1}, {2, 1}, {4, 2}, {8, 3}}) {
    save(k + m, k, m, m < 3 ? 2 : 1);
    const std::vector<HeldPart> whole = held();
    for (uint32_t lost = 0; lost + 1 < uint32_t{1} << (k + m); ++lost) {
      if (std::popcount(lost) > m + 1) continue;
      const std::string problem = problem_of_resume(without(lost, whole));
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
      const std::string problem = problem_of_resume(without(1u << a | 1u << b, held()));
      EXPECT_EQ(problem.empty(), a == b || a % 2 != b % 2) << a << " " << b << problem;
    }
  }
}

TEST_F(HostMemoryTest, AWholeFailureDomainMayBeLost) {
  domains_ = {"north", "south", "north", "south"};  // neighbours alone would give {0, 2} and {1, 3}
  save(4, 1, 1);
  EXPECT_EQ(problem_of_resume(without(0b0101, held())), "");
  EXPECT_EQ(problem_of_resume(without(0b1010, held())), "");
  EXPECT_NE(problem_of_resume(without(0b0011, held())), "");
  EXPECT_FALSE(record_.too_large_domain().has_value());
  EXPECT_EQ(print_hosts_record(parse_hosts_record(print_hosts_record(record_)).value()),
            print_hosts_record(record_));
}

TEST_F(HostMemoryTest, WithoutParityAllHostsAreNeeded) {
  save(3, 1, 0);
  EXPECT_EQ(problem_of_resume(held()), "");
  EXPECT_EQ(problem_of_resume(without(1, held())),
            "step 7 cannot be taken from memory: intact blocks are missing on h0, and there is no "
            "parity");
}

// Every byte of every file of a host: the shards, the parity, its checksums, the index and the
// record. One bit of each is flipped, a different one than in the byte before. After every 60th
// the state is read back from what is left.
TEST_F(HostMemoryTest, EveryFlippedByteOfAHostIsNoticedAndRepaired) {
  save(3, 2, 1);
  std::vector<HeldPart> parts = held();
  const HeldPart whole = parts[1];
  int64_t num_bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder(1))) {
    const std::string path = entry.path(), original = bytes_in(path);
    for (size_t at = 0; at < original.size(); ++at) {
      std::string bytes = original;
      bytes[at] = char(bytes[at] ^ 1 << at % 8);
      write_bytes(path, bytes);
      parts[1] = held_by(1);
      const bool is_noticed =
          parts[1].host < 0 || parts[1].blocks != whole.blocks || parts[1].rows != whole.rows;
      ASSERT_TRUE(is_noticed) << path << " byte " << at;
      if (num_bytes++ % 60 == 0) {
        ASSERT_EQ(problem_of_resume(parts), "") << path << " byte " << at;
      }
    }
    write_bytes(path, original);
  }
  EXPECT_GT(num_bytes, 2000);
}

// A parity file that has a checksum of its own is not taken for another one.
TEST_F(HostMemoryTest, APieceOfAnotherPlaceOrSaveIsRefused) {
  save(3, 2, 1);
  const std::string own = folder(1) + "/" + parity_file_name(0, 0);
  for (const std::string& other :
       {folder(0) + "/" + parity_file_name(0, 0), folder(1) + "/" + parity_file_name(1, 0)}) {
    const std::string original = bytes_in(own);
    write_bytes(own, bytes_in(other));
    EXPECT_FALSE(held_by(1).rows[0]);
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
