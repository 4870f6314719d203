#include "cli/plan_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "config/failure_rates_file.h"
#include "observe/draw_roofline.h"
#include "planner/checkpoint_traffic.h"
#include "planner/plan_goodput.h"
#include "predict/predict.h"
#include "schema/mesh.h"
#include "session/add_data_facts.h"

namespace trireme {
namespace {

constexpr double kUsualDays = 54.0;  // of the published interruptions of Llama 3

std::string roofline_ending(const std::string& file) {
  return std::filesystem::path(file).extension().string();
}

Result<RulesAdvice> rules_advice(const RunConfig& config, const HostFacts& host,
                                 const Hardware& hardware) {
  const auto num_ranks = int(trireme::num_ranks(config.parallel));
  TRIREME_TRY(ruled, layout_by_rules(config, host, hardware, num_ranks));
  TRIREME_TRY(search, search_layout(config, host, hardware, num_ranks, 1));
  const std::string set = set_options(ruled.priced.layout, ruled.global_sequences, config);
  return RulesAdvice{std::move(ruled), search.best.front(), set};
}

std::string title_of(const RunPlan& started) {
  const ModelSpec& model = started.model;
  return fmt::format("{} layers x {}, {} x {} tokens, {}", model.layers, model.d_model,
                     started.shape.micro_sequences, model.seq_len,
                     name_of(started.config.precision.compute));
}

Status write_roofline(const std::string& file, const Roofline& roof, const std::string& title) {
  TRIREME_TRY_DONE(make_folders_of(file));
  const bool is_text = roofline_ending(file) == ".txt";
  return write_file_atomically(file, is_text ? roofline_text(roof) : draw_roofline(roof, title));
}

}  // namespace

std::vector<Option> advice_options(PlanAdviceOptions& options) {
  return {{.name = "tokens",
           .value_name = "N",
           .doc = "print the days and device hours of training on N tokens, such as 15e12",
           .target = &options.token_question.tokens},
          {.name = "price-per-hour",
           .value_name = "P",
           .doc = "with --tokens or --failures, print the cost if one device costs P for one hour",
           .target = &options.token_question.price_per_hour},
          {.name = "noise-scale",
           .value_name = "N",
           .doc = "with --tokens, print how many of them the batch wastes if the gradient noise "
                  "scale is N tokens",
           .target = &options.token_question.noise_scale},
          {.name = "max-model",
           .doc = "print the largest model of this shape that fits, for each ZeRO level and "
                  "memory.offload",
           .target = &options.max_model},
          {.name = "rules",
           .doc = "print the layout that the textbook's rules give, each step with its reason, and "
                  "how much slower it is than the best of --search",
           .target = &options.rules},
          {.name = "roofline",
           .value_name = "FILE",
           .doc = "write where the ops of a layer and of the head lie under the device's roof, and "
                  "what bounds them: FILE.svg or .txt",
           .target = &options.roofline,
           .completion = Completion::File}};
}

Status check_advice_options(const PlanAdviceOptions& options) {
  TRIREME_TRY_DONE(check_token_options(options.token_question, !options.goodput.failures.empty()));
  TRIREME_TRY_DONE(check_goodput_options(options.goodput));
  TRIREME_TRY_DONE(check_storage_options(options.storage));
  if (options.roofline.empty()) return Done{};
  const std::string ending = roofline_ending(options.roofline);
  if (ending == ".svg" || ending == ".txt") return Done{};
  return usage(
      fmt::format("--roofline {}: the name must end in .svg or .txt, which says what is "
                  "written",
                  options.roofline));
}

Result<PlanAdvice> plan_advice(const PlanAdviceOptions& options, const RunConfig& config,
                               HostFacts host, const Hardware& hardware,
                               const OpenInput& open_input) {
  PlanAdvice advice;
  advice.hardware_name = hardware.name;
  advice.price_per_hour = options.token_question.price_per_hour;
  if (!options.max_model && !options.rules && options.roofline.empty()) return advice;
  TRIREME_TRY_DONE(add_data_facts(config, open_input, host));
  if (options.max_model) {
    TRIREME_TRY(models, max_models(config, host));
    advice.max_models = std::move(models);
  }
  if (options.rules) {
    TRIREME_TRY(rules, rules_advice(config, host, hardware));
    advice.rules = std::move(rules);
  }
  if (!options.roofline.empty()) {
    TRIREME_TRY(started, start_plan(config, host));
    advice.roof = roofline(started.model, started.shape, hardware);
    TRIREME_TRY_DONE(write_roofline(options.roofline, *advice.roof, title_of(started)));
  }
  return advice;
}

std::optional<TokenCost> cost_of_tokens(const PlanAdviceOptions& options, const RunSpeed& speed) {
  const auto& [tokens, price_per_hour, noise_scale] = options.token_question;
  if (!tokens) return std::nullopt;
  TokenCost cost = token_cost(*tokens, speed, price_per_hour);
  if (noise_scale) cost.token_efficiency = token_efficiency(speed.tokens_per_step, *noise_scale);
  return cost;
}

Status add_plan_costs(const PlanAdviceOptions& options, const RunPlan& plan,
                      const Hardware& hardware, PlanAdvice& advice) {
  if (options.token_question.tokens) {
    advice.cost = cost_of_tokens(
        options,
        run_speed(double(plan.tokens_per_step()), predicted_step_s(plan, hardware),
                  plan.num_ranks(), hardware, std::max<int64_t>(0, plan.config.checkpoint.every)));
  }
  if (!options.storage.cluster.empty()) {
    TRIREME_TRY(storage, storage_plan(options.storage, checkpoint_traffic(plan, hardware)));
    advice.storage = std::move(storage);
  }
  const GoodputOptions& asked = options.goodput;
  if (asked.failures.empty()) return Done{};
  TRIREME_TRY(rates, load_failure_rates(asked.failures));
  const double days = asked.days ? *asked.days : advice.cost ? advice.cost->days : kUsualDays;
  TRIREME_TRY(question, goodput_question(plan, hardware, rates, days));
  TRIREME_TRY(forecast, forecast_goodput(question));
  if (advice.cost) {
    advice.cost->with_failures = failure_cost(advice.cost->days, forecast.mean, forecast.mttf_s);
  }
  advice.goodput = std::move(forecast);
  return Done{};
}

}  // namespace trireme
