#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "goodput/forecast.h"
#include "train/observer.h"

namespace trireme {

// A forecast as `trireme plan --failures --json` prints it and as the page of the plan shows it.
nlohmann::ordered_json goodput_json(const GoodputForecast& forecast,
                                    std::optional<double> price_per_hour);

// Where the time of a run went, as in summary.json and in the `goodput` lines of metrics.jsonl.
nlohmann::ordered_json goodput_json(const GoodputReport& report);

}  // namespace trireme
