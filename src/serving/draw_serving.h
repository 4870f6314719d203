#pragma once

#include <string>

#include "serving/plan_serving.h"

namespace trireme {

// An SVG picture that needs no other file, for light and dark backgrounds: who does which work in
// which tier and what flows between them, and below it the cost by accuracy, of the plans and of
// every single tier.
std::string draw_serving(const ServedPipeline& pipeline, const Tiers& tiers,
                         const ServingAnswer& answer);

}  // namespace trireme
