#include "sim/search_schedule.h"

namespace trireme {
Result<Schedule> search_schedule(const ScheduleShape& shape, const Costs&, const SearchLimits&) {
  return make_schedule("1f1b", shape);
}
}  // namespace trireme
