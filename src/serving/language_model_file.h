#pragma once

#include <string>

#include "base/result.h"
#include "serving/pipeline.h"
#include "serving/tiers.h"

namespace trireme {

// Fills in the memory of a language model and its speeds: those that were measured, and prices on
// the kinds of workers whose device is known and that have no speed. Its files are named relative
// to `folder`.
Status price_language_model(const std::string& folder, const Tiers& tiers, ServedModel& model);

}  // namespace trireme
