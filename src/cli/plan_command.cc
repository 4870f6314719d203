#include "cli/plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "api/this_machine.h"
#include "base/file.h"
#include "base/json_text.h"
#include "cli/diagnosis_text.h"
#include "cli/explain_plan.h"
#include "cli/plan_as.h"
#include "cli/plan_by_op.h"
#include "cli/plan_collectives.h"
#include "cli/plan_graph.h"
#include "cli/plan_text.h"
#include "cli/search_plan.h"
#include "config/cluster_file.h"
#include "observe/diagnosis_json.h"
#include "observe/plan_page.h"
#include "observe/summary.h"
#include "observe/what_if_json.h"
#include "planner/diagnose_run.h"
#include "planner/make_plan.h"
#include "planner/near_ties.h"
#include "planner/trainer_rules.h"
#include "predict/predict.h"
#include "schema/run_config_text.h"
#include "session/add_data_facts.h"
#include "session/session.h"

namespace trireme {
namespace {

constexpr int kShownLayouts = 10;

// Sets the vocabulary size, which the plan has taken from the data.
RunConfig with_vocabulary_of(RunConfig config, const RunPlan& plan) {
  config.model.vocab_size = plan.model.vocab_size;
  return config;
}

}  // namespace

Status check_rank(int rank, const RunPlan& plan) {
  if (rank >= 0 && rank < plan.num_ranks()) return Done{};
  return Error{ErrorKind::Usage,
               fmt::format("--rank {}: the plan has ranks 0 to {}", rank, plan.num_ranks() - 1)};
}

std::string name_of_configuration(const PlanOptions& options) {
  return std::filesystem::path(options.config.files.back()).stem().string();
}

namespace {

// The machine for which a run is priced.
struct Priced {
  HostFacts host;
  Hardware hardware;
};

// Returns the facts of this machine, or of the machine of a hardware file; then each rank has the
// memory that the file states.
Result<HostFacts> host_of(const PlanOptions& options, RunConfig& config) {
  if (options.cluster.empty()) return this_host();
  TRIREME_TRY(described, load_hardware(options.cluster));
  if (config.memory.limit_bytes == 0) config.memory.limit_bytes = described.most_memory_bytes();
  HostFacts host;
  host.num_cores = described.threads;
  host.hardware = std::move(described);
  return host;
}

// Measures this machine unless a hardware file describes one.
Result<Priced> priced_on(HostFacts host, const RunConfig& config) {
  if (host.hardware) return Priced{host, *host.hardware};
  TRIREME_TRY(measured, measure_this_machine(config, host));
  return Priced{std::move(host), std::move(measured)};
}

nlohmann::ordered_json priced_json(const RunPlan& plan, const Hardware& hardware) {
  auto json = parse_ordered_json(plan_json(plan, predict_ranks(plan, hardware), hardware));
  json["hardware"] = hardware.name;
  return json;
}

Result<int> print_rank(int rank, const RunPlan& plan, const Hardware& hardware, CommandIo& io) {
  TRIREME_TRY_DONE(check_rank(rank, plan));
  io.out << json_text(planned_rank(plan, predict_ranks(plan, hardware), rank), 2) << "\n";
  return 0;
}

Status write_page(const PlanOptions& options, const RunPlan& plan, const Hardware& hardware,
                  const PlanPageParts& parts) {
  if (options.html.empty()) return Done{};
  TRIREME_TRY_DONE(make_folders_of(options.html));
  return write_file_atomically(options.html,
                               plan_page(plan, hardware, name_of_configuration(options), parts));
}

// Returns the options as a user would type them.
std::string options_text(const RunConfigOptions& options) {
  const auto quoted = [](const std::string& word) {
    const bool is_plain = std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || std::strchr("_-./=,:+@%", c) != nullptr;
    });
    if (is_plain) return word;
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
  };
  std::string text;
  for (const std::string& file : options.files) text += (text.empty() ? "" : " ") + quoted(file);
  for (const std::string& set : options.overrides) text += " --set " + quoted(set);
  if (options.ranks) text += fmt::format(" --ranks {}", *options.ranks);
  return text;
}

Result<int> run_search(const PlanOptions& options, const RunConfig& config, Priced priced,
                       PlanAdvice advice, CommandIo& io) {
  TRIREME_TRY_DONE(add_data_facts(config, io.open_input, priced.host));
  const auto num_ranks = int(trireme::num_ranks(config.parallel));
  TRIREME_TRY(search,
              search_layout(config, priced.host, priced.hardware, num_ranks, kShownLayouts));
  order_near_ties(search.best);
  LayoutSearch front;
  if (options.pareto) {
    io.err << "note: --pareto compares thousands of layouts, which may take minutes\n";
    TRIREME_TRY(searched, search_front(config, priced.host, priced.hardware,
                                       all_layouts(num_ranks, config, priced.hardware)));
    front = std::move(searched);
  }
  const JobWords words = job_words(options.config, options.jobs);
  const std::string typed = options_text(words.config);
  const bool is_job = !words.before.empty();
  const FoundLayouts found{
      .search = search,
      .hardware = priced.hardware,
      .config = config,
      .options = typed + (is_job && !typed.empty() ? " " : "") + words.before,
      .num_ranks = num_ranks,
      .program = is_job ? "trireme plan" : "trireme train",
      .arguments = words.behind,
      .simple = price_simple_choices(config, priced.host, priced.hardware, num_ranks),
      .front = front.best};
  const bool prints_layouts =
      !options.json && !prints_graph(options) && !prints_export(options.jobs);
  advice.cost = cost_of_tokens(options.advice,
                               run_speed(double(search.global_sequences * config.model.seq_len),
                                         search.best.front().time.step, num_ranks, priced.hardware,
                                         std::max<int64_t>(0, config.checkpoint.every)));
  if (prints_layouts) io.out << search_text(found, options.explain) << advice_text(advice);
  const bool is_done = options.html.empty() && !options.graph && options.jobs.to.empty();
  if (prints_layouts && is_done) return 0;
  RunConfig winner = with_layout(config, search.best.front().layout);
  winner.batch.global_sequences = search.global_sequences;
  TRIREME_TRY(plan, make_plan(winner, priced.host));
  const std::vector<StepFinding> findings = diagnose_plan(plan, priced.host, priced.hardware);
  TRIREME_TRY_DONE(write_page(options, plan, priced.hardware,
                              {.layouts = search_table(search), .findings = findings}));
  TRIREME_TRY_DONE(write_graph(options, plan, io));
  TRIREME_TRY_DONE(write_export(options.jobs, plan, io));
  if (!options.json || prints_export(options.jobs)) return 0;
  auto json = priced_json(plan, priced.hardware);
  json["search"] = search_json(found);
  json["diagnosis"] = diagnosis_json(findings);
  add_advice(advice, json);
  io.out << json_text(json, 2) << "\n";
  return 0;
}

// Prints the advice alone, where the configured layout is refused.
Result<int> print_advice_alone(const PlanOptions& options, const PlanAdvice& advice,
                               const Error& refused, CommandIo& io) {
  io.err << "note: the configured layout is refused: " << refused.message << "\n";
  nlohmann::ordered_json json;
  json["hardware"] = advice.hardware_name;
  add_advice(advice, json);
  io.out << (options.json ? json_text(json, 2) + "\n" : advice_text(advice));
  return 0;
}

bool searches_layouts(const PlanOptions& options) { return options.search || options.pareto; }

Status check_what_if_options(const PlanOptions& options) {
  if (options.what_if.empty()) return Done{};
  if (searches_layouts(options)) {
    return usage(
        "--slow-rank, --slow-link and --jitter disturb the configured layout; search first, and "
        "then plan the layout that it prints with them");
  }
  if (options.rank) {
    return usage(
        "--rank prints one rank of the undisturbed plan; leave it out to see what "
        "--slow-rank, --slow-link and --jitter do to the step");
  }
  const Result<Disturbances> described = disturbances_of(options.what_if);
  return described.ok() ? Status(Done{}) : Status(described.error());
}

Status check_options_of_one_layout(const PlanOptions& options) {
  if (!searches_layouts(options)) return Done{};
  if (!options.advice.storage.cluster.empty()) {
    return usage(
        "--storage plans the checkpoints of the configured layout; search first, and then plan the "
        "layout that it prints with --storage");
  }
  if (options.advice.goodput.failures.empty()) return Done{};
  return usage(
      "--failures forecasts the configured layout; search first, and then plan the layout that it "
      "prints with --failures");
}

// True if an option has a meaning for a run alone.
bool asks_about_a_run(const PlanOptions& options) {
  const auto& [files, overrides, ranks, ranks_option] = options.config;
  const PlanAdviceOptions& advice = options.advice;
  return !files.empty() || !overrides.empty() || ranks || !options.jobs.from.empty() ||
         !options.jobs.to.empty() || !options.jobs.out.empty() || searches_layouts(options) ||
         options.explain || !options.html.empty() || options.rank || !options.as.empty() ||
         options.graph || !options.what_if.empty() || advice.token_question.tokens ||
         advice.max_model || advice.rules || !advice.roofline.empty() ||
         !advice.goodput.failures.empty();
}

bool plans_storage_alone(const PlanOptions& options) {
  return !options.advice.storage.cluster.empty() && !asks_about_a_run(options);
}

// Prints the storage without a run.
Result<int> print_storage(const PlanOptions& options, CommandIo& io) {
  TRIREME_TRY(storage, storage_plan(options.advice.storage, std::nullopt));
  nlohmann::ordered_json json;
  json["storage"] = storage_json(storage);
  io.out << (options.json ? json_text(json, 2) + "\n" : storage_text(storage));
  return 0;
}

// Why a step takes as long as it does, and what disturbances do to it.
struct DiagnosedPlan {
  std::vector<StepFinding> findings;
  std::optional<WhatIf> what_if;  // absent: no option asks for it
};

// A diagnosis plans about ten other settings. Plans of more ranks, which should come at once, have
// one only with --explain, a page or a what-if.
constexpr int kMostRanksDiagnosedUnasked = 4096;

Result<DiagnosedPlan> diagnosed_plan(const PlanOptions& options, const RunPlan& plan,
                                     const Priced& priced) {
  DiagnosedPlan diagnosed;
  if (!options.what_if.empty()) {
    TRIREME_TRY(disturbances, disturbances_of(options.what_if));
    TRIREME_TRY(found, what_if(plan, priced.hardware, disturbances));
    diagnosed.findings = diagnose_disturbed(found);
    diagnosed.what_if = std::move(found);
  }
  const bool is_shown = !prints_graph(options) || !options.html.empty();
  const bool is_asked = options.explain || !options.html.empty() || !options.what_if.empty();
  if (!is_shown || (plan.num_ranks() > kMostRanksDiagnosedUnasked && !is_asked)) return diagnosed;
  for (StepFinding& finding : diagnose_plan(plan, priced.host, priced.hardware)) {
    diagnosed.findings.push_back(std::move(finding));
  }
  return diagnosed;
}

PlanPageParts page_parts(const DiagnosedPlan& diagnosed, const PlanAdvice& advice) {
  return {.findings = diagnosed.findings,
          .what_if = diagnosed.what_if ? &*diagnosed.what_if : nullptr,
          .goodput = advice.goodput ? &*advice.goodput : nullptr,
          .price_per_hour = advice.price_per_hour};
}

// True if the command has nothing to print when the configured layout is refused.
bool ends_with_refusal(const PlanOptions& options) {
  const PlanAdviceOptions& advice = options.advice;
  return !searches_layouts(options) && options.as.empty() && !advice.max_model && !advice.rules &&
         advice.roofline.empty();
}

// These remarks are printed below a plan.
struct PlanRemarks {
  const PlanAdvice& advice;
  const DiagnosedPlan& diagnosed;
};

Result<int> print_plan(const PlanOptions& options, const RunConfig& config, const Priced& priced,
                       const RunPlan& plan, const PlanRemarks& remarks, CommandIo& io) {
  const Hardware& hardware = priced.hardware;
  const auto& [advice, diagnosed] = remarks;
  std::optional<PlanAs> as;
  if (!options.as.empty()) {
    TRIREME_TRY(described, plan_as(options.as, plan, hardware.memory_bytes));
    as = described;
  }
  PlanExplanation explanation{plan, hardware, {}};
  if (options.explain) {
    TRIREME_TRY(ways, alternatives(with_vocabulary_of(config, plan), priced.host, hardware));
    explanation.alternatives = ways;
  }
  if (options.json) {
    auto json = priced_json(plan, hardware);
    json["collectives"] = collectives_json(plan, hardware);
    if (as) json["as"] = plan_as_json(*as);
    if (options.explain) json["explanation"] = explanation_json(explanation);
    add_advice(advice, json);
    json["diagnosis"] = diagnosis_json(diagnosed.findings);
    if (diagnosed.what_if) json["what_if"] = what_if_json(*diagnosed.what_if);
    io.out << json_text(json, 2) << "\n";
    return 0;
  }
  io.out << describe_plan(plan, io.open_input) << device_lines(plan, hardware)
         << priced_line(plan, hardware) << collectives_text(plan, hardware);
  if (as) io.out << plan_as_text(*as);
  if (options.explain) io.out << explanation_text(explanation);
  io.out << advice_text(advice);
  if (diagnosed.what_if) io.out << what_if_text(*diagnosed.what_if);
  io.out << diagnosis_text(diagnosed.findings);
  return 0;
}

}  // namespace

Result<int> run_plan(const PlanOptions& options, CommandIo& io) {
  TRIREME_TRY_DONE(check_graph_options(options));
  TRIREME_TRY_DONE(check_advice_options(options.advice));
  TRIREME_TRY_DONE(check_what_if_options(options));
  TRIREME_TRY_DONE(check_options_of_one_layout(options));
  TRIREME_TRY_DONE(check_search(options));
  if (plans_storage_alone(options)) return print_storage(options, io);
  const bool searches = searches_layouts(options);
  const bool lays_out_anew = searches || options.advice.rules;
  PlanJobOptions jobs = options.jobs;
  if (searches_by_op(options)) jobs.out.clear();  // --out names the file of the plan
  TRIREME_TRY(loaded, load_plan_config(options.config, jobs, lays_out_anew, io));
  TRIREME_TRY(host, host_of(options, loaded.config));
  std::optional<Result<RunPlan>> planned;
  if (ends_with_refusal(options)) {  // before the machine is measured, which takes a second
    planned = plan_session(loaded.config, host, io.open_input);
    if (!planned->ok()) return loaded.located(planned->error());
  }
  TRIREME_TRY(priced, priced_on(std::move(host), loaded.config));
  TRIREME_TRY(advice, plan_advice(options.advice, loaded.config, priced.host, priced.hardware,
                                  io.open_input));
  if (searches_by_op(options))
    return run_search_by_op(options, loaded.config, priced.host, priced.hardware, io);
  if (searches) return run_search(options, loaded.config, priced, std::move(advice), io);
  if (!options.as.empty()) {
    TRIREME_TRY(trainer, trainer_named(options.as));
    priced.hardware.practice = practice_of(trainer);
    drop_memory_limits(loaded.config, priced.host);
  }
  const Hardware& hardware = priced.hardware;
  if (!planned) planned = plan_session(loaded.config, priced.host, io.open_input);
  if (!planned->ok()) {
    const Error refused = loaded.located(planned->error());
    const bool needs_plan = options.advice.token_question.tokens ||
                            !options.advice.goodput.failures.empty() ||
                            !options.advice.storage.cluster.empty();
    if (!advice.stands_alone() || needs_plan) return refused;
    return print_advice_alone(options, advice, refused, io);
  }
  const RunPlan& plan = planned->value();
  TRIREME_TRY_DONE(add_plan_costs(options.advice, plan, hardware, advice));
  io.err << warning_lines(plan);
  TRIREME_TRY_DONE(write_export(options.jobs, plan, io));
  if (prints_export(options.jobs)) return 0;
  TRIREME_TRY_DONE(write_graph(options, plan, io));
  if (options.rank && !prints_graph(options)) return print_rank(*options.rank, plan, hardware, io);
  TRIREME_TRY(diagnosed, diagnosed_plan(options, plan, priced));
  TRIREME_TRY_DONE(write_page(options, plan, hardware, page_parts(diagnosed, advice)));
  if (prints_graph(options)) return 0;
  return print_plan(options, loaded.config, priced, plan, {advice, diagnosed}, io);
}

}  // namespace trireme
