#include "session/run_records.h"

#include <fmt/format.h>

#include "base/chrome_trace.h"
#include "schema/run_config_text.h"

namespace trireme {

std::string resolved_toml(const RunPlan& plan) {
  RunConfig config = plan.config;
  config.model.preset.clear();
  config.model.vocab_size = plan.model.vocab_size;
  return to_toml(config);
}

std::string run_fields(const SessionOptions& options, const RunPlan& plan) {
  std::string fields =
      fmt::format("\"params\":{},\"config\":{}", plan.num_params, to_json(plan.config));
  for (const auto& [key, value] : options.environment) {
    fields += fmt::format(",\"{}\":\"{}\"", json_escaped(key), json_escaped(value));
  }
  return fields;
}

}  // namespace trireme
