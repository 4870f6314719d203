#pragma once

#include <memory>
#include <optional>

#include "base/corruption_alarm.h"
#include "base/result.h"
#include "nn/product_check.h"
#include "train/engine.h"

namespace trireme {

// Checks all products with weights of some steps (nn/product_check.h). All ranks make one and call
// its functions in the same order.
class CheckedProducts {
 public:
  CheckedProducts(Engine& engine, uint64_t seed);

  // From here to end() every product is checked.
  void begin() { engine_.ctx().products = &check_; }
  // Directly after the step. Returns on all ranks an error that names the step, the ranks and a
  // product of each, if one was wrong.
  Status end(int64_t step);

  // The last end() has found this; absent: no product was wrong.
  const std::optional<CorruptionAlarm>& alarm() const { return alarm_; }
  int64_t num_products() const { return check_.num_products(); }
  double seconds() const { return check_.seconds(); }

 private:
  Engine& engine_;
  std::unique_ptr<Group> ranks_;  // not that of the steps, whose traffic is predicted
  ProductCheck check_;
  std::optional<int64_t> last_clean_step_;
  std::optional<CorruptionAlarm> alarm_;
};

}  // namespace trireme
