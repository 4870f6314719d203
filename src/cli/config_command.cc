#include "cli/config_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ostream>

#include "base/units.h"
#include "config/unknown_key.h"
#include "graph/param_table.h"
#include "graph/work.h"
#include "schema/batch.h"
#include "schema/mesh.h"
#include "schema/model_spec.h"
#include "schema/run_config_fields.h"
#include "schema/run_config_text.h"

namespace trireme {
namespace {

struct EffectText {
  std::string_view column;
  std::string_view phrase;
};

EffectText text_of(FieldEffect effect) {
  switch (effect) {
    case FieldEffect::Results:
      return {"results", "results"};
    case FieldEffect::Mesh:
      return {"mesh", "results unless run.reproducible = \"mesh\""};
    case FieldEffect::Layout:
      return {"layout", "results unless run.reproducible = \"layout\" or \"mesh\""};
    case FieldEffect::Speed:
      return {"speed", "speed only"};
  }
  return {};
}

// Returns text such as "; replaces 4 (configs/tiny.toml:4), default 12".
std::string replaced_values(const std::vector<ConfigAssignment>& history,
                            const std::string& default_text) {
  std::string text;
  for (size_t i = history.size() - 1; i-- > 0;) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", history[i].text,
                        history[i].origin.where());
  }
  return text + fmt::format("{}default {}", text.empty() ? "" : ", ", default_text);
}

void explain_model(const RunConfig& config, std::ostream& out) {
  const Result<ModelSpec> resolved = resolve_model(config.model, 0);
  if (!resolved.ok()) {
    out << "# the model: " << resolved.error().message << "\n";
    return;
  }
  const ModelSpec& model = resolved.value();
  const ModelFlops flops = model_flops_per_token(model);
  out << fmt::format("model.kv_heads = {}, head_dim = {}, d_ff = {}\n", model.kv_heads,
                     model.head_dim, model.d_ff);
  out << fmt::format("parameters = {} ({})\n", num_params(model),
                     format_count(double(num_params(model))));
  if (model.has_adapters()) {
    out << fmt::format("trained parameters = {}: adapters of rank {} beside {}, scaled by {:.4g}\n",
                       num_trained_params(model), model.lora_rank, to_string(model.lora_targets),
                       model.lora_scale);
  }
  out << fmt::format("FLOPs per token of a training step = {:.4g} ({:.1f} % of them attention)\n",
                     flops.total(), 100.0 * flops.attention / flops.total());
}

void explain_batch(const RunConfig& config, std::ostream& out) {
  const ParallelConfig& parallel = config.parallel;
  const int64_t sequences = sequences_of_step(config);
  out << (states_places(parallel)
              ? fmt::format("ranks = cp * (the sum of tp * dp over the places, {}) = {}\n",
                            places_text(parallel), num_ranks(parallel))
              : fmt::format("ranks = dp * tp * pp * cp = {}\n", num_ranks(parallel)));
  out << fmt::format(
      "a step = {} sequences = {} tokens; the run = {} tokens\n", sequences,
      sequences * config.model.seq_len,
      format_count(double(sequences) * double(config.model.seq_len) * double(config.run.steps)));
  out << fmt::format("micro-batches that a rank accumulates = {}\n", microbatches_of_step(config));
}

std::string default_text_of(const std::string& key) {
  RunConfig defaults;
  for (const ConfigField& field : config_fields(defaults)) {
    if (field.key() == key) return toml_text(field);
  }
  return "";
}

// Returns "one of none, full", or the type.
std::string values_text(const ConfigField& field) {
  if (field.choices.empty()) return std::string(type_name(field));
  std::vector<std::string_view> names(field.choices.begin(), field.choices.end());
  std::erase(names, "");
  return fmt::format("one of {}", fmt::join(names, ", "));
}

// Returns a line such as "model.layers = 5    # --set model.layers=5; replaces default 12".
std::string value_line(const ConfigField& field, const LoadedConfig& loaded) {
  const std::string key = field.key();
  const std::string line = fmt::format("{} = {}", key, toml_text(field));
  const auto history = loaded.history.find(key);
  if (history == loaded.history.end()) return fmt::format("{:<36}  # default\n", line);
  return fmt::format("{:<36}  # {}; replaces {}\n", line, loaded.where(key),
                     replaced_values(history->second, default_text_of(key)));
}

// Escapes "|" in the text of a table cell, because it would end the cell.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return text;
}

}  // namespace

Result<int> run_config_show(const ConfigShowOptions& options, CommandIo& io) {
  TRIREME_TRY(loaded, load_config(options.config, io));
  io.out << (options.json ? to_json(loaded.config) + "\n" : to_toml(loaded.config));
  return 0;
}

bool looks_like_key(const std::string& word) {
  const auto& sections = config_sections();
  return !word.ends_with(".toml") && word.find('=') == word.npos &&
         std::any_of(sections.begin(), sections.end(), [&](const ConfigSection& section) {
           return word.starts_with(fmt::format("{}.", section.name));
         });
}

Result<std::string> key_text(const std::string& key) {
  RunConfig defaults;
  for (const ConfigField& field : config_fields(defaults)) {
    if (field.key() != key) continue;
    return fmt::format("{}: {}\n  {}, default {}; changes {}\n", key, field.doc, values_text(field),
                       toml_text(field), text_of(field.effect).phrase);
  }
  return Error{ErrorKind::Usage, unknown_key_message(key)};
}

Result<int> run_config_explain(const ConfigExplainOptions& options, CommandIo& io) {
  RunConfigOptions config = options.config;
  std::vector<std::string> keys;
  std::copy_if(config.files.begin(), config.files.end(), std::back_inserter(keys), looks_like_key);
  std::erase_if(config.files, looks_like_key);
  for (const std::string& key : keys) {
    TRIREME_TRY(text, key_text(key));
    io.out << text;
  }
  if (!keys.empty() && config.files.empty() && config.overrides.empty()) return 0;
  TRIREME_TRY(loaded, load_config(config, io));
  for (const std::string& file : loaded.files) io.out << "# read " << file << "\n";
  for (const ConfigField& field : config_fields(loaded.config)) {
    const bool is_asked = std::find(keys.begin(), keys.end(), field.key()) != keys.end();
    const bool is_shown =
        keys.empty() ? options.all || loaded.history.count(field.key()) : is_asked;
    if (is_shown) io.out << value_line(field, loaded);
  }
  if (!keys.empty()) return 0;
  io.out << "\n# derived\n";
  explain_model(loaded.config, io.out);
  explain_batch(loaded.config, io.out);
  return 0;
}

Result<int> run_config_diff(const ConfigDiffOptions& options, CommandIo& io) {
  const std::vector<std::string>& files = options.config.files;
  if (files.empty() || files.size() > 2) {
    return Error{ErrorKind::Usage, "name one or two files: A.toml B.toml, or A.toml with --set"};
  }
  RunConfigOptions first, second = options.config;
  first.files = {files.front()};
  second.files = {files.back()};
  TRIREME_TRY(a, load_config(first, io));
  TRIREME_TRY(b, load_config(second, io));
  const std::vector<ConfigField> old_fields = config_fields(a.config);
  const std::vector<ConfigField> new_fields = config_fields(b.config);
  for (size_t i = 0; i < old_fields.size(); ++i) {
    const std::string before = toml_text(old_fields[i]);
    const std::string after = toml_text(new_fields[i]);
    if (before == after) continue;
    io.out << fmt::format("{}: {} -> {}  # {}\n", old_fields[i].key(), before, after,
                          text_of(old_fields[i].effect).phrase);
  }
  return 0;
}

std::string configuration_markdown() {
  std::string text =
      "# RUN.toml\n\n"
      "`trireme config docs` prints this page from the table that the parser reads\n"
      "(src/schema/*_fields.cc). A test checks that the two are equal.\n\n"
      "A run may be described by several files: later files override earlier ones, and\n"
      "`--set section.key=value` overrides all files. The value is TOML or a bare word. A "
      "`model.preset`\n"
      "counts as a file directly before the one that names it. Terms are explained in the\n"
      "[glossary](glossary.md).\n\n"
      "The last column says what a change of the key can change: *results* means the trained "
      "numbers;\n"
      "*layout* means their last bits, unless `run.reproducible` is \"layout\" or \"mesh\"; *mesh* "
      "means\n"
      "their last bits, unless it is \"mesh\"; *speed* means only time, memory, and what is kept "
      "or shown.\n";
  RunConfig defaults;
  const std::vector<ConfigField> fields = config_fields(defaults);
  for (const ConfigSection& section : config_sections()) {
    text +=
        fmt::format("\n## [{}]\n\n{}\n\n| key | default | meaning | changes |\n|---|---|---|---|\n",
                    section.name, section.doc);
    for (const ConfigField& field : fields) {
      if (field.section != section.name) continue;
      std::string meaning(field.doc);
      if (!field.choices.empty()) {
        std::vector<std::string_view> names(field.choices.begin(), field.choices.end());
        std::erase(names, "");
        meaning += fmt::format(" (`{}`)", fmt::join(names, "`, `"));
      }
      text += fmt::format("| `{}` | `{}` | {} | {} |\n", field.name, toml_text(field),
                          cell(meaning), text_of(field.effect).column);
    }
  }
  return text;
}

}  // namespace trireme
