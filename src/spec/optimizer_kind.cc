#include "spec/optimizer_kind.h"

#include <fmt/format.h>

#include "base/nearest_name.h"

namespace trireme {

Result<OptimizerKind> optimizer_kind(const OptimConfig& optim) {
  if (optim.name == "adamw") return OptimizerKind::AdamW;
  if (optim.name == "sgd") return OptimizerKind::Sgd;
  const std::string nearest = nearest_name(optim.name, {"adamw", "sgd"});
  return Error{ErrorKind::Usage,
               fmt::format("optim.name = \"{}\" is unknown; use adamw or sgd{}", optim.name,
                           nearest.empty() ? "" : " (did you mean " + nearest + "?)")};
}

OptimizerStateSpec optimizer_state_of(const OptimConfig& optim, OptimizerKind kind) {
  if (kind == OptimizerKind::AdamW) return {true, true};
  return {optim.momentum != 0.0, false};
}

}  // namespace trireme
