#include "schema/degree_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "schema/batch.h"
#include "schema/context_chunks.h"
#include "schema/model_spec.h"

namespace trireme {
namespace {

// What a degree must satisfy beside a size `whole` of the model or of the mesh.
struct DegreeRule {
  enum class Kind { Divides, FitsInto, IsAtMost, CutsInTwo };
  Kind kind;
  std::string_view key;  // of the size
  int64_t whole;

  bool holds(int64_t degree) const {
    switch (kind) {
      case Kind::Divides:
        return whole % degree == 0;
      case Kind::FitsInto:
        return whole % degree == 0 || degree % whole == 0;
      case Kind::IsAtMost:
        return degree <= whole;
      case Kind::CutsInTwo:
        return ContextChunks::fits(whole, int(degree));
    }
    return false;
  }
  std::string text() const {
    switch (kind) {
      case Kind::Divides:
        return fmt::format("must divide {} = {}", key, whole);
      case Kind::FitsInto:
        return fmt::format("must divide {} = {} or be a multiple of it", key, whole);
      case Kind::IsAtMost:
        return fmt::format("must not exceed {} = {}", key, whole);
      case Kind::CutsInTwo:
        return fmt::format("must divide half of {} = {}, because every rank has two chunks", key,
                           whole);
    }
    return "";
  }
};
using Kind = DegreeRule::Kind;
using DegreeRules = std::vector<DegreeRule>;

// Returns the first rule that the degree breaks, or null.
const DegreeRule* broken_rule(const DegreeRules& requirements, int64_t degree) {
  const auto broken = std::find_if(requirements.begin(), requirements.end(),
                                   [&](const DegreeRule& rule) { return !rule.holds(degree); });
  return broken == requirements.end() ? nullptr : &*broken;
}

// What a model asks of each degree. A rule about an invalid size is left out, because the size is
// reported elsewhere.
DegreeRules valid(DegreeRules requirements) {
  std::erase_if(requirements, [](const DegreeRule& rule) { return rule.whole < 1; });
  return requirements;
}
DegreeRules tensor_requirements(const ModelSpec& model) {
  if (model.reads_images()) {
    return valid({{Kind::IsAtMost, "the features that the head reads", model.d_ff},
                  {Kind::IsAtMost, "model.vocab_size", model.vocab_size}});
  }
  return valid({{Kind::Divides, "model.heads", model.heads},
                {Kind::FitsInto, "model.kv_heads", model.kv_heads},
                {Kind::IsAtMost, "model.d_ff", model.d_ff},
                {Kind::IsAtMost, "model.dense_d_ff", model.dense_d_ff},
                {Kind::IsAtMost, "model.vocab_size", model.vocab_size}});
}
DegreeRules context_requirements(int64_t seq_len) {
  return valid({{Kind::CutsInTwo, "model.seq_len", seq_len}});
}
DegreeRules expert_requirements(int64_t experts, int64_t cp) {
  return valid({{Kind::FitsInto, "parallel.cp", cp}, {Kind::Divides, "model.experts", experts}});
}

// Heads of keys and values that a tp rank has; the cp ranks share them out by all-to-all.
int64_t kv_heads_of_rank(const ModelSpec& model, int tp) {
  return std::max<int64_t>(1, model.kv_heads / tp);
}

// Reports a degree that breaks a rule, suggesting degrees up to `most`. An invalid degree is
// reported elsewhere.
void check_degree(ConfigRules& rules, std::string_view key, int64_t degree,
                  const DegreeRules& requirements, int64_t most,
                  const std::string& other_way = "") {
  if (degree < 1) return;
  const DegreeRule* broken = broken_rule(requirements, degree);
  if (broken == nullptr) return;
  const std::string others = try_those(std::max<int64_t>(1, most), [&](int64_t other) {
    return broken_rule(requirements, other) == nullptr;
  });
  rules.require(false, key, broken->text(), other_way + others);
}

// The slices of run.reproducible = "mesh" are shared out among the tp ranks.
void slice_rules(ConfigRules& rules, const RunConfig& config, const ModelSpec& model) {
  const int tp = config.parallel.tp;
  if (config.run.reproducible != Reproducible::Mesh || model.has_experts()) return;
  rules.require(!model.has_adapters(), "run.reproducible",
                "with adapters (model.lora_rank) would sum gradients of those matrices that all tp "
                "ranks hold over micro-batches before tp ranks",
                "take \"layout\", or set model.lora_rank = 0");
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

constexpr const char* kSplitsExperts = "splits experts";

std::string sharing_of_heads(int cp, int64_t kv_heads) {
  return fmt::format("shares heads out: parallel.cp = {} must divide the {} kv heads of a rank", cp,
                     kv_heads);
}

constexpr const char* kSharesNoChoice =
    "gives a rank some heads of all tokens, and the keys that an indexer chooses "
    "(model.index_top_k) lie with their tokens";

void head_exchange_rules(ConfigRules& rules, const ParallelConfig& parallel,
                         const ModelSpec& model) {
  if (parallel.context != ContextExchange::AllToAll || parallel.tp < 1 || parallel.cp < 1) return;
  if (model.kv_heads < 1) return;
  const int64_t kv_heads = kv_heads_of_rank(model, parallel.tp);
  rules.require(kv_heads % parallel.cp == 0, "parallel.context",
                sharing_of_heads(parallel.cp, kv_heads), "try \"ring\"");
  rules.require(parallel.cp == 1 || !model.has_indexer(), "parallel.context", kSharesNoChoice,
                "try \"ring\"");
}

void expert_rules_of(ConfigRules& rules, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const int64_t experts = config.model.experts, cp = parallel.cp, dp = parallel.dp;
  rules.require(config.model.family == ModelFamily::Moe, "parallel.ep", kSplitsExperts,
                "set model.family = \"moe\", or parallel.ep = 1");
  if (experts < 1 || cp < 1 || dp < 1) return;
  const DegreeRules of_model = expert_requirements(experts, cp);
  DegreeRules requirements = {{Kind::Divides, "parallel.dp * parallel.cp", dp * cp}};
  requirements.insert(requirements.end(), of_model.begin(), of_model.end());
  // The least dp, from the present one on, with which ep fits together with cp.
  const int64_t step = parallel.ep / std::gcd(int64_t{parallel.ep}, cp);
  const int64_t wide_dp = (dp + step - 1) / step * step;
  const std::string other_way = wide_dp != dp && broken_rule(of_model, parallel.ep) == nullptr
                                    ? fmt::format("set parallel.dp = {} too, or ", wide_dp)
                                    : "";
  check_degree(rules, "parallel.ep", parallel.ep, requirements, experts, other_way);
}

}  // namespace

int zero_level(const ParallelConfig& parallel) {
  if (parallel.dp == 1) return 0;
  return parallel.sync == GradSync::ParameterServer ? std::max(parallel.zero, 1) : parallel.zero;
}

Status check_degrees(const ModelSpec& model, const Mesh& mesh, ContextExchange exchange) {
  const auto check = [](const char* axis, int degree, const DegreeRules& requirements) -> Status {
    const DegreeRule* broken = broken_rule(requirements, degree);
    if (broken == nullptr) return Done{};
    return Error{ErrorKind::Usage,
                 fmt::format("parallel.{} = {} {}", axis, degree, broken->text())};
  };
  TRIREME_TRY_DONE(check("tp", mesh.tp, tensor_requirements(model)));
  TRIREME_TRY_DONE(check("cp", mesh.cp, context_requirements(model.seq_len)));
  TRIREME_TRY_DONE(check("ep", mesh.ep, expert_requirements(model.experts, mesh.cp)));
  if (mesh.ep > 1 && !model.has_experts()) {
    return Error{ErrorKind::Usage, fmt::format("parallel.ep = {} {}", mesh.ep, kSplitsExperts)};
  }
  const int64_t kv_heads = kv_heads_of_rank(model, mesh.tp);
  if (exchange == ContextExchange::AllToAll && kv_heads % mesh.cp != 0) {
    return Error{ErrorKind::Usage, fmt::format("parallel.context = \"all_to_all\" {}",
                                               sharing_of_heads(mesh.cp, kv_heads))};
  }
  if (exchange == ContextExchange::AllToAll && mesh.cp > 1 && model.has_indexer()) {
    return Error{ErrorKind::Usage,
                 fmt::format("parallel.context = \"all_to_all\" {}", kSharesNoChoice)};
  }
  return Done{};
}

void degree_rules(ConfigRules& rules, const RunConfig& config, int64_t data_vocab_size) {
  const ModelSpec model = with_defaults(config.model, data_vocab_size);
  const ParallelConfig& parallel = config.parallel;
  check_degree(rules, "parallel.tp", parallel.tp, tensor_requirements(model),
               model.reads_images() ? sequences_of_microbatch(config) : model.heads);
  slice_rules(rules, config, model);
  const int64_t seq_len = config.model.seq_len;
  check_degree(rules, "parallel.cp", parallel.cp, context_requirements(seq_len), seq_len);
  head_exchange_rules(rules, parallel, model);
  if (parallel.ep > 1) expert_rules_of(rules, config);
}

}  // namespace trireme
