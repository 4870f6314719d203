#include "cli/plan_by_op.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/search_by_op.h"
#include "schema/run_config_text.h"
#include "session/add_data_facts.h"

namespace trireme {

bool searches_by_op(const PlanOptions& options) { return options.search == "alpa"; }

Status check_search(const PlanOptions& options) {
  if (options.search && !options.search->empty() && !searches_by_op(options)) {
    return usage("--search " + *options.search +
                 ": take \"alpa\", or no value for one layout of all ops");
  }
  if (!searches_by_op(options)) return Done{};
  const bool asks_more = options.pareto || !options.as.empty() || options.rank ||
                         !options.html.empty() || !options.jobs.to.empty();
  if (asks_more) {
    return usage(
        "--search alpa goes with --cluster, --json, --set, --ranks, --explain, --graph and --out; "
        "--pareto, --as, --rank, --html and --export look at one layout of all ops: leave them "
        "out");
  }
  const PlanAdviceOptions& advice = options.advice;
  if (advice.max_model || advice.rules || !advice.roofline.empty() ||
      advice.token_question.tokens) {
    return usage(
        "--search alpa gives no other advice: ask for --tokens, --max-model, --rules or --roofline "
        "without it");
  }
  if (!options.graph || options.graph->ends_with(".svg")) return Done{};
  return usage("--search alpa draws its stages as a picture: name a file such as --graph plan.svg");
}

Result<int> run_search_by_op(const PlanOptions& options, const RunConfig& config, HostFacts host,
                             const Hardware& hardware, CommandIo& io) {
  TRIREME_TRY_DONE(add_data_facts(config, io.open_input, host));
  TRIREME_TRY(run, planned_run(config, host, hardware));
  TRIREME_TRY(found, search_by_op(run, config, host));
  found.layout = search_one_layout(config, host, hardware);
  if (options.explain) found.prices = role_prices(run, found.search.best);
  const std::optional<NamedPlan> written = found.trainable();
  const bool writes = !options.jobs.out.empty();
  if (options.json) {
    nlohmann::ordered_json json;
    json["hardware"] = hardware.name;
    json["alpa"] = plan_by_op_json(found);
    if (writes && written) json["alpa"]["written"] = written->name;
    io.out << json_text(json, 2) << "\n";
  } else {
    io.out << plan_by_op_text(found);
  }
  if (options.graph) {
    TRIREME_TRY_DONE(make_folders_of(*options.graph));
    TRIREME_TRY_DONE(write_file_atomically(*options.graph, draw_stages(plan_by_op_picture(found))));
  }
  const Result<RunConfig> best = found.runnable();
  if (writes && !written) return best.error();
  if (!best.ok() && !options.json) io.out << best.error().message << "\n";
  if (!writes) return 0;
  TRIREME_TRY_DONE(make_folders_of(options.jobs.out));
  TRIREME_TRY_DONE(write_file_atomically(options.jobs.out, to_toml(written->plan->config)));
  if (!options.json) io.out << options.jobs.out << " has " << written->name << "\n";
  return 0;
}

}  // namespace trireme
