#include "autoparallel/param_cost.h"

#include <algorithm>

#include "compile/collective_price.h"
#include "compile/step_price.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

// Returns the seconds of a transfer that the computation beside it does not hide.
double exposed_s(double transfer_s, double compute_s, const Hardware& hardware) {
  return std::max(transfer_s - compute_s, hardware.overlap_share * transfer_s);
}

// True if the ranks of a dim have addends of the gradient of a parameter.
bool sums_grad(const OpGroups& groups, size_t group, ParamId id, Role role) {
  const Param& param = groups.graph().params[size_t(id)];
  if (role == Role::Data || role == Role::Context) return true;
  if (role == Role::Expert || role == Role::Whole) return false;
  if (placement_of(param) != Placement::invariant()) return false;
  for (const size_t op : groups.groups()[group].ops) {
    const std::vector<ParamId>& params = groups.graph().ops[op].params;
    if (std::find(params.begin(), params.end(), id) == params.end()) continue;
    return groups.grad_is_addend(op, id, role);
  }
  return false;
}

// Adds up the seconds of the collectives of a group's parameters, before computation hides some of
// them.
class ParamTransfers {
 public:
  ParamTransfers(const StageMesh& mesh, StateSharding sharding, const StageShape& layout,
                 const Hardware& hardware, UnitMoves& moves)
      : mesh_(mesh), sharding_(sharding), layout_(layout), hardware_(hardware), moves_(moves) {}

  // Adds those of one parameter over one dim, whose ranks have addends of its gradient. `elements`
  // is what the inner dim has left to sum.
  void add(const Param& param, double elements, Role role, size_t dim) {
    // Vectors travel in one message with the matrices beside them.
    const double joined_s =
        param.is_matrix()
            ? 0.0
            : collective_latency_s(hardware_, mesh_.dims[dim].span, VectorMove::AllGather);
    const auto without = [&](double seconds) { return std::max(0.0, seconds - joined_s); };
    const double param_bytes = double(size_of(layout_.compute));
    const double grad_bytes = double(size_of(layout_.grad));
    const double gather_params_s = without(moves_.of_vector(elements * param_bytes, dim).half_s);
    const UnitMoves::VectorSeconds& of_grads = moves_.of_vector(elements * grad_bytes, dim);
    const double half_sum_s = without(of_grads.half_s), sum_s = without(of_grads.sum_s);
    const bool shards_all = sharding_ == StateSharding::Everything;
    if (shards_all && role == Role::Data) gather_s += gather_params_s;
    if (!param.is_trained) return;  // nothing is summed
    if (role != Role::Data) {
      late_s += sum_s;
    } else if (shards_all) {
      scatter_s += half_sum_s;
    } else if (sharding_ == StateSharding::Optimizer) {
      hidden_s += half_sum_s;
      late_s += gather_params_s;
    } else {
      hidden_s += sum_s;
    }
  }

  // In each micro-batch, gather_s gathers parameters and scatter_s sums gradients.
  double gather_s = 0.0, scatter_s = 0.0;
  // In each step, the last backward pass may hide hidden_s, and late_s follows behind it.
  double hidden_s = 0.0, late_s = 0.0;

 private:
  const StageMesh& mesh_;
  StateSharding sharding_;
  const StageShape& layout_;
  const Hardware& hardware_;
  UnitMoves& moves_;
};

}  // namespace

ParamCost param_cost(PricedUnit& unit, const UnitSetting& setting, size_t group, const Roles& roles,
                     const StageShape& layout, const GroupPrice& price) {
  const Hardware& hardware = unit.hardware();
  const double param_bytes = double(size_of(layout.compute));
  const double grad_bytes = double(size_of(layout.grad));
  const double optimizer_bytes = double(state_bytes(layout));
  double copies = 1.0;  // ranks of data, over all dims
  for (size_t d = 0; d < 2; ++d) {
    if (roles[d] == Role::Data) copies *= double(setting.mesh.dims[d].degree());
  }
  const StateSharding sharding = copies > 1.0 ? setting.sharding : StateSharding::Nothing;
  const bool shards_all = sharding == StateSharding::Everything;
  const double updaters = sharding == StateSharding::Nothing ? 1.0 : copies;
  ParamCost cost;
  ParamTransfers transfers(setting.mesh, sharding, layout, hardware, unit.moves_on(setting.mesh));
  double trained = 0.0;
  for (const auto& [id, elements] : price.elements) {
    const Param& param = unit.groups().graph().params[size_t(id)];
    if (setting.shares_table && param.name == kTokenTable) continue;
    const double optimizer = optimizer_bytes / (shards_all ? 1.0 : updaters);
    const double of_training = param.is_trained ? grad_bytes + optimizer : 0.0;
    cost.state_bytes += elements * (param_bytes + of_training) / (shards_all ? copies : 1.0);
    if (param.is_trained) trained += elements;
    double part = elements;  // each dim sums what the inner one has left
    for (size_t d = 2; d-- > 0;) {
      const int degree = setting.mesh.dims[d].degree();
      if (degree == 1 || !sums_grad(unit.groups(), group, id, roles[d])) continue;
      transfers.add(param, part, roles[d], d);
      part /= double(degree);
    }
  }
  cost.forward_gather_s = exposed_s(transfers.gather_s, price.forward_s, hardware);
  cost.gather_s = cost.forward_gather_s +
                  exposed_s(transfers.gather_s + transfers.scatter_s, price.backward_s, hardware);
  cost.step_s = transfers.late_s + exposed_s(transfers.hidden_s, price.backward_s, hardware);
  if (trained > 0.0) cost.step_s += price_update(trained / updaters, layout, hardware);
  return cost;
}

}  // namespace trireme
