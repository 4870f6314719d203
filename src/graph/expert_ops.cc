// The ops of GraphBuilder for mixtures of experts.

#include <fmt/format.h>

#include <utility>

#include "graph/graph_builder.h"

namespace trireme {

ParamId GraphBuilder::router_weight(const std::string& router) {
  return add_matrix(router, {Axis::Expert}, {Axis::Width}, model_.init_stddev);
}

std::vector<ParamId> GraphBuilder::balancing_bias(const std::string& bias) {
  if (model_.balance_rate == 0.0) return {};
  return {add_param({.name = bias,
                     .rows = {Axis::Expert},
                     .init = ParamInit::Zero,
                     .balance_rate = model_.balance_rate})};
}

void GraphBuilder::declare_router(const std::string& router, const std::string& bias) {
  router_weight(router);
  balancing_bias(bias);
}

ValueId GraphBuilder::route(const std::string& router, ValueId x) {
  return add_op(OpKind::Route, router, {x}, {router_weight(router)}, {Axis::Token, Axis::Expert},
                Numbers::F32);
}

ValueId GraphBuilder::count(ValueId scores) {
  return add_op(OpKind::Count, graph_.values[size_t(scores)].name + ".visits", {scores}, {},
                {Axis::Sequence, Axis::Expert}, Numbers::I32);
}

ValueId GraphBuilder::choose(const std::string& bias, ValueId scores, ValueId visits) {
  return add_op(OpKind::Choose, graph_.values[size_t(scores)].name + ".choice", {scores, visits},
                balancing_bias(bias), {Axis::Token, Axis::Choice}, Numbers::F32);
}

GraphBuilder::Dispatched GraphBuilder::dispatch(ValueId x, ValueId choice) {
  const std::string name = graph_.values[size_t(x)].name + ".dispatch";
  const ValueId rows = add_op(OpKind::Dispatch, name, {x, choice}, {}, {Axis::Visit, Axis::Width});
  const ValueId weights = add_value(name + ".weight", {Axis::Visit}, Numbers::F32);
  graph_.ops.back().outputs.push_back(weights);
  return {rows, weights};
}

ValueId GraphBuilder::experts(const std::string& prefix, const Dispatched& visits) {
  std::vector<ParamId> up, down;
  for (int64_t e = 0; e < model_.experts; ++e) {
    const std::string expert = fmt::format("{}{}.", prefix, e);
    const auto matrix = [&](const char* name, Axis rows, Axis columns, double stddev) {
      const ParamId param = add_matrix(expert + name, {rows}, {columns}, stddev);
      graph_.params.back().expert = e;
      return param;
    };
    up.push_back(matrix("w_gate", Axis::Hidden, Axis::Width, model_.init_stddev));
    up.push_back(matrix("w_up", Axis::Hidden, Axis::Width, model_.init_stddev));
    graph_.params.back().adjoins_previous = true;  // one product reads gate and up
    down.push_back(matrix("w_down", Axis::Width, Axis::Hidden, residual_stddev()));
  }
  const ValueId gate = add_op(OpKind::GroupedLinear, prefix + "up", {visits.rows}, std::move(up),
                              {Axis::Visit, Axis::Hidden});
  const ValueId both = add_value(prefix + "up.up", {Axis::Visit, Axis::Hidden});
  graph_.ops.back().outputs.push_back(both);
  const ValueId hidden = add_op(OpKind::Activation, prefix + "swiglu", {gate, both, visits.weights},
                                {}, {Axis::Visit, Axis::Hidden});
  return add_op(OpKind::GroupedLinear, prefix + "down", {hidden}, std::move(down),
                {Axis::Visit, Axis::Width});
}

ValueId GraphBuilder::combine(const std::string& name, ValueId rows) {
  return add_op(OpKind::Combine, name, {rows}, {}, {Axis::Token, Axis::Width});
}

}  // namespace trireme
