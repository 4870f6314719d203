#include "planner/smaller_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "planner/make_plan.h"
#include "planner/search_layout.h"
#include "predict/predict.h"
#include "schema/batch.h"
#include "schema/model_spec.h"

namespace trireme {
namespace {

// The first layouts of a search may be refused by rules that only a whole plan knows.
constexpr int kTriedLayouts = 4;

struct TimedLayout {
  RunConfig config;
  double step_s = 0.0;
};

class Smaller {
 public:
  Smaller(const RunConfig& config, const HostFacts& host, const FewerRanks& ranks)
      : config_(config), host_(host), ranks_(ranks), mesh_(mesh_of(config.parallel)) {
    if (config_.batch.global_tokens == 0) {
      config_.batch.global_sequences = sequences_of_step(config);
    }
  }

  Result<RunConfig> run() {
    if (mesh_.size() <= ranks_.most_ranks) return config_;
    if (ranks_.change == LayoutChange::None) {
      return infeasible(fmt::format("the layout of {} ranks may not change, but only {} can run",
                                    mesh_.size(), ranks_left()));
    }
    if (mesh_.is_uneven()) {
      return infeasible(fmt::format(
          "parallel.{} needs {} ranks, but only {} can run; wait for the lost ranks, or "
          "remove the degrees of places; then the job can resume with fewer ranks",
          places_text(config_.parallel), mesh_.size(), ranks_left()));
    }
    std::optional<RunConfig> best = with_less_dp();
    const int used = best ? mesh_of(best->parallel).size() : 0;
    if (used == ranks_.most_ranks || keeps_pipeline()) return found(best);
    if (std::optional<RunConfig> searched = fastest_above(used, best)) return *searched;
    return found(best);
  }

 private:
  // Stated layers fit one number of stages alone.
  bool keeps_pipeline() const {
    return ranks_.change == LayoutChange::Dp || !config_.parallel.stage_layers.empty();
  }

  HostFacts facts_of(int num_ranks) const {
    HostFacts facts = host_;
    facts.ranks_on_host =
        ranks_.ranks_per_host > 0 ? std::min(num_ranks, ranks_.ranks_per_host) : num_ranks;
    return facts;
  }

  // The greatest dp that divides the configured one and gives a plan that fits.
  std::optional<RunConfig> with_less_dp() const {
    const int replica = mesh_.size() / mesh_.dp;
    for (int dp = std::min(mesh_.dp - 1, ranks_.most_ranks / replica); dp > 0; --dp) {
      if (mesh_.dp % dp != 0) continue;
      RunConfig smaller = config_;
      smaller.parallel.dp = dp;
      if (make_plan(smaller, facts_of(dp * replica)).ok()) return smaller;
    }
    return std::nullopt;
  }

  // The meshes of so many ranks that keep the numbers, or with "fixed" the formulas.
  std::vector<Mesh> meshes(int num_ranks) const {
    std::vector<Mesh> all =
        meshes_of(num_ranks, with_defaults(config_.model, host_.data_vocab_size));
    const bool keeps_tp = config_.run.reproducible == Reproducible::Layout;
    std::erase_if(all, [&](const Mesh& mesh) {
      return mesh.cp != mesh_.cp || mesh.ep != mesh_.ep || (keeps_tp && mesh.tp != mesh_.tp);
    });
    return all;
  }

  std::optional<TimedLayout> fastest_of(int num_ranks, const Hardware& hardware) const {
    const LayoutSpace space{
        .meshes = meshes(num_ranks),
        .orders = {mesh_.order},
        .exchange = LayerExchange{config_.parallel.sequence, config_.parallel.tp_overlap,
                                  config_.parallel.context},
        .micro_sequences = config_.batch.micro_sequences,
        .names_remedy = false};
    if (space.meshes.empty()) return std::nullopt;
    const HostFacts facts = facts_of(num_ranks);
    const auto search = search_layout(config_, facts, hardware, space, kTriedLayouts);
    if (!search.ok()) return std::nullopt;
    for (const PricedLayout& priced : search->best) {
      RunConfig config = with_layout(config_, priced.layout);
      if (make_plan(config, facts).ok()) return TimedLayout{std::move(config), priced.time.step};
    }
    return std::nullopt;
  }

  // The fastest layout with more than `used` ranks, unless the one that uses them is as fast.
  std::optional<RunConfig> fastest_above(int used, const std::optional<RunConfig>& with_dp) const {
    std::optional<TimedLayout> fastest;
    for (int n = ranks_.most_ranks; n > used && ranks_.has_time(); --n) {
      const std::optional<Hardware> hardware = ranks_.hardware(n);
      if (!hardware) return std::nullopt;
      std::optional<TimedLayout> own = fastest_of(n, *hardware);
      if (own && (!fastest || own->step_s < fastest->step_s)) fastest = std::move(own);
    }
    if (!fastest) return std::nullopt;
    if (with_dp && fastest->step_s > (1.0 - kWorthChanging) * step_s_of(*with_dp, used)) {
      return std::nullopt;
    }
    return std::move(fastest->config);
  }

  double step_s_of(const RunConfig& config, int num_ranks) const {
    const auto plan = make_plan(config, facts_of(num_ranks));
    return predicted_step_s(*plan, *ranks_.hardware(num_ranks));
  }

  Result<RunConfig> found(const std::optional<RunConfig>& config) const {
    if (config) return *config;
    return infeasible(fmt::format("no layout of at most {} keeps {} and the batch of {} sequences",
                                  ranks_left(), kept_keys(), sequences_of_step(config_)));
  }

  std::string ranks_left() const {
    return fmt::format("{} rank{}", ranks_.most_ranks, ranks_.most_ranks == 1 ? "" : "s");
  }
  std::string kept_keys() const {
    const std::string cp = fmt::format("parallel.cp = {}", mesh_.cp);
    if (keeps_pipeline()) return "all degrees but parallel.dp";
    if (config_.run.reproducible != Reproducible::Layout) return cp;
    return fmt::format("parallel.tp = {} (as run.reproducible = \"layout\" needs it), {}", mesh_.tp,
                       cp);
  }

  RunConfig config_;
  const HostFacts& host_;
  const FewerRanks& ranks_;
  Mesh mesh_;
};

}  // namespace

Result<RunConfig> smaller_layout(const RunConfig& config, const HostFacts& host,
                                 const FewerRanks& ranks) {
  return Smaller(config, host, ranks).run();
}

}  // namespace trireme
