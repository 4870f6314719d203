#include "train/checked_products.h"

#include <fmt/format.h>

#include "comm/gather_text.h"
#include "train/gather_named.h"

namespace trireme {

CheckedProducts::CheckedProducts(Engine& engine, uint64_t seed)
    : engine_(engine),
      ranks_(engine.world().split(0, engine.world().rank(), "check of products")),
      check_(seed) {}

Status CheckedProducts::end(int64_t step) {
  engine_.settle();
  engine_.ctx().products = nullptr;
  const std::string alarm = check_.take_alarm();
  int64_t num_alarms = alarm.empty() ? 0 : 1;
  ranks_->all_reduce({&num_alarms, DType::I64, Shape{1}});
  alarm_.reset();
  if (num_alarms == 0) {
    last_clean_step_ = step;
    return Done{};
  }
  alarm_ = {.check = CorruptionCheck::Products,
            .step = step,
            .ranks = gather_named(*ranks_, alarm.empty() ? 0 : 1).ranks,
            .is_certain = true,
            .clean_step = last_clean_step_};
  std::string shown;
  const std::vector<std::string> texts = gather_text(*ranks_, alarm);
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    if (!shown.empty()) {
      shown += fmt::format("; and on {} more ranks", num_alarms - 1);
      break;
    }
    shown = fmt::format("rank {}: {}", rank, texts[rank]);
  }
  return Error{ErrorKind::Runtime,
               fmt::format("step {}: the state of the run is corrupt: {}; the core or the memory "
                           "of this rank was wrong: resume from the newest checkpoint, which is "
                           "older than this step, and check the host with `trireme doctor`",
                           step, shown)};
}

}  // namespace trireme
