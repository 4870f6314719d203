#pragma once

#include <nlohmann/json_fwd.hpp>

#include "predict/what_if.h"

namespace trireme {

// The key "what_if" of `trireme plan --json`, which the plan's page shows, too.
nlohmann::ordered_json what_if_json(const WhatIf& what_if);

}  // namespace trireme
