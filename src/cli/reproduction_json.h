#pragma once

#include <nlohmann/json.hpp>

#include "reproduce/reproduction.h"

namespace trireme {

// A reproduced table as JSON; docs/reproduce.md describes its keys.
nlohmann::ordered_json reproduction_json(const Reproduction& result);

}  // namespace trireme
