#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "comm/group.h"
#include "layout_case.h"
#include "layout_laws.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

// A call over the ranks that share layers, sequences or experts. It is the same on all of them.
// Sending to a neighbour and receiving from one count as one call.
struct Call {
  std::string group;
  bool is_transfer = false;
  int number = 0;  // among the calls of the group
  Collective collective = Collective::Barrier;
  std::string place;
};

// Counts every rank's calls and makes one of them `times` times.
class Calls {
 public:
  explicit Calls(int num_ranks) : ranks_(size_t(num_ranks)) {}
  Calls(int num_ranks, const Call& damaged, int times) : Calls(num_ranks) {
    damaged_ = &damaged;
    times_ = times;
  }

  int operator()(const Group& group, Collective collective, const CallSite& site) {
    const bool is_inside_layers = group.name().starts_with("tp") ||
                                  group.name().starts_with("cp") || group.name().starts_with("ep");
    if (group.size() == 1 || !is_inside_layers) return 1;
    Rank& rank = ranks_[size_t(group.members()[size_t(group.rank())])];
    const bool is_transfer = collective == Collective::Send || collective == Collective::Recv;
    const int kind = collective == Collective::Send ? 1 : collective == Collective::Recv ? 2 : 0;
    const int number = rank.counts[{group.name(), kind}]++;
    if (collective != Collective::Recv) {
      const std::string file = site.file_name();
      rank.calls.push_back({group.name(), is_transfer, number, collective,
                            fmt::format("{}:{}", file.substr(file.rfind('/') + 1), site.line())});
    }
    const bool is_damaged = damaged_ != nullptr && damaged_->group == group.name() &&
                            damaged_->is_transfer == is_transfer && damaged_->number == number;
    return is_damaged ? times_ : 1;
  }

  const std::vector<Call>& of_first_rank() const { return ranks_.front().calls; }

 private:
  struct Rank {
    std::map<std::pair<std::string, int>, int> counts;
    std::vector<Call> calls;
  };
  std::vector<Rank> ranks_;  // one per rank
  const Call* damaged_ = nullptr;
  int times_ = 1;
};

RunPlan short_plan(const Case& c) {
  RunConfig config = config_of(c);
  config.model.layers = 1;
  // Every expert has tokens from every rank.
  if (c.family.starts_with("moe")) config.model.experts = 4;
  config.batch.micro_sequences = c.family.starts_with("moe") ? 4 : 1;
  config.batch.global_sequences = config.batch.micro_sequences * c.dp;
  config.optim.clip_norm = 1e6;
  config.run.comm_timeout_s = 5.0;
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), c.name() + ": " + plan.error().message);
  return *plan;
}

LayoutRun run_step(const RunPlan& plan, Calls& calls) {
  return run_layout(
      plan, {.end = 1, .reads_visits = true, .evaluates = false, .call_hook = std::ref(calls)});
}

// Returns who notices that a redistribution of a step is missing or doubled: "refused" (the ranks
// themselves), "numbers" (outside the bounds of parity), "bytes" (not as planned), or "" (nobody).
std::string noticed_by(const RunPlan& plan, const LayoutRun& intact, const Call& call, int times) {
  Calls calls(plan.num_ranks(), call, times);
  try {
    const LayoutRun run = run_step(plan, calls);
    const bool has_other_visits =
        run.expert_loads != intact.expert_loads || run.visits != intact.visits;
    if (has_other_visits || !beyond_bounds(run, intact).empty()) return "numbers";
    return run.differences.empty() && run.sent_bytes == intact.sent_bytes ? "" : "bytes";
  } catch (const std::exception&) {
    return "refused";
  }
}

using Tally = std::map<std::string, int>;  // "left out: numbers" -> count

void damage_every_call(const Case& c, Tally& tally) {
  const RunPlan plan = short_plan(c);
  Calls calls(plan.num_ranks());
  const LayoutRun intact = run_step(plan, calls);
  ASSERT_EQ(intact.differences, "") << c.name();
  ASSERT_FALSE(calls.of_first_rank().empty()) << c.name();
  for (const Call& call : calls.of_first_rank()) {
    const auto what = [&] {
      return fmt::format("{}: {} {} of {} ({})", c.name(), name_of(call.collective), call.number,
                         call.group, call.place);
    };
    const std::string without = noticed_by(plan, intact, call, 0);
    EXPECT_TRUE(without == "numbers" || without == "refused") << what() << " left out: " << without;
    ++tally["left out: " + without];
    const std::string twice = noticed_by(plan, intact, call, 2);
    EXPECT_NE(twice, "") << what() << " twice";
    // Doubling a sum changes it. An exception is the bias of keys, whose gradient is zero.
    const bool is_sum = call.collective == Collective::AllReduce;
    const bool is_of_a_gradient = call.place.starts_with("grad_addends");
    EXPECT_TRUE(!is_sum || is_of_a_gradient || twice == "numbers") << what() << " twice: " << twice;
    ++tally["twice: " + twice];
  }
}

const char* const kDamagedFamilies[] = {"gpt2", "llama", "moe", "moe_capacity"};

std::vector<Case> small_layouts() {
  return {{.tp = 2},
          {.tp = 2, .sequence = true},
          {.schedule = ScheduleKind::ZbH1, .recompute = Recompute::Full, .tp = 2, .sequence = true},
          {.tp = 2, .tp_overlap = true},
          {.tp = 2, .sequence = true, .tp_overlap = true},
          {.cp = 2},
          {.cp = 2, .context = ContextExchange::AllToAll},
          {.dp = 2, .ep = 2}};
}

// Damages every redistribution of a step, forward and backward, one at a time.
void damage_every_layout(const std::vector<Case>& layouts) {
  Tally tally;
  for (const char* family : kDamagedFamilies) {
    for (Case c : layouts) {
      c.family = family;
      c.is_wide = true;
      if (is_possible(c)) damage_every_call(c, tally);
    }
  }
  for (const auto& [what, count] : tally) fmt::print("{:<20} {}\n", what, count);
}

TEST(DamagedRedistribution, IsNoticedWhereverItStands) { damage_every_layout(small_layouts()); }

TEST(DamagedRedistributionInFull, IsNoticedOnFourRanks) {
  damage_every_layout({{.tp = 4, .sequence = true},
                       {.tp = 4},
                       {.recompute = Recompute::Full, .cp = 4},
                       {.cp = 4, .context = ContextExchange::AllToAll},
                       {.tp = 2, .sequence = true, .cp = 2},
                       {.tp = 2, .cp = 2, .context = ContextExchange::AllToAll},
                       {.dp = 4, .ep = 4},
                       {.cp = 2, .ep = 2},
                       {.dp = 2, .tp = 2, .ep = 2},
                       {.dp = 2, .recompute = Recompute::Full, .cp = 2, .ep = 4}});
}

}  // namespace
}  // namespace trireme
