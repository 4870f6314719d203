#include "compile/shape_for_mesh.h"

namespace trireme {

void shape_for_mesh(RunPlan& plan) {
  const ParallelConfig& parallel = plan.config.parallel;
  StageShape& shape = plan.shape;
  shape.tied_use_apart =
      plan.mode == AccumulateMode::Layout || (plan.mesh.dp > 1 && parallel.zero >= 2);
  shape.tp = plan.mesh.tp;
  shape.cp = plan.mesh.cp;
  shape.ep = plan.mesh.ep;
  shape.sequence_parallel = parallel.sequence;
  shape.tp_overlap = parallel.tp_overlap;
  shape.context_exchange = parallel.context;
}

}  // namespace trireme
