#include "schema/degree_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "schema/context_chunks.h"
#include "schema/model_spec.h"

namespace trireme {
namespace {

struct DegreeRule {
  std::string text;
  std::function<bool(int64_t)> holds;
};

DegreeRule divides(std::string_view key, int64_t whole) {
  return {fmt::format("must divide {} = {}", key, whole),
          [whole](int64_t degree) { return whole % degree == 0; }};
}

// The degree and `whole` must divide one another, in either direction.
DegreeRule fits_into(std::string_view key, int64_t whole) {
  return {
      fmt::format("must divide {} = {} or be a multiple of it", key, whole),
      [whole](int64_t degree) { return whole % degree == 0 || degree % whole == 0; },
  };
}

bool satisfies_all(const std::vector<DegreeRule>& requirements, int64_t degree) {
  return std::all_of(requirements.begin(), requirements.end(),
                     [&](const DegreeRule& requirement) { return requirement.holds(degree); });
}

// Reports a degree that breaks a rule, suggesting degrees up to `most`. An invalid degree, or a
// rule about an invalid size, is reported elsewhere.
void check_degree(ConfigRules& rules, std::string_view key, int64_t degree,
                  const std::vector<DegreeRule>& requirements, int64_t most,
                  const std::string& other_way = "") {
  if (degree < 1) return;
  for (const DegreeRule& requirement : requirements) {
    if (requirement.holds(degree)) continue;
    const std::string others = try_those(std::max<int64_t>(1, most),
                                         [&](int64_t d) { return satisfies_all(requirements, d); });
    return rules.require(false, key, requirement.text, other_way + others);
  }
}

DegreeRule is_at_most(std::string_view key, int64_t whole) {
  return {fmt::format("must not exceed {} = {}", key, whole),
          [whole](int64_t degree) { return degree <= whole; }};
}

void tensor_rules(ConfigRules& rules, const ParallelConfig& parallel, const ModelSpec& model) {
  std::vector<DegreeRule> requirements;
  if (model.heads >= 1) requirements.push_back(divides("model.heads", model.heads));
  if (model.kv_heads >= 1) requirements.push_back(fits_into("model.kv_heads", model.kv_heads));
  if (model.d_ff >= 1) requirements.push_back(is_at_most("model.d_ff", model.d_ff));
  if (model.vocab_size >= 1)
    requirements.push_back(is_at_most("model.vocab_size", model.vocab_size));
  check_degree(rules, "parallel.tp", parallel.tp, requirements, model.heads);
}

// The slices of run.reproducible = "mesh" are shared out among the tp ranks.
void slice_rules(ConfigRules& rules, const RunConfig& config, const ModelSpec& model) {
  const int tp = config.parallel.tp;
  if (config.run.reproducible != Reproducible::Mesh || model.has_experts()) return;
  const bool are_sizes =
      model.heads >= 1 && model.kv_heads >= 1 && model.d_ff >= 1 && model.vocab_size >= 1;
  if (!are_sizes || tp < 1 || model.heads % tp != 0) return;
  const int slices = most_slices(model);
  rules.require(slices % tp == 0, "run.reproducible",
                fmt::format("cuts this model into {} slice{} of heads, kv_heads, d_ff and "
                            "vocabulary, which parallel.tp = {} must divide",
                            slices, slices == 1 ? "" : "s", tp),
                "take a smaller parallel.tp or \"layout\"");
}

// Heads of keys and values are shared out among the cp ranks.
void head_exchange_rules(ConfigRules& rules, const ParallelConfig& parallel,
                         const ModelSpec& model) {
  if (parallel.context != ContextExchange::AllToAll || parallel.tp < 1 || parallel.cp < 1) return;
  if (model.kv_heads < 1) return;
  const int64_t kv_heads = std::max<int64_t>(1, model.kv_heads / parallel.tp);
  rules.require(kv_heads % parallel.cp == 0, "parallel.context",
                fmt::format("shares heads out: parallel.cp = {} must divide the {} kv heads of a "
                            "rank",
                            parallel.cp, kv_heads),
                "try \"ring\"");
}

void context_rules(ConfigRules& rules, const RunConfig& config) {
  const int64_t seq_len = config.model.seq_len;
  if (seq_len < 1) return;
  const DegreeRule two_chunks = {
      fmt::format("must divide half of model.seq_len = {}, because every rank has two chunks",
                  seq_len),
      [seq_len](int64_t cp) { return ContextChunks::fits(seq_len, int(cp)); }};
  check_degree(rules, "parallel.cp", config.parallel.cp, {two_chunks}, seq_len);
}

void expert_rules_of(ConfigRules& rules, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const int64_t experts = config.model.experts, cp = parallel.cp, dp = parallel.dp;
  rules.require(config.model.family == ModelFamily::Moe, "parallel.ep", "splits experts",
                "set model.family = \"moe\", or parallel.ep = 1");
  if (experts < 1 || cp < 1 || dp < 1) return;
  const std::vector<DegreeRule> of_model = {fits_into("parallel.cp", cp),
                                            divides("model.experts", experts)};
  std::vector<DegreeRule> requirements = {divides("parallel.dp * parallel.cp", dp * cp)};
  requirements.insert(requirements.end(), of_model.begin(), of_model.end());
  // The least dp, from the present one on, with which ep fits together with cp.
  const int64_t step = parallel.ep / std::gcd(int64_t{parallel.ep}, cp);
  const int64_t wide_dp = (dp + step - 1) / step * step;
  const std::string other_way = wide_dp != dp && satisfies_all(of_model, parallel.ep)
                                    ? fmt::format("set parallel.dp = {} too, or ", wide_dp)
                                    : "";
  check_degree(rules, "parallel.ep", parallel.ep, requirements, experts, other_way);
}

}  // namespace

void degree_rules(ConfigRules& rules, const RunConfig& config, int64_t data_vocab_size) {
  const ModelSpec model = with_defaults(config.model, data_vocab_size);
  tensor_rules(rules, config.parallel, model);
  slice_rules(rules, config, model);
  context_rules(rules, config);
  head_exchange_rules(rules, config.parallel, model);
  if (config.parallel.ep > 1) expert_rules_of(rules, config);
}

}  // namespace trireme
