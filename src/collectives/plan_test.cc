#include "collectives/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <numeric>

#include "collectives/closed_form.h"

namespace trireme {
namespace {

const std::vector<int> kSizes = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16};
const std::vector<int64_t> kCounts = {0, 1, 3, 5, 12, 48, 100, 240};

struct Case {
  Collective collective;
  Algorithm algorithm;
  int size;
  int64_t count;
  int root;
  std::string name() const {
    return fmt::format("{} {} N={} M={} root={}", name_of(collective), name_of(algorithm), size,
                       count, root);
  }
};

template <typename Visit>
void for_each_case(Visit visit) {
  for (int c = 0; c <= int(Collective::Barrier); ++c) {
    for (int size : kSizes) {
      for (Algorithm algorithm : algorithms_of(Collective(c), size)) {
        for (int64_t count : kCounts) {
          const int last_root = is_rooted(Collective(c)) ? size - 1 : 0;
          for (int root = 0; root <= last_root; root += std::max(1, size / 3)) {
            visit(Case{Collective(c), algorithm, size, count, root});
          }
        }
      }
    }
  }
}

std::vector<CommPlan> plans_of(const Case& c, std::span<const int> node_of = {}) {
  std::vector<CommPlan> plans;
  for (int rank = 0; rank < c.size; ++rank) {
    plans.push_back(plan_collective({.collective = c.collective,
                                     .algorithm = c.algorithm,
                                     .rank = rank,
                                     .size = c.size,
                                     .root = c.root,
                                     .count = c.count,
                                     .node_of = node_of})
                        .value());
  }
  return plans;
}

// Executes the plans of all ranks round by round on integers and checks the laws of a plan. A rank
// has at most one message per direction and round; its peer has a message of the same length in the
// same round; sent memory does not overlap memory received at the same time.
struct Interpreter {
  std::vector<std::array<std::vector<int64_t>, 3>> memory;  // [rank][Memory]

  int64_t* at(int rank, Piece p) {
    auto& m = memory[rank][int(p.memory)];
    EXPECT_GE(p.begin, 0);
    if (p.count > 0) {
      EXPECT_LE(p.begin + p.count, int64_t(m.size()));
    }
    return m.data() + p.begin;
  }

  void local(int rank, const Step& step, int size) {
    if (step.kind == Step::Kind::Copy) {
      ASSERT_EQ(step.send.count, step.recv.count);
      std::vector<int64_t> moved(at(rank, step.send), at(rank, step.send) + step.send.count);
      std::copy(moved.begin(), moved.end(), at(rank, step.recv));
      return;
    }
    std::vector<int64_t> sum(at(rank, step.operand), at(rank, step.operand) + step.recv.count);
    for (int r = 0; r < size; ++r) {
      if (r == rank) continue;
      const int64_t* part = at(rank, {Memory::Tmp, r * step.recv.count, step.recv.count});
      for (int64_t i = 0; i < step.recv.count; ++i) sum[i] += part[i];
    }
    std::copy(sum.begin(), sum.end(), at(rank, step.recv));
  }

  void land(int rank, const Step& step, const std::vector<int64_t>& received) {
    ASSERT_EQ(int64_t(received.size()), step.recv.count);
    int64_t* target = at(rank, step.recv);
    const bool reduces = step.landing != Landing::Copy;
    if (reduces) {
      ASSERT_EQ(step.operand.count, step.recv.count);
    }
    const int64_t* operand = reduces ? at(rank, step.operand) : nullptr;
    for (size_t i = 0; i < received.size(); ++i) {
      target[i] = received[i] + (reduces ? operand[i] : 0);
    }
  }

  void run(const std::vector<CommPlan>& plans) {
    const int size = int(plans.size());
    std::vector<size_t> next(size, 0);
    for (int round = 0; round <= plans[0].rounds; ++round) {
      std::map<std::pair<int, int>, std::vector<int64_t>> in_flight;
      std::vector<const Step*> current(size, nullptr);
      for (int rank = 0; rank < size; ++rank) {
        const auto& steps = plans[rank].steps;
        ASSERT_EQ(plans[rank].rounds, plans[0].rounds);
        while (next[rank] < steps.size() && steps[next[rank]].kind != Step::Kind::Exchange) {
          local(rank, steps[next[rank]++], size);
        }
        if (next[rank] == steps.size()) continue;
        ASSERT_GE(steps[next[rank]].round, round) << "two exchanges in one round";
        if (steps[next[rank]].round != round) continue;
        const Step& step = *(current[rank] = &steps[next[rank]++]);
        ASSERT_NE(step.send_to, rank);
        if (step.send_to >= 0 && step.recv_from >= 0 && step.send.memory == step.recv.memory) {
          EXPECT_TRUE(step.send.begin + step.send.count <= step.recv.begin ||
                      step.recv.begin + step.recv.count <= step.send.begin ||
                      step.send.count == 0 || step.recv.count == 0);
        }
        if (step.send_to >= 0) {
          const int64_t* data = at(rank, step.send);
          in_flight[{rank, step.send_to}].assign(data, data + step.send.count);
        }
      }
      for (int rank = 0; rank < size; ++rank) {
        if (current[rank] == nullptr || current[rank]->recv_from < 0) continue;
        const auto found = in_flight.find({current[rank]->recv_from, rank});
        ASSERT_NE(found, in_flight.end()) << "rank " << rank << " round " << round;
        land(rank, *current[rank], found->second);
        in_flight.erase(found);
      }
      ASSERT_TRUE(in_flight.empty()) << "a message that nobody receives in round " << round;
    }
    for (int rank = 0; rank < size; ++rank) ASSERT_EQ(next[rank], plans[rank].steps.size());
  }
};

int64_t element(int rank, int64_t i) { return (rank + 1) * 1000 + i; }

void check_result(const Case& c, Interpreter& world) {
  const int n = c.size;
  const auto sum = [&](int64_t i) {
    int64_t s = 0;
    for (int r = 0; r < n; ++r) s += element(r, i);
    return s;
  };
  for (int r = 0; r < n; ++r) {
    const auto& out = world.memory[r][int(Memory::Out)];
    const int64_t own = balanced_count(c.count, n, r);
    const int64_t own_begin = balanced_begin(c.count, n, r);
    switch (c.collective) {
      case Collective::AllReduce:
        for (int64_t i = 0; i < c.count; ++i) ASSERT_EQ(out[i], sum(i));
        break;
      case Collective::Reduce:
        for (int64_t i = 0; r == c.root && i < c.count; ++i) ASSERT_EQ(out[i], sum(i));
        break;
      case Collective::Broadcast:
        for (int64_t i = 0; i < c.count; ++i) ASSERT_EQ(out[i], element(c.root, i));
        break;
      case Collective::Scatter:
        for (int64_t i = 0; i < own; ++i) ASSERT_EQ(out[i], element(c.root, own_begin + i));
        break;
      case Collective::ReduceScatter:
        for (int64_t i = 0; i < own; ++i) ASSERT_EQ(out[i], sum(own_begin + i));
        break;
      case Collective::Gather:
      case Collective::AllGather:
        for (int s = 0; s < n; ++s) {
          if (c.collective == Collective::Gather && r != c.root) continue;
          for (int64_t i = 0; i < balanced_count(c.count, n, s); ++i) {
            ASSERT_EQ(out[balanced_begin(c.count, n, s) + i], element(s, i));
          }
        }
        break;
      case Collective::AllToAll:
        for (int s = 0; s < n; ++s) {
          for (int64_t i = 0; i < own; ++i) {
            ASSERT_EQ(out[s * own + i], element(s, own_begin + i));
          }
        }
        break;
      default:
        break;
    }
  }
}

void run_case(const Case& c, std::span<const int> node_of = {}) {
  SCOPED_TRACE(c.name());
  const std::vector<CommPlan> plans = plans_of(c, node_of);
  Interpreter world;
  world.memory.resize(c.size);
  const bool in_place =
      c.collective == Collective::AllReduce || c.collective == Collective::Broadcast;
  for (int r = 0; r < c.size; ++r) {
    auto& [in, out, tmp] = world.memory[r];
    in.resize(c.count);
    for (int64_t i = 0; i < c.count; ++i) in[i] = element(r, i);
    out.assign(c.count + c.size, -1);
    if (in_place) std::copy(in.begin(), in.end(), out.begin());
    tmp.assign(plans[r].tmp_count, -7);
  }
  if (c.collective == Collective::AllToAll) {
    for (int r = 0; r < c.size; ++r) {
      world.memory[r][1].resize(c.size * balanced_count(c.count, c.size, r));
    }
  }
  world.run(plans);
  if (!testing::Test::HasFatalFailure()) check_result(c, world);
}

TEST(CommPlan, EveryAlgorithmComputesItsCollectiveWithMatchedRounds) {
  for_each_case([](const Case& c) {
    if (!testing::Test::HasFatalFailure()) run_case(c);
  });
}

TEST(CommPlan, HierarchicalIsRightForEveryNodeSize) {
  for (int size : kSizes) {
    for (int per_node = 1; per_node <= size; ++per_node) {
      std::vector<int> node_of(size);
      for (int r = 0; r < size; ++r) node_of[r] = r / per_node;
      for (int64_t count : kCounts) {
        run_case({Collective::AllReduce, Algorithm::Hierarchical, size, count, 0}, node_of);
      }
    }
  }
}

int log2_ceil(int n) { return std::bit_width(unsigned(n - 1)); }

// The formulas of docs/collectives.md; -1: no closed form per rank.
struct Expected {
  int rounds = -1;
  int64_t sent = -1;
  int64_t received = -1;
  int64_t total = -1;
};

int children(int i, int n) {
  int count = 0;
  for (int bit = 1; bit < n && (i & bit) == 0; bit *= 2) count += i + bit < n;
  return count;
}

Expected all_reduce_cost(const Case& k, int r) {
  const int n = k.size;
  const int64_t m = k.count;
  const auto c = [&](int i) { return balanced_count(m, n, ((i % n) + n) % n); };
  const int levels = log2_ceil(n);
  const int p = int(std::bit_floor(unsigned(n)));
  const int rest = n - p;
  const int k2 = std::bit_width(unsigned(p)) - 1;
  switch (k.algorithm) {
    case Algorithm::ParameterServer: {
      const int64_t each = r == 0 ? (n - 1) * m : m;
      return {2 * (n - 1), n == 1 ? 0 : each, n == 1 ? 0 : each, 2 * (n - 1) * m};
    }
    case Algorithm::Naive:
      return {n - 1, (n - 1) * m, (n - 1) * m, n * (n - 1) * m};
    case Algorithm::Ring:
    case Algorithm::Hierarchical:  // all ranks on one node
      if (n == 1) return {0, 0, 0, 0};
      return {2 * (n - 1), 2 * m - c(r + 1) - c(r + 2), 2 * m - c(r) - c(r + 1), 2 * (n - 1) * m};
    case Algorithm::Tree: {
      const int64_t each = m * ((r != 0) + children(r, n));
      return {2 * levels, each, each, 2 * (n - 1) * m};
    }
    case Algorithm::Doubling: {
      int64_t each = k2 * m;
      if (r < 2 * rest) each = r % 2 == 0 ? m : (k2 + 1) * m;
      return {k2 + (rest > 0 ? 2 : 0), each, each, (int64_t(p) * k2 + 2 * rest) * m};
    }
    case Algorithm::HalvingDoubling: {
      Expected e{2 * k2 + (rest > 0 ? 2 : 0), -1, -1, 2 * (n - 1) * m};
      if (m % p == 0) {
        e.sent = 2 * m * (p - 1) / p;
        if (r < 2 * rest) e.sent = r % 2 == 0 ? m : m + e.sent;
        e.received = e.sent;
      }
      return e;
    }
    default:
      return {};
  }
}

Expected cost(const Case& k, int r) {
  const int n = k.size;
  const int64_t m = k.count;
  const auto c = [&](int i) { return balanced_count(m, n, ((i % n) + n) % n); };
  const int levels = log2_ceil(n);
  const int64_t all = (n - 1) * m;
  const bool linear = k.algorithm == Algorithm::Naive || k.algorithm == Algorithm::ParameterServer;
  const bool is_root = r == k.root;
  const int v = (r - k.root + n) % n;
  switch (k.collective) {
    case Collective::AllReduce:
      return all_reduce_cost(k, r);
    case Collective::Reduce:
      if (linear) return {n - 1, is_root ? 0 : m, is_root ? all : 0, all};
      if (k.algorithm == Algorithm::Tree) {
        return {levels, is_root ? 0 : m, m * children(v, n), all};
      }
      return {2 * (n - 1), n == 1 ? 0 : is_root ? m - c(k.root) : m, -1, -1};
    case Collective::Broadcast:
      if (linear) return {n - 1, is_root ? all : 0, is_root ? 0 : m, all};
      if (k.algorithm == Algorithm::Tree) {
        return {levels, m * children(v, n), is_root ? 0 : m, all};
      }
      return {n == 1 ? 0 : n - 1, v == n - 1 ? 0 : m, is_root ? 0 : m, all};
    case Collective::Scatter:
      if (linear) {
        return {n - 1, is_root ? m - c(k.root) : 0, is_root ? 0 : c(r), m - c(k.root)};
      }
      return {levels, is_root ? m - c(k.root) : -1, -1,
              m % n == 0 && std::has_single_bit(unsigned(n)) ? m / 2 * levels + m % 2 * levels / 2
                                                             : -1};
    case Collective::Gather:
      if (linear) {
        return {n - 1, is_root ? 0 : c(r), is_root ? m - c(k.root) : 0, m - c(k.root)};
      }
      return {levels, -1, is_root ? m - c(k.root) : -1, -1};
    case Collective::AllGather:
      if (k.algorithm == Algorithm::Naive) return {n - 1, (n - 1) * c(r), m - c(r), all};
      if (k.algorithm == Algorithm::Ring) {
        return {n - 1, n == 1 ? 0 : m - c(r + 1), m - c(r), all};
      }
      return {levels, -1, m - c(r), all};
    case Collective::ReduceScatter:
      if (k.algorithm == Algorithm::Ring) {
        return {n - 1, m - c(r), n == 1 ? 0 : m - c(r - 1), all};
      }
      if (k.algorithm == Algorithm::Naive) return {n - 1, m - c(r), (n - 1) * c(r), all};
      return {levels, -1, -1, all};
    case Collective::AllToAll:
      if (k.algorithm == Algorithm::Naive) return {n - 1, m - c(r), (n - 1) * c(r), all};
      if (k.algorithm == Algorithm::Ring) {
        return {n - 1, m % n == 0 ? m / n * (n * (n - 1) / 2) : -1, -1,
                m % n == 0 ? m * (n * (n - 1) / 2) : -1};
      } else {
        int64_t hops = 0;
        for (int d = 0; d < n; ++d) hops += std::popcount(unsigned(d));
        return {levels, m % n == 0 ? m / n * hops : -1, m % n == 0 ? m / n * hops : -1, -1};
      }
    case Collective::Barrier:
      return {levels, 0, 0, 0};
    default:
      return {};
  }
}

TEST(CommPlan, RoundsAndElementsFollowTheClosedForms) {
  for_each_case([](const Case& c) {
    SCOPED_TRACE(c.name());
    const std::vector<CommPlan> plans = plans_of(c);
    int64_t sent = 0;
    int64_t received = 0;
    for (int r = 0; r < c.size; ++r) {
      const PlanTraffic traffic = traffic_of(plans[r]);
      const Expected expected = cost(c, r);
      EXPECT_EQ(plans[r].rounds, expected.rounds) << "rank " << r;
      EXPECT_EQ(sent_elements({.collective = c.collective,
                               .algorithm = c.algorithm,
                               .rank = r,
                               .size = c.size,
                               .root = c.root,
                               .count = c.count}),
                traffic.sent)
          << "rank " << r;
      if (expected.sent >= 0) {
        EXPECT_EQ(traffic.sent, expected.sent) << "rank " << r;
      }
      if (expected.received >= 0) {
        EXPECT_EQ(traffic.received, expected.received) << "rank " << r;
      }
      sent += traffic.sent;
      received += traffic.received;
    }
    EXPECT_EQ(sent, received);
    const Expected expected = cost(c, 0);
    if (expected.total >= 0) {
      EXPECT_EQ(sent, expected.total);
    }
  });
}

TEST(CommPlan, PublishedExamples) {
  const auto sent = [](Algorithm algorithm, int size, int64_t count) {
    std::vector<int64_t> per_rank;
    for (const CommPlan& plan : plans_of({Collective::AllReduce, algorithm, size, count, 0})) {
      per_rank.push_back(traffic_of(plan).sent);
    }
    return per_rank;
  };
  using V = std::vector<int64_t>;
  EXPECT_EQ(sent(Algorithm::Ring, 8, 48), V(8, 84));
  EXPECT_EQ(sent(Algorithm::Tree, 8, 48), (V{144, 48, 96, 48, 144, 48, 96, 48}));
  EXPECT_EQ(sent(Algorithm::Doubling, 8, 48), V(8, 144));
  EXPECT_EQ(sent(Algorithm::HalvingDoubling, 8, 48), V(8, 84));
  EXPECT_EQ(sent(Algorithm::HalvingDoubling, 6, 48), (V{48, 120, 48, 120, 72, 72}));
  EXPECT_EQ(sent(Algorithm::Doubling, 6, 48), (V{48, 144, 48, 144, 96, 96}));
  EXPECT_EQ(sent(Algorithm::Ring, 6, 100), (V{166, 166, 167, 168, 167, 166}));
}

TEST(CommPlan, AllReduceIsReduceScatterAndAllGatherInTotal) {
  for (int size : kSizes) {
    for (int64_t count : kCounts) {
      const auto total = [&](Collective collective) {
        int64_t sum = 0;
        for (const CommPlan& p : plans_of({collective, Algorithm::Ring, size, count, 0})) {
          sum += traffic_of(p).sent;
        }
        return sum;
      };
      EXPECT_EQ(total(Collective::AllReduce),
                total(Collective::ReduceScatter) + total(Collective::AllGather));
    }
  }
}

TEST(CommPlan, HierarchicalCrossesNodesWithTwiceTheShardOnly) {
  for (int nodes : {1, 2, 3, 4}) {
    for (int per_node : {1, 2, 4}) {
      const int size = nodes * per_node;
      const int64_t count = 240;
      std::vector<int> node_of(size);
      for (int r = 0; r < size; ++r) node_of[r] = r / per_node;
      const auto plans =
          plans_of({Collective::AllReduce, Algorithm::Hierarchical, size, count, 0}, node_of);
      for (int r = 0; r < size; ++r) {
        EXPECT_EQ(plans[r].rounds, 2 * (per_node - 1) + 2 * (nodes - 1));
        if (count % size == 0) {
          EXPECT_EQ(traffic_of(plans[r]).sent, 2 * count * (size - 1) / size);
        }
        int64_t across = 0;
        for (const Step& s : plans[r].steps) {
          if (s.send_to >= 0 && node_of[s.send_to] != node_of[r]) across += s.send.count;
        }
        if (count % size == 0) {
          EXPECT_EQ(across, 2 * (count / per_node) * (nodes - 1) / nodes);
        }
      }
    }
  }
}

TEST(CommPlan, RefusesWithTheAlgorithmsThatApply) {
  const auto refused = plan_collective({.collective = Collective::ReduceScatter,
                                        .algorithm = Algorithm::HalvingDoubling,
                                        .size = 6});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("it has: naive ring"), std::string::npos);
}

TEST(ClosedForm, IsWhatThePlansOfAllRanksSend) {
  int num_forms = 0;
  for_each_case([&](const Case& c) {
    const std::optional<ClosedForm> form = closed_form(c.collective, c.algorithm, c.size, c.count);
    if (!form) return;
    int64_t sent = 0;
    for (const CommPlan& plan : plans_of(c)) sent += traffic_of(plan).sent;
    EXPECT_EQ(form->elements, sent) << c.name();
    ++num_forms;
  });
  EXPECT_GT(num_forms, 1000);
}

}  // namespace
}  // namespace trireme
