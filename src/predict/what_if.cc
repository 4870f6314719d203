#include "predict/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme {
namespace {

void sort(Disturbances& disturbances) {
  std::sort(disturbances.ranks.begin(), disturbances.ranks.end(),
            [](const SlowedRank& a, const SlowedRank& b) { return a.position < b.position; });
  std::sort(disturbances.links.begin(), disturbances.links.end(),
            [](const SlowLink& a, const SlowLink& b) { return a.tier < b.tier; });
}

// How near a rank is to the slow ones. The values are those of kWho.
enum Nearness { kIsSlow, kSharesLayers, kSharesPipeline, kElsewhere };
constexpr const char* kWho[] = {"the slow ranks", "ranks that share layers with a slow rank",
                                "other stages of a slow rank's pipeline",
                                "ranks of other pipelines"};

Nearness nearness(const Mesh& mesh, const Pipelines& pipelines, int position,
                  const std::vector<SlowedRank>& slow) {
  Nearness nearest = kElsewhere;
  for (const SlowedRank& rank : slow) {
    if (rank.position == position) return kIsSlow;
    if (pipelines.of(rank.position) != pipelines.of(position)) continue;
    const bool is_same_stage = coords_of(mesh, rank.position).pp == coords_of(mesh, position).pp;
    nearest = std::min(nearest, is_same_stage ? kSharesLayers : kSharesPipeline);
  }
  return nearest;
}

// What slower links add to the transfers of a rank that nothing hides: kernels are as fast as
// before in the step that has slow links alone.
double longer_transfers(const RankSpent& with_links, const RankSpent& before) {
  return with_links.busy_s + with_links.tail_s - before.busy_s - before.tail_s;
}

// Compares the waits of all ranks with those of the undisturbed step. `with_links` is the step
// without slow ranks and jitter.
std::vector<WaitingRanks> waiting_ranks(const Mesh& mesh, const DisturbedStep& before,
                                        const DisturbedStep& with_links, const DisturbedStep& after,
                                        const std::vector<SlowedRank>& slow) {
  std::vector<WaitingRanks> groups(std::size(kWho));
  for (size_t i = 0; i < groups.size(); ++i) groups[i].who = kWho[i];
  if (slow.empty()) groups[kElsewhere].who = "all ranks";
  for (size_t position = 0; position < after.ranks().size(); ++position) {
    const RankSpent &now = after.ranks()[position], &then = before.ranks()[position];
    WaitingRanks& group = groups[nearness(mesh, after.pipelines(), int(position), slow)];
    ++group.num_ranks;
    group.in_transfers_s += longer_transfers(with_links.ranks()[position], then);
    group.in_layers_s += now.in_layers_s - then.in_layers_s;
    group.for_stages_s += now.for_stages_s - then.for_stages_s;
    group.at_end_s += now.at_end_s - then.at_end_s;
  }
  std::erase_if(groups, [](const WaitingRanks& group) { return group.num_ranks == 0; });
  for (WaitingRanks& group : groups) {
    for (double* sum :
         {&group.in_transfers_s, &group.in_layers_s, &group.for_stages_s, &group.at_end_s}) {
      *sum /= group.num_ranks;
      // What is left of equal waits whose parts were added in another order.
      if (std::abs(*sum) < 1e-9 * after.step_s()) *sum = 0.0;
    }
  }
  return groups;
}

// Each disturbance by itself.
std::vector<Cause> causes_of(const Disturbances& disturbances) {
  std::vector<Cause> causes;
  for (const SlowedRank& rank : disturbances.ranks) {
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

// Steps of one plan under several disturbances. Most of them share their prices and their random
// times.
class Steps {
 public:
  static Result<Steps> make(const RunPlan& plan, const Hardware& hardware, const Jitter& jitter) {
    TRIREME_TRY(priced, price_plan(plan, hardware));
    return Steps(plan, hardware, std::move(priced), jitter);
  }

  Result<double> seconds(const Disturbances& disturbances) {
    TRIREME_TRY(priced, prices(disturbances.links));
    return DisturbedStep(*priced, disturbances.ranks, *extra(disturbances.jitter)).step_s();
  }
  Result<std::shared_ptr<const PricedPlan>> prices(const std::vector<SlowLink>& links) {
    if (links.empty()) return undisturbed_;
    if (disturbed_ != nullptr && links == links_) return disturbed_;
    TRIREME_TRY(priced, price_plan(plan_, with_slow_links(hardware_, links)));
    disturbed_ = std::make_shared<const PricedPlan>(std::move(priced));
    links_ = links;
    return disturbed_;
  }
  // Kernels are as fast with slow links.
  std::shared_ptr<ExtraTimes> extra(const Jitter& jitter) const {
    return jitter.sigma == 0.0 ? calm_ : jittered_;
  }

 private:
  Steps(const RunPlan& plan, const Hardware& hardware, PricedPlan priced, const Jitter& jitter)
      : plan_(plan),
        hardware_(hardware),
        undisturbed_(std::make_shared<const PricedPlan>(std::move(priced))),
        calm_(std::make_shared<ExtraTimes>(plan, undisturbed_->compute, Jitter{},
                                           undisturbed_->devices)),
        jittered_(std::make_shared<ExtraTimes>(plan, undisturbed_->compute, jitter,
                                               undisturbed_->devices)) {}

  const RunPlan& plan_;
  const Hardware& hardware_;
  // WhatIf shares those of the whole step.
  std::shared_ptr<const PricedPlan> undisturbed_, disturbed_;
  std::vector<SlowLink> links_;  // of disturbed_
  std::shared_ptr<ExtraTimes> calm_, jittered_;
};

}  // namespace

Result<WhatIf> what_if(const RunPlan& plan, const Hardware& hardware, Disturbances disturbances) {
  TRIREME_TRY_DONE(check_disturbances(disturbances, plan.num_ranks(), hardware));
  sort(disturbances);
  TRIREME_TRY(steps, Steps::make(plan, hardware, disturbances.jitter));
  TRIREME_TRY(undisturbed, steps.prices({}));
  const DisturbedStep before(*undisturbed, {}, *steps.extra({}));
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
  result.extra = steps.extra(disturbances.jitter);
  result.step =
      std::make_unique<const DisturbedStep>(*result.priced, disturbances.ranks, *result.extra);
  const DisturbedStep with_links(*result.priced, {}, *steps.extra({}));
  result.waiting = waiting_ranks(plan.mesh, before, with_links, *result.step, disturbances.ranks);
  return result;
}

}  // namespace trireme
