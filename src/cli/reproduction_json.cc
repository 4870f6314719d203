#include "cli/reproduction_json.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json time_json(const StepTimes& time) {
  Json exposed = Json::object();
  for (size_t axis = 0; axis < kTrafficAxes.size(); ++axis) {
    exposed[std::string(kTrafficAxes[axis])] = time.exposed[axis];
  }
  return {{"step", time.step},
          {"compute", time.compute},
          {"optimizer", time.optimizer},
          {"exposed", exposed},
          {"bubble", time.bubble}};
}

Json row_json(const ReproducedRow& row) {
  Json json = {{"row", row.row},
               {"measured", row.measured},
               {"predicted", row.predicted},
               {"error", row.error()}};
  if (!row.part.empty()) json["part"] = row.part;
  if (row.constant) json["constant"] = *row.constant;
  if (row.roofline) json["roofline"] = *row.roofline;
  if (row.time) json["time"] = time_json(*row.time);
  return json;
}

void add_errors(Json& json, const ErrorSummary& errors) {
  json["mean_abs_error"] = errors.mean_abs;
  json["max_abs_error"] = errors.max_abs;
  json["bias"] = errors.bias;
}

Json rows_json(const ReproducedRows& table) {
  Json rows = Json::array();
  for (const ReproducedRow& row : table.rows) rows.push_back(row_json(row));
  return rows;
}

Json parts_json(const Reproduction& result) {
  Json parts = Json::object();
  for (const std::string& name : result.parts()) {
    const ReproducedRows part = result.part(name);
    add_errors(parts[name], part.errors());
    if (!result.compares_layouts) continue;
    const LayoutRegret regret = regret_of(part.rows);
    parts[name]["regret"] = regret.regret;
    parts[name]["chosen"] = regret.chosen;
    parts[name]["best"] = regret.best;
  }
  return parts;
}

// The mean absolute error of a baseline, or null where it says nothing.
Json baseline_json(const Reproduction& result, std::optional<double> ReproducedRow::*baseline) {
  const std::optional<ErrorSummary> errors = result.table.errors_of(baseline);
  return number_or_null(errors ? std::optional(errors->mean_abs) : std::nullopt);
}

}  // namespace

Json reproduction_json(const Reproduction& result) {
  Json json = {{"name", result.name},
               {"source", result.source},
               {"quantity", result.table.quantity},
               {"unit", result.table.unit},
               {"rows", rows_json(result.table)}};
  add_errors(json, result.table.errors());
  json["baselines"] = {{"constant", baseline_json(result, &ReproducedRow::constant)},
                       {"roofline", baseline_json(result, &ReproducedRow::roofline)}};
  if (result.constant_flops > 0.0) json["constant_flops"] = result.constant_flops;
  if (!result.parts().empty()) json["parts"] = parts_json(result);
  if (!result.memory.rows.empty()) {
    Json& memory = json["memory"];
    memory["unit"] = result.memory.unit;
    memory["rows"] = rows_json(result.memory);
    add_errors(memory, result.memory.errors());
  }
  json["notes"] = result.notes;
  return json;
}

}  // namespace trireme
