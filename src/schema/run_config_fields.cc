#include "schema/run_config_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest_name.h"
#include "base/or_list.h"
#include "schema/field_list.h"

namespace trireme {

std::string ConfigField::key() const { return fmt::format("{}.{}", section, name); }

std::vector<ConfigField> config_fields(RunConfig& config) {
  FieldList list;
  add_model_fields(list, config.model);
  add_data_fields(list, config.data);
  add_batch_fields(list, config.batch);
  add_optim_fields(list, config.optim);
  add_parallel_fields(list, config.parallel);
  add_memory_fields(list, config.memory);
  add_precision_and_checkpoint_fields(list, config);
  add_run_fields(list, config.run);
  add_trace_fields(list, config.trace);
  return list.take();
}

std::vector<ConfigField> config_fields(const RunConfig& config) {
  return config_fields(const_cast<RunConfig&>(config));
}

const std::vector<ConfigSection>& config_sections() {
  static const std::vector<ConfigSection> sections = {
      {"model", "The model to train."},
      {"data", "The data that the model is trained on."},
      {"batch", "The size of a step. The number of accumulated micro-batches is derived."},
      {"optim", "The optimizer and its learning rate."},
      {"parallel", "How the work is split over ranks. World size = dp * tp * pp * cp."},
      {"memory", "Ways to need less memory, which cost time."},
      {"precision", "The number formats of computation."},
      {"checkpoint", "When the run is saved and which checkpoints are kept."},
      {"run", "Length, seed and threads of the run, and what it measures and reports."},
      {"trace", "The steps that are recorded for Perfetto."},
  };
  return sections;
}

bool ChoiceField::set(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return false;
  *value = static_cast<unsigned char>(found - names.begin());
  return true;
}

std::string or_choices(ChoiceNames choices) {
  std::vector<std::string> names(choices.begin(), choices.end());
  for (std::string& name : names) name = name.empty() ? "\"\"" : name;
  return or_list(names);
}

std::string nearest_choice(std::string_view word, ChoiceNames choices) {
  const std::string nearest = nearest_name(word, {choices.begin(), choices.end()});
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

}  // namespace trireme
