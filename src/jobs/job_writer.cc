#include "jobs/job_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "schema/batch.h"

namespace trireme {
namespace {

struct ToForeign {
  ForeignValue operator()(const bool* value) const { return *value; }
  ForeignValue operator()(const int* value) const { return int64_t{*value}; }
  ForeignValue operator()(const int64_t* value) const { return *value; }
  ForeignValue operator()(const uint64_t* value) const { return static_cast<int64_t>(*value); }
  ForeignValue operator()(const double* value) const { return *value; }
  ForeignValue operator()(const std::string* value) const { return *value; }
  ForeignValue operator()(const ChoiceField& field) const { return std::string(field.name()); }
  // Other trainers have no "auto".
  ForeignValue operator()(const StepsField& field) const {
    return std::max<int64_t>(0, *field.value);
  }
  ForeignValue operator()(const MixtureField& field) const { return *field.file; }
  ForeignValue operator()(const LayersField& field) const { return layer_rules_text(*field.rules); }
};

}  // namespace

JobWriter::JobWriter(const ExportRequest& request, KeyTable table)
    : request_(request),
      config_(spelled_out(request.config)),
      fields_(config_fields(config_)),
      table_(table) {
  require(config_.memory.recompute != Recompute::Fit, "memory.recompute",
          "it cannot choose value by value what is computed again",
          "use \"none\", \"selective\" or \"full\"");
  const RunConfig usual_config;
  const std::vector<ConfigField> usual = config_fields(usual_config);
  for (const KeyPair& pair : table_) {
    if (pair.say != Say::Tuning) continue;
    const ConfigField& mine = field(pair.ours);
    for (const ConfigField& other : usual) {
      if (other.key() != pair.ours || toml_text(other) == toml_text(mine)) continue;
      note(fmt::format("{} = {} is not written: {} has a setting of its own for it, or none",
                       pair.ours, toml_text(mine), title_of(request_.trainer)));
    }
  }
}

const ConfigField& JobWriter::field(std::string_view key) const {
  const auto found = std::find_if(fields_.begin(), fields_.end(),
                                  [&](const ConfigField& field) { return field.key() == key; });
  TRIREME_CHECK(found != fields_.end(), fmt::format("no key {}", key));
  return *found;
}

void JobWriter::row(const KeyPair& pair) {
  const ConfigField& mine = field(pair.ours);
  const ForeignValue value = std::visit(ToForeign{}, mine.value);
  if (pair.say == Say::Only) {
    require(toml_text(mine) == pair.value, pair.ours, pair.why,
            fmt::format("set {} = {}", pair.ours, pair.value));
  } else if (pair.say == Say::Flag) {
    flag(std::string(pair.theirs), std::get<bool>(value));
  } else if (pair.say == Say::NoFlag) {
    flag(std::string(pair.theirs), !std::get<bool>(value));
  } else if (pair.say == Say::Same && pair.words.empty()) {
    set(std::string(pair.theirs), value);
  } else if (pair.say == Say::Same) {
    std::string others;
    for (const WordPair& words : pair.words) {
      if (words.ours == word_text(value)) {
        return set(std::string(pair.theirs), std::string(words.theirs));
      }
      others += fmt::format("{}\"{}\"", others.empty() ? "" : " or ", words.ours);
    }
    require(false, pair.ours, "it has no such value", "use " + others);
  }
}

void JobWriter::rows(std::string_view section) {
  for (const KeyPair& pair : table_) {
    if (pair.ours.substr(0, section.size()) == section) row(pair);
  }
}

void JobWriter::require(bool holds, std::string_view key, std::string_view why,
                        std::string_view remedy) {
  if (holds) return;
  problems_.push_back(fmt::format("{} = {} cannot be written for {}: {}; {}", key,
                                  toml_text(field(key)), title_of(request_.trainer), why, remedy));
}

Status JobWriter::status() const {
  if (problems_.empty()) return Done{};
  return infeasible(fmt::format("{}", fmt::join(problems_, "\n")));
}

int64_t JobWriter::num_microbatches() const { return microbatches_of_step(config_); }

int64_t JobWriter::num_ranks() const {
  const ParallelConfig& parallel = config_.parallel;
  return int64_t{parallel.dp} * parallel.tp * parallel.pp * parallel.cp;
}

bool JobWriter::has_even_stages() const {
  const std::vector<int64_t>& layers = request_.stage_layers;
  if (!layers.empty()) {
    return std::all_of(layers.begin(), layers.end(), [&](int64_t n) { return n == layers[0]; });
  }
  const ParallelConfig& parallel = config_.parallel;
  return config_.model.layers % (int64_t{parallel.pp} * std::max(1, parallel.chunks)) == 0;
}

}  // namespace trireme
