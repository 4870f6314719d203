#include "planner/simple_choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "schema/degree_rules.h"
#include "schema/model_spec.h"
#include "schema/run_config_fields.h"
#include "schema/schedule_shape.h"

namespace trireme {
namespace {

struct Rule {
  std::string name;
  LayoutSpace space;
};

// The widest tensor parallelism inside a node that the model takes.
int widest_tp(const ModelSpec& model, const Hardware& hardware, int num_ranks) {
  for (int tp = std::min(num_ranks, hardware.nodes().least_size(num_ranks)); tp > 1; --tp) {
    const Mesh mesh{.tp = tp};
    if (num_ranks % tp == 0 && check_degrees(model, mesh, ContextExchange::Ring).ok()) return tp;
  }
  return 1;
}

std::vector<Rule> rules_of(const ModelSpec& model, const Hardware& hardware, int num_ranks) {
  std::vector<Rule> rules;
  if (num_ranks > 1)
    rules.push_back({"pure FSDP", {.meshes = {{.dp = num_ranks}}, .zero_levels = {3}}});
  const int tp = widest_tp(model, hardware, num_ranks);
  const int nodes = num_ranks / tp;
  if (tp == 1) return rules;
  rules.push_back(
      {"tp in the node + dp", {.meshes = {{.tp = tp, .dp = nodes}}, .zero_levels = {0, 1}}});
  std::vector<Mesh> across;
  for (int pp = 2; pp <= std::min<int64_t>(nodes, model.layers); ++pp) {
    if (nodes % pp == 0) across.push_back({.tp = tp, .pp = pp, .dp = nodes / pp});
  }
  if (!across.empty())
    rules.push_back({"pp across nodes + tp", {.meshes = across, .zero_levels = {0, 1}}});
  return rules;
}

// The second line of the refusal of a search, which names the rule that refuses the layouts.
std::string first_reason(const std::string& message) {
  const size_t begin = message.find('\n');
  if (begin == std::string::npos) return message;
  const size_t first = message.find_first_not_of(' ', begin + 1);
  return message.substr(first, message.find('\n', first) - first);
}

// A part of a step, and the words that say what a layout does in it.
struct StepPart {
  std::string words;
  double seconds = 0.0;
};

std::vector<StepPart> parts_of(const PricedLayout& priced) {
  const StepTimes& time = priced.time;
  const bool recomputes = priced.layout.recompute != Recompute::None;
  std::vector<StepPart> parts = {{"its pipeline idles", time.bubble},
                                 {recomputes ? "it computes, with recomputation," : "it computes",
                                  time.compute - time.optimizer - time.data},
                                 {"its update takes", time.optimizer},
                                 {"it waits for data", time.data}};
  for (size_t axis = 0; axis < time.exposed.size(); ++axis) {
    const bool is_file = kTrafficAxes[axis] == "file";
    parts.push_back({is_file
                         ? "it waits for the file of memory.offload"
                         : fmt::format("its exposed communication of {} takes", kTrafficAxes[axis]),
                     time.exposed[axis]});
  }
  return parts;
}

// Names the part of the step that explains most of the difference, or returns "".
std::string cause_text(const PricedLayout& best, const PricedLayout& other) {
  const std::vector<StepPart> ours = parts_of(best), theirs = parts_of(other);
  const double sign = other.time.step >= best.time.step ? 1.0 : -1.0;
  size_t most = 0;
  const auto explained = [&](size_t i) { return sign * (theirs[i].seconds - ours[i].seconds); };
  for (size_t i = 1; i < ours.size(); ++i) {
    if (explained(i) > explained(most)) most = i;
  }
  const std::string after = format_seconds(theirs[most].seconds);
  const std::string before = format_seconds(ours[most].seconds);
  if (explained(most) <= 0.0 || after == before) return "";
  return fmt::format(", because {} {} instead of {}", theirs[most].words, after, before);
}

// Writes down the number of chunks that a schedule has if the configuration says none.
void state_chunks(ParallelConfig& parallel) {
  if (parallel.chunks == 0) parallel.chunks = default_chunks(parallel.schedule);
}

std::string memory_text(int64_t more_bytes) {
  if (more_bytes == 0) return "the same memory";
  return fmt::format("{} {} memory", format_bytes(std::abs(more_bytes)),
                     more_bytes > 0 ? "more" : "less");
}

}  // namespace

std::vector<SimpleChoice> price_simple_choices(const RunConfig& config, const HostFacts& host,
                                               const Hardware& hardware, int num_ranks) {
  const ModelSpec model = with_defaults(config.model, host.data_vocab_size);
  std::vector<SimpleChoice> choices;
  for (Rule& rule : rules_of(model, hardware, num_ranks)) {
    rule.space.names_remedy = false;
    const Result<LayoutSearch> search = search_layout(config, host, hardware, rule.space, 1);
    SimpleChoice choice{.name = rule.name, .best = std::nullopt, .refusal = ""};
    if (search.ok()) {
      choice.best = search->best.front();
    } else {
      choice.refusal = first_reason(search.error().message);
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

double regret_of(const PricedLayout& priced, const std::vector<PricedLayout>& best) {
  double fastest_s = priced.time.step;
  for (const PricedLayout& other : best) fastest_s = std::min(fastest_s, other.time.step);
  return priced.time.step / fastest_s - 1.0;
}

std::string difference_text(const PricedLayout& best, const PricedLayout& other) {
  RunConfig ours = with_layout({}, best.layout), theirs = with_layout({}, other.layout);
  if (best.layout.chunks != other.layout.chunks) {
    state_chunks(ours.parallel);
    state_chunks(theirs.parallel);
  }
  const std::vector<ConfigField> fields = config_fields(ours);
  const std::vector<ConfigField> other_fields = config_fields(theirs);
  std::vector<std::string> settings;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string value = toml_text(fields[i]), other_value = toml_text(other_fields[i]);
    if (value == other_value) continue;
    settings.push_back(fmt::format("{} = {} instead of {}", fields[i].key(), other_value, value));
  }
  const double slower = other.time.step / best.time.step - 1.0;
  return fmt::format("{}: {:.1f} % {}{}; {}", fmt::join(settings, ", "), 100.0 * std::abs(slower),
                     slower >= 0.0 ? "slower" : "faster", cause_text(best, other),
                     memory_text(other.arena_bytes - best.arena_bytes));
}

}  // namespace trireme
