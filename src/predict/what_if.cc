#include "predict/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

void sort(Disturbances& disturbances) {
  std::sort(disturbances.ranks.begin(), disturbances.ranks.end(),
            [](const SlowRank& a, const SlowRank& b) { return a.position < b.position; });
  std::sort(disturbances.links.begin(), disturbances.links.end(),
            [](const SlowLink& a, const SlowLink& b) { return a.tier < b.tier; });
}

// How near a rank is to the slow ones. The values are those of kWho.
enum Nearness { kIsSlow, kSharesLayers, kSharesPipeline, kElsewhere };
constexpr const char* kWho[] = {"the slow ranks", "ranks that share layers with a slow rank",
                                "other stages of a slow rank's pipeline",
                                "ranks of other pipelines"};

Nearness nearness(const DisturbedStep& step, int position, const std::vector<SlowRank>& slow) {
  Nearness nearest = kElsewhere;
  for (const SlowRank& rank : slow) {
    if (rank.position == position) return kIsSlow;
    if (step.pipeline_of(rank.position) != step.pipeline_of(position)) continue;
    nearest = std::min(
        nearest, step.are_together(rank.position, position) ? kSharesLayers : kSharesPipeline);
  }
  return nearest;
}

// Compares the waits of all ranks with those of the undisturbed step.
std::vector<WaitingRanks> waiting_ranks(const DisturbedStep& before, const DisturbedStep& after,
                                        const std::vector<SlowRank>& slow) {
  std::vector<WaitingRanks> groups(std::size(kWho));
  for (size_t i = 0; i < groups.size(); ++i) groups[i].who = kWho[i];
  if (slow.empty()) groups[kElsewhere].who = "all ranks";
  for (size_t position = 0; position < after.ranks().size(); ++position) {
    const RankSpent &now = after.ranks()[position], &then = before.ranks()[position];
    WaitingRanks& group = groups[nearness(after, int(position), slow)];
    ++group.num_ranks;
    group.in_layers_s += now.in_layers_s - then.in_layers_s;
    group.for_stages_s += now.for_stages_s - then.for_stages_s;
    group.at_end_s += now.at_end_s - then.at_end_s;
  }
  std::erase_if(groups, [](const WaitingRanks& group) { return group.num_ranks == 0; });
  for (WaitingRanks& group : groups) {
    for (double* sum : {&group.in_layers_s, &group.for_stages_s, &group.at_end_s}) {
      *sum /= group.num_ranks;
    }
  }
  return groups;
}

// Each disturbance by itself.
std::vector<Cause> causes_of(const Disturbances& disturbances) {
  std::vector<Cause> causes;
  for (const SlowRank& rank : disturbances.ranks) {
    causes.push_back(
        {.option = fmt::format("--slow-rank {}={}", rank.position, rank.factor),
         .what = fmt::format("Rank {} computes {} times as long", rank.position, rank.factor),
         .remedy = fmt::format("free the host of rank {} of other work, or replace its device",
                               rank.position)});
  }
  for (const SlowLink& link : disturbances.links) {
    causes.push_back(
        {.option = fmt::format("--slow-link {}={}", link.tier, link.share),
         .what = fmt::format("Links of tier {} carry {} of their bandwidth", link.tier, link.share),
         .remedy = fmt::format("repair the links of tier {}", link.tier),
         .is_of_links = true});
  }
  const Jitter& jitter = disturbances.jitter;
  if (jitter.sigma > 0.0) {
    causes.push_back({.option = fmt::format("--jitter {} --seed {}", jitter.sigma, jitter.seed),
                      .what = fmt::format("Times vary by {:g} %", 100.0 * jitter.sigma),
                      .remedy = "steady the times: clocks, power limits, other jobs of the hosts"});
  }
  return causes;
}

// Of the disturbances, the one with this index in causes_of, or all but this one.
Disturbances only(const Disturbances& all, size_t index) {
  const size_t num_ranks = all.ranks.size();
  if (index < num_ranks) return {.ranks = {all.ranks[index]}};
  if (index < num_ranks + all.links.size()) return {.links = {all.links[index - num_ranks]}};
  return {.jitter = all.jitter};
}
Disturbances all_but(Disturbances all, size_t index) {
  const size_t num_ranks = all.ranks.size();
  if (index < num_ranks) {
    all.ranks.erase(all.ranks.begin() + int64_t(index));
  } else if (index < num_ranks + all.links.size()) {
    all.links.erase(all.links.begin() + int64_t(index - num_ranks));
  } else {
    all.jitter = {};
  }
  return all;
}

// Steps of one plan under several disturbances. Most leave the links alone, so their prices are
// kept.
class Steps {
 public:
  Steps(const RunPlan& plan, const Hardware& hardware) : plan_(plan), hardware_(hardware) {}

  Result<double> seconds(const Disturbances& disturbances) {
    TRIREME_TRY(priced, prices(disturbances.links));
    return DisturbedStep(*priced, disturbances.ranks, disturbances.jitter).step_s();
  }
  Result<std::shared_ptr<const PricedPlan>> prices(const std::vector<SlowLink>& links) {
    std::shared_ptr<const PricedPlan>& kept = links.empty() ? undisturbed_ : disturbed_;
    if (kept != nullptr && (links.empty() || links == links_)) return kept;
    TRIREME_TRY(priced, price_plan(plan_, with_slow_links(hardware_, links)));
    kept = std::make_shared<const PricedPlan>(std::move(priced));
    if (!links.empty()) links_ = links;
    return kept;
  }

 private:
  const RunPlan& plan_;
  const Hardware& hardware_;
  // WhatIf shares those of the whole step.
  std::shared_ptr<const PricedPlan> undisturbed_, disturbed_;
  std::vector<SlowLink> links_;  // of disturbed_
};

}  // namespace

Result<WhatIf> what_if(const RunPlan& plan, const Hardware& hardware, Disturbances disturbances) {
  TRIREME_TRY_DONE(check_disturbances(disturbances, plan.num_ranks(), hardware));
  sort(disturbances);
  Steps steps(plan, hardware);
  TRIREME_TRY(undisturbed, steps.prices({}));
  const DisturbedStep before(*undisturbed, {}, {});
  WhatIf result;
  result.undisturbed_s = before.step_s();
  result.causes = causes_of(disturbances);
  for (size_t i = 0; i < result.causes.size(); ++i) {
    TRIREME_TRY(alone_s, steps.seconds(only(disturbances, i)));
    TRIREME_TRY(without_s, steps.seconds(all_but(disturbances, i)));
    result.causes[i].alone_s = alone_s;
    result.causes[i].without_s = without_s;
  }
  TRIREME_TRY(priced, steps.prices(disturbances.links));
  result.priced = priced;
  result.step =
      std::make_unique<const DisturbedStep>(*priced, disturbances.ranks, disturbances.jitter);
  result.waiting = waiting_ranks(before, *result.step, disturbances.ranks);
  return result;
}

}  // namespace trireme
