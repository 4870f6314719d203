#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/search_by_op.h"

namespace trireme {

// Returns, for every stage that differs from the one before, what the stage would cost if one op
// had other roles. The plan has its prices.
std::string role_prices_text(const PlanByOp& found);
// Returns the prices of one op: the element "alternatives" of its object in JSON.
nlohmann::ordered_json role_prices_json(const std::vector<RolePrice>& prices);

}  // namespace trireme
