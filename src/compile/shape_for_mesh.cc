#include "compile/shape_for_mesh.h"

#include "schema/degree_rules.h"

namespace trireme {

void shape_for_mesh(RunPlan& plan) {
  const ParallelConfig& parallel = plan.config.parallel;
  StageShape& shape = plan.shape;
  shape.tied_use_apart = plan.mode == AccumulateMode::Layout || zero_level(parallel) >= 2;
  shape.tp = plan.mesh.tp;
  shape.cp = plan.mesh.cp;
  shape.ep = plan.mesh.ep;
  const bool joins_ranks = plan.model.batch_norm == NormBatch::Step;
  shape.batch_ranks = joins_ranks ? plan.mesh.dp : 1;
  shape.sequence_parallel = parallel.sequence || (plan.model.reads_images() && plan.mesh.tp > 1);
  shape.tp_overlap = parallel.tp_overlap;
  shape.context_exchange = parallel.context;
  shape.layers = parallel.layers;
}

}  // namespace trireme
