#include "planner/layout_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/units.h"
#include "compile/compile_plan.h"
#include "compile/link_cost.h"
#include "compile/step_price.h"
#include "graph/param_table.h"
#include "planner/compile_to_fit.h"
#include "planner/make_plan.h"
#include "schema/batch.h"
#include "schema/run_config_validate.h"

namespace trireme {
namespace {

// A pipeline is idle for (p - 1) of m + p - 1 turns: with so many micro-batches for each stage,
// for a fifth.
constexpr int64_t kMicrobatchesOfStage = 4;

std::vector<int64_t> rising_divisors(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

// What the walk through the rules has chosen so far.
struct Tried {
  LayoutChoice layout;
  SizedPlan sized;
};

std::string needs(const SizedPlan& sized) {
  if (sized.available_bytes == 0) return "needs " + format_bytes(sized.needed_bytes);
  return fmt::format("needs {} of {}", format_bytes(sized.needed_bytes),
                     format_bytes(sized.available_bytes));
}

class Rules {
 public:
  Rules(RunConfig config, const HostFacts& host, const Hardware& hardware, int num_ranks)
      : config_(std::move(config)),
        host_(host),
        hardware_(hardware),
        num_ranks_(num_ranks),
        node_(std::min(num_ranks, hardware.nodes().least_size(num_ranks))) {}

  Result<RuledLayout> run() {
    TRIREME_TRY(started, start_plan(with_layout(config_, {}), host_));
    result_.global_sequences = started.global_sequences;
    has_experts_ = started.model.has_experts();
    experts_ = started.model.experts;
    layers_ = started.model.layers;
    seq_len_ = started.model.seq_len;
    result_.regime = token_regime(started, hardware_, num_ranks_);
    for (const int64_t cp : rising_divisors(num_ranks_)) {
      for (const Recompute recompute : kRecomputes) {
        if (recompute < config_.memory.recompute) continue;
        result_.steps.clear();
        std::optional<Tried> found = choose(int(cp), recompute);
        if (found) return finished(*std::move(found));
      }
    }
    return infeasible(fmt::format("no layout of {} ranks that the rules give fits: {}", num_ranks_,
                                  last_refusal_.empty() ? "none is valid" : last_refusal_));
  }

 private:
  void say(std::string rule, std::string choice, std::string reason) {
    result_.steps.push_back({std::move(rule), std::move(choice), std::move(reason)});
  }

  // Fills a node with tp, and takes the second step only if that is not enough.
  std::optional<Tried> choose(int cp, Recompute recompute) {
    LayoutChoice layout{.mesh = {.cp = cp}, .zero = 1, .recompute = recompute};
    std::string too_large;
    int largest_tp = 0;
    for (const int64_t tp : rising_divisors(num_ranks_ / cp)) {
      if (tp > node_) break;
      layout.mesh.tp = int(tp);
      const std::optional<Tried> tried = try_rest(layout);
      if (!tried) continue;
      largest_tp = int(tp);
      if (tried->sized.fits()) {
        say_tp(*tried, too_large);
        return tried;
      }
      too_large = fmt::format("with tp {} a plan {}", tp, needs(tried->sized));
      last_refusal_ = too_large;
    }
    layout.mesh.tp = std::max(largest_tp, 1);
    if (largest_tp > 0) {
      say("tp", fmt::format("tp {}", largest_tp),
          fmt::format("it is the largest inside a node of {} ranks that the model allows, and not "
                      "enough: {}",
                      node_, too_large));
    }
    return beyond_node(layout);
  }

  void say_tp(const Tried& tried, const std::string& too_large) {
    const int tp = tried.layout.mesh.tp;
    const std::string fits = fmt::format("with tp {} it {}", tp, needs(tried.sized));
    say("tp", fmt::format("tp {}{}", tp, tried.layout.exchange.sequence ? ", sequence" : ""),
        too_large.empty()
            ? "the model fits: " + fits
            : fmt::format("tp fills a node until the model fits: {}; {}", too_large, fits));
  }

  // ZeRO-3 gathers every parameter in each pass of a micro-batch, which is hidden behind enough
  // tokens. A pipeline sends only activations.
  std::optional<Tried> beyond_node(const LayoutChoice& layout) {
    std::optional<Tried> by_zero = sharded(layout);
    const double needed = result_.regime.across_nodes;
    const double tokens =
        by_zero ? double(by_zero->layout.micro_sequences * seq_len_) / layout.mesh.tp : 0.0;
    std::string why = by_zero
                          ? fmt::format(
                                "ZeRO-3 gathers the parameters for {:.0f} tokens a device, {} the "
                                "{:.0f} behind which the links keep up",
                                tokens, tokens < needed ? "below" : "at least", needed)
                          : std::string("ZeRO-3 alone does not fit");
    std::optional<Tried> found = by_zero && tokens >= needed ? by_zero : piped(layout, 1);
    if (!found && by_zero) {
      why += ", but no pipeline fits";
      found = by_zero;
    }
    if (!found) {
      why += ", and neither does a pipeline alone";
      found = piped(layout, 3);
    }
    if (found) say_beyond(*found, why);
    return found;
  }

  void say_beyond(const Tried& tried, const std::string& why) {
    const LayoutChoice& layout = tried.layout;
    const std::string pp = layout.mesh.pp > 1 ? fmt::format("pp {}", layout.mesh.pp) : "";
    const std::string zero = layout.zero == 3 ? "ZeRO 3" : "";
    say("pp or ZeRO-3", pp + (pp.empty() || zero.empty() ? "" : ", ") + zero,
        fmt::format("{}; with this choice the plan {}", why, needs(tried.sized)));
  }

  std::optional<Tried> sharded(LayoutChoice layout) {
    layout.zero = 3;
    std::optional<Tried> tried = fitting(layout);
    if (tried) grow_micro_batch(*tried);
    return tried;
  }
  std::optional<Tried> piped(LayoutChoice layout, int zero) {
    layout.zero = zero;
    for (const int64_t pp : rising_divisors(num_ranks_ / layout.mesh.tp / layout.mesh.cp)) {
      if (pp == 1 || pp > layers_) continue;
      layout.mesh.pp = int(pp);
      if (std::optional<Tried> tried = fitting(layout)) return tried;
    }
    return std::nullopt;
  }
  std::optional<Tried> fitting(const LayoutChoice& layout) {
    std::optional<Tried> tried = try_rest(layout);
    if (!tried || tried->sized.fits()) return tried;
    last_refusal_ = fmt::format("{} {}", describe(tried->layout), needs(tried->sized));
    return std::nullopt;
  }

  // Gives the rest of the ranks to dp, and the experts to ep. Nullopt if no such layout is valid;
  // the smallest plan if none fits.
  std::optional<Tried> try_rest(LayoutChoice layout) {
    Mesh& mesh = layout.mesh;
    mesh.dp = num_ranks_ / (mesh.tp * mesh.cp * mesh.pp);
    if (result_.global_sequences % mesh.dp != 0) return std::nullopt;
    if (mesh.dp == 1) layout.zero = 0;
    std::optional<Tried> smallest;
    for (const int ep : ep_degrees(mesh)) {
      mesh.ep = ep;
      std::optional<Tried> tried = plan_of(layout);
      if (!tried) continue;
      if (tried->sized.fits()) return tried;
      if (!smallest || tried->sized.needed_bytes < smallest->sized.needed_bytes) {
        smallest = std::move(tried);
      }
    }
    return smallest;
  }

  // As many experts apart as a node holds beside tp, then as many as there are.
  std::vector<int> ep_degrees(const Mesh& mesh) const {
    if (!has_experts_) return {1};
    const int64_t all = std::gcd(experts_, int64_t(mesh.dp) * mesh.cp);
    int64_t inside = 1;
    for (const int64_t ep : rising_divisors(all)) {
      if (ep * mesh.tp <= node_) inside = ep;
    }
    if (inside == all) return {int(all)};
    return {int(inside), int(all)};
  }

  // With sequence parallelism wherever there is tp and the model allows it: it sends no byte more
  // and shares what the other activations need.
  std::optional<Tried> plan_of(LayoutChoice layout) {
    layout.exchange.sequence = layout.mesh.tp > 1;
    if (std::optional<Tried> tried = plan_exactly(layout)) return tried;
    if (!layout.exchange.sequence) return std::nullopt;
    layout.exchange.sequence = false;
    return plan_exactly(layout);
  }

  std::optional<Tried> plan_exactly(const LayoutChoice& layout) {
    const RunConfig config = with_layout(config_, layout);
    if (!validate_with_data(config, host_.data_vocab_size).empty()) return std::nullopt;
    Result<RunPlan> plan = start_plan(config, host_);
    if (!plan.ok() || !outline_pipeline(*plan, parts_).ok()) return std::nullopt;
    compile_outlined(*plan, parts_);
    const int64_t needed = bytes_to_fit(*plan), limit = memory_limit(*plan, host_);
    return Tried{layout, {std::move(*plan), needed, limit}};
  }

  RuledLayout finished(Tried tried) {
    say_rest(tried.layout);
    grow_micro_batch(tried);
    say_accumulation(tried.layout);
    const SizedPlan& sized = tried.sized;
    const RunPlan& plan = sized.plan;
    PricedLayout& priced = result_.priced;
    for (const StepTimes& stage : predict_stages(plan, hardware_)) {
      if (stage.step > priced.time.step) priced.time = stage;
    }
    priced.layout = tried.layout;
    priced.num_microbatches = plan.num_microbatches;
    priced.peak_bytes = plan.greatest_peak_bytes();
    priced.arena_bytes = plan.largest().memory.arena_bytes;
    priced.mfu = double(plan.tokens_per_step()) * plan.flops_per_token.total() / priced.time.step /
                 (peak_flops(plan, hardware_) * plan.num_ranks());
    return std::move(result_);
  }

  void say_rest(const LayoutChoice& layout) {
    const Mesh& mesh = layout.mesh;
    if (layout.recompute != config_.memory.recompute) {
      say("recompute", std::string(name_of(layout.recompute)),
          "no step of the rules makes the activations fit with less recomputation");
    }
    if (mesh.cp > 1) {
      say("cp", fmt::format("cp {}", mesh.cp),
          fmt::format("{} sequences a step are too few, or too long, for other layouts of {} ranks",
                      result_.global_sequences, num_ranks_));
    }
    if (mesh.ep > 1) {
      say("ep", fmt::format("ep {}", mesh.ep),
          fmt::format("{} experts are shared, whole ones for each rank", experts_));
    }
    say("dp", fmt::format("dp {}{}", mesh.dp, layout.zero == 1 ? ", ZeRO 1" : ""),
        layout.zero == 1
            ? fmt::format("the rest of {} ranks; ZeRO-1 sends no byte more than an all-reduce",
                          num_ranks_)
            : fmt::format("the rest of {} ranks", num_ranks_));
  }

  // The largest micro-batch that fits, and that leaves a pipeline enough of them.
  void grow_micro_batch(Tried& tried) {
    const Mesh& mesh = tried.layout.mesh;
    const int64_t sequences = result_.global_sequences / mesh.dp;
    const int64_t least_count = mesh.pp > 1 ? kMicrobatchesOfStage * mesh.pp : 1;
    for (const int64_t micro : rising_divisors(sequences)) {
      if (micro <= tried.layout.micro_sequences) continue;
      if (sequences / micro < least_count) break;
      LayoutChoice larger = tried.layout;
      larger.micro_sequences = micro;
      std::optional<Tried> grown = plan_of(larger);
      if (!grown) continue;
      if (!grown->sized.fits()) break;
      tried = *std::move(grown);
    }
  }

  void say_accumulation(const LayoutChoice& layout) {
    const Mesh& mesh = layout.mesh;
    const int64_t sequences = result_.global_sequences / mesh.dp;
    const int64_t micro = layout.micro_sequences;
    say("accumulate",
        fmt::format("{} micro-batch{} of {}", sequences / micro, sequences == micro ? "" : "es",
                    micro),
        fmt::format(
            "a rank has {} sequences a step, and the largest micro-batch that fits{} has "
            "{}; gradients are summed over dp once",
            sequences,
            mesh.pp > 1 ? fmt::format(" and leaves {} for each stage", kMicrobatchesOfStage) : "",
            micro));
  }

  RunConfig config_;
  const HostFacts& host_;
  const Hardware& hardware_;
  int num_ranks_;
  int node_;  // ranks of the smallest node
  bool has_experts_ = false;
  int64_t experts_ = 0;
  int64_t layers_ = 0;
  int64_t seq_len_ = 0;
  std::string last_refusal_;
  PlanParts parts_;
  RuledLayout result_;
};

}  // namespace

TokenRegime token_regime(const RunPlan& plan, const Hardware& hardware, int num_ranks) {
  const DType compute = plan.shape.compute;
  const double flops = hardware.peak_flops(compute) * double(size_of(compute)) / 2.0 *
                       double(num_params(plan.model)) / double(num_active_params(plan.model));
  const NodeMap nodes = hardware.nodes();
  const auto tokens_over = [&](int64_t ranks) {
    const RankSpan span{.count = ranks, .nodes = nodes.sizes(0, num_ranks - 1)};
    const double bytes_per_s = group_link(hardware, span).bytes_per_s;
    return ranks > 1 && bytes_per_s > 0.0 ? flops / bytes_per_s : 0.0;
  };
  return {double(plan.tokens_per_step()) / double(num_ranks),
          tokens_over(std::min(num_ranks, nodes.least_size(num_ranks))), tokens_over(num_ranks)};
}

Result<RuledLayout> layout_by_rules(const RunConfig& config, const HostFacts& host,
                                    const Hardware& hardware, int num_ranks) {
  if (config.parallel.sync != GradSync::AllReduce || config.parallel.staleness > 0) {
    return usage("--rules needs parallel.sync = \"all_reduce\" and parallel.staleness = 0");
  }
  RunConfig own = config;
  if (const int64_t global = sequences_of_step(config); global > 0) {
    own.batch.global_sequences = global;
    own.batch.global_tokens = 0;
  }
  HostFacts facts = host;
  if (facts.ranks_on_host == 0) facts.ranks_on_host = num_ranks;
  return Rules(std::move(own), facts, hardware, num_ranks).run();
}

}  // namespace trireme
