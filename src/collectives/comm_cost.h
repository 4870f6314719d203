#pragma once

#include "collectives/cost_model.h"
#include "schema/hardware.h"

namespace trireme {

// The costs of a described cluster: `inside` is its innermost tier, `across` the one around it. A
// speed that the description leaves out keeps its default.
CommCost comm_cost_of(const Hardware& hardware);

}  // namespace trireme
