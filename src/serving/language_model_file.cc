#include "serving/language_model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "config/config_load.h"
#include "serving/file_keys.h"
#include "serving/language_model_speed.h"

namespace trireme {
namespace {

// Prompts may be so many times as long as those of the requests, or as short.
constexpr double kMostRatio = 4.0;

// Requests per second of one worker, from what `trireme generate --speed FILE` has measured there.
Result<double> measured_speed(const std::filesystem::path& path, const LanguageModelUse& use) {
  TRIREME_TRY(text, read_config_file(path.string()));
  const Result<nlohmann::json> parsed = parse_bounded_json(text);
  if (!parsed.ok()) return with_context(parsed.error(), path.string());
  const nlohmann::json& json = *parsed;
  const auto number = [&](const char* key) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return json.is_object() && found != json.end() && found->is_number() ? found->get<double>()
                                                                         : 0.0;
  };
  const double prompt_tokens = number("prompt_tokens"), first_token_s = number("first_token_s");
  const double decoded_tokens = number("decoded_tokens"), decode_s = number("decode_s");
  const bool has_decoded = use.output_tokens == 0 || (decoded_tokens > 0.0 && decode_s > 0.0);
  if (!(prompt_tokens > 0.0 && first_token_s > 0.0 && has_decoded)) {
    return usage(fmt::format(
        "{}: not a measurement with a prompt and several new tokens; write one with `trireme "
        "generate MODEL -p TEXT -n 64 --speed {}`",
        path.string(), path.filename().string()));
  }
  const double mean_tokens = prompt_tokens / std::max(number("prompts"), 1.0);
  const double ratio = double(use.prompt_tokens) / mean_tokens;
  if (!(ratio <= kMostRatio && ratio >= 1.0 / kMostRatio)) {
    return usage(fmt::format(
        "{}: its prompts have {:.4g} tokens and those of the requests {}, whose time does not "
        "follow from that: measure prompts that are about as long",
        path.string(), mean_tokens, use.prompt_tokens));
  }
  const double prefill_s = first_token_s * double(use.prompt_tokens) / prompt_tokens;
  const double step_s = has_decoded && decoded_tokens > 0.0 ? decode_s / decoded_tokens : 0.0;
  const double rate = 1.0 / (prefill_s + double(use.output_tokens) * step_s);
  if (!(rate <= kMostRate)) {
    return usage(fmt::format("{}: {:g} requests per second are more than {:g}: measure again",
                             path.string(), rate, kMostRate));
  }
  return rate;
}

Result<ModelSpec> read_model(const std::string& file, const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / file;
  TRIREME_TRY_DONE(read_config_file(path.string()));
  const std::string parent = path.parent_path().empty() ? "." : path.parent_path().string();
  TRIREME_TRY(loaded, load_config({.overrides = {"model.preset=" + path.stem().string()},
                                   .model_folders = {parent}}));
  return resolve_model(loaded.config.model, 0);
}

}  // namespace

Status price_language_model(const std::string& folder, const Tiers& tiers, ServedModel& model) {
  const LanguageModelUse& use = model.language_model;
  TRIREME_TRY(spec, read_model(use.file, folder));
  for (const auto& [kind, file] : model.measured) {
    TRIREME_TRY(speed, measured_speed(std::filesystem::path(folder) / file, use));
    model.speeds[kind] = speed;
  }
  for (const WorkerKind& kind : tiers.kinds) {
    if (!kind.hardware) continue;
    const LanguageModelSpeed speed = language_model_speed(spec, use, *kind.hardware);
    if (model.memory_bytes == 0.0) model.memory_bytes = speed.memory_bytes();
    const bool is_new = model.speeds.emplace(kind.name, speed.requests_per_s).second;
    if (!is_new) model.priced[kind.name] = speed.requests_per_s;
  }
  if (!model.speeds.empty()) return Done{};
  return usage("has no speed: no kind of workers names a hardware file with cluster");
}

}  // namespace trireme
