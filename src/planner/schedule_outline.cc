#include "planner/schedule_outline.h"

#include <algorithm>
#include <limits>
#include <string>

#include "program/make_schedule.h"

namespace trireme {

Schedule schedule_outline(const LayoutChoice& layout) {
  const int chunks = layout.chunks > 0 ? layout.chunks : default_chunks(layout.schedule);
  return {.kind = std::string(name_of(layout.schedule)),
          .num_ranks = layout.mesh.pp,
          .num_chunks = chunks,
          .placement = traits_of(layout.schedule).placement};
}

double layers_of(const Schedule& schedule, int rank, const std::vector<StageSpec>& stages) {
  double layers = 0.0;
  for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
    layers += double(stages[size_t(stage_of(schedule, rank, chunk))].num_layers);
  }
  return layers;
}

double least_layers_of_chunk(const Schedule& schedule, int rank,
                             const std::vector<StageSpec>& stages) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
    least = std::min(least, stages[size_t(stage_of(schedule, rank, chunk))].num_layers);
  }
  return double(least);
}

}  // namespace trireme
