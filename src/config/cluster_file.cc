#include "config/cluster_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest_name.h"
#include "config/config_load.h"
#include "config/config_toml.h"

namespace trireme {
namespace {

// Returns the first line that belongs to a RUN.toml and not to a hardware file, or null.
const ConfigAssignment* line_of_a_run(const std::vector<ConfigAssignment>& assignments) {
  RunConfig run;
  const std::vector<ConfigField> fields = config_fields(run);
  for (const ConfigAssignment& assignment : assignments) {
    for (const ConfigField& field : fields) {
      if (field.key() == assignment.key) return &assignment;
    }
  }
  return nullptr;
}

std::string unknown_key(const std::string& key, const std::vector<ConfigField>& fields) {
  std::vector<std::string> keys;
  for (const ConfigField& field : fields) keys.push_back(field.key());
  const std::string nearest = nearest_name(key, keys);
  return fmt::format("{} is unknown{}", key,
                     nearest.empty() ? fmt::format("; the keys are {}", fmt::join(keys, ", "))
                                     : "; did you mean " + nearest + "?");
}

}  // namespace

Result<Hardware> parse_hardware(std::string_view text, const std::string& source) {
  TRIREME_TRY(assignments, parse_config_text(text, source));
  if (const ConfigAssignment* line = line_of_a_run(assignments)) {
    return Error{
        ErrorKind::Usage,
        fmt::format("{}: {} is a key of a run, but a hardware file is expected here: use one "
                    "of clusters/, or write one with `trireme calibrate`",
                    line->origin.where(), line->key)};
  }
  Hardware hardware;
  const std::vector<ConfigField> fields = hardware_fields(hardware);
  std::vector<std::string> problems;
  for (const ConfigAssignment& assignment : assignments) {
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const ConfigField& f) {
      return f.key() == assignment.key;
    });
    const Status assigned = field == fields.end()
                                ? Error{ErrorKind::Usage, unknown_key(assignment.key, fields)}
                                : assign(*field, assignment);
    if (!assigned.ok()) {
      problems.push_back(
          fmt::format("{}: {}", assignment.origin.where(), assigned.error().message));
    }
  }
  if (hardware.bf16_flops == 0.0) hardware.bf16_flops = hardware.fp32_flops;
  if (problems.empty()) {
    for (const std::string& problem : validate(hardware)) {
      problems.push_back(fmt::format("{}: {}", source, problem));
    }
  }
  if (!problems.empty()) {
    return Error{ErrorKind::Usage, fmt::format("{}", fmt::join(problems, "\n"))};
  }
  return hardware;
}

Result<Hardware> load_hardware(const std::string& path) {
  TRIREME_TRY(text, read_config_file(path));
  return parse_hardware(text, path);
}

}  // namespace trireme
