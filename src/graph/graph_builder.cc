#include "graph/graph_builder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "graph/axis_part.h"
#include "graph/model_graphs.h"
#include "graph/param_table.h"

namespace trireme {
namespace {

// "attn.wq" -> "attn.bq"; "" where the name is no weight's.
std::string bias_of(const std::string& weight) {
  const size_t start = weight.rfind('.') + 1;  // 0 where there is no dot
  if (weight.compare(start, 1, "w") != 0) return "";
  std::string bias = weight;
  bias[start] = 'b';
  return bias;
}

std::vector<Dim> columns_of(const std::vector<Dim>& dims) { return {dims.begin() + 1, dims.end()}; }

std::vector<Dim> with_rows(const Dim& rows, const std::vector<Dim>& columns) {
  std::vector<Dim> dims = {rows};
  dims.insert(dims.end(), columns.begin(), columns.end());
  return dims;
}

// True if the weight gets an adapter.
bool is_target(const ModelSpec& model, std::string_view weight) {
  const std::optional<LoraTarget> target = lora_target_of(weight);
  return target && model.lora_targets.contains(*target);
}

// Puts adapters last, so that parameters that are trained lie together, apart from frozen ones.
void put_adapters_last(Graph& graph) {
  std::vector<ParamId> order(graph.params.size()), place(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_partition(order.begin(), order.end(),
                        [&](ParamId id) { return !graph.params[size_t(id)].is_adapter; });
  std::vector<Param> params;
  for (const ParamId id : order) {
    place[size_t(id)] = ParamId(params.size());
    params.push_back(std::move(graph.params[size_t(id)]));
  }
  graph.params = std::move(params);
  for (Op& op : graph.ops) {
    for (ParamId& id : op.params) id = place[size_t(id)];
    for (Adapter& adapter : op.adapters) {
      adapter.a = place[size_t(adapter.a)];
      adapter.b = place[size_t(adapter.b)];
    }
  }
}

}  // namespace

GraphBuilder::GraphBuilder(const ModelSpec& model, std::string unit) : model_(model) {
  graph_.unit = std::move(unit);
}

ValueId GraphBuilder::add_value(std::string name, std::vector<Dim> dims, Numbers numbers) {
  graph_.values.push_back({std::move(name), whole(std::move(dims)), numbers});
  return ValueId(graph_.values.size()) - 1;
}

std::vector<Dim> GraphBuilder::whole(std::vector<Dim> dims) const {
  for (Dim& dim : dims) {
    if (dim.extent == 0) dim = dim_of(dim.axis, model_);
  }
  return dims;
}

ParamId GraphBuilder::add_param(Param param) {
  param.rows = whole(std::move(param.rows));
  param.columns = whole(std::move(param.columns));
  const auto [named, is_new] = param_named_.emplace(param.name, ParamId(graph_.params.size()));
  if (!is_new) return named->second;
  const std::string name = full_name(graph_, param);
  param.is_trained = param.is_adapter ? !model_.is_frozen(name) : model_.trains(name);
  graph_.params.push_back(std::move(param));
  return ParamId(graph_.params.size()) - 1;
}

ParamId GraphBuilder::add_matrix(const std::string& name, std::vector<Dim> rows,
                                 std::vector<Dim> columns, double stddev) {
  return add_param({.name = name,
                    .rows = std::move(rows),
                    .columns = std::move(columns),
                    .init = ParamInit::Normal,
                    .stddev = stddev});
}

ValueId GraphBuilder::add_op(OpKind kind, std::string name, std::vector<ValueId> inputs,
                             std::vector<ParamId> params, std::vector<Dim> dims, Numbers numbers) {
  const ValueId out = add_value(name, std::move(dims), numbers);
  graph_.ops.push_back({kind,
                        std::move(name),
                        std::move(inputs),
                        std::move(params),
                        {out},
                        {},
                        MeshAxis::Tp,
                        {},
                        false});
  return out;
}

const std::vector<Dim>& GraphBuilder::dims_of(ValueId value) const {
  TRIREME_CHECK(value >= 0 && value < ValueId(graph_.values.size()), "no such value");
  return graph_.values[size_t(value)].dims;
}

double GraphBuilder::residual_stddev() const {
  return model_.init_scale_residual ? model_.init_stddev / std::sqrt(2.0 * double(model_.layers))
                                    : model_.init_stddev;
}

ValueId GraphBuilder::input(const std::string& name, std::vector<Dim> dims, Numbers numbers,
                            size_t num_row_dims) {
  graph_.input = add_value(name, std::move(dims), numbers);
  graph_.values.back().num_row_dims = num_row_dims;
  return graph_.input;
}

Graph GraphBuilder::output(ValueId value) {
  graph_.output = value;
  put_adapters_last(graph_);
  return std::exchange(graph_, {});
}

ValueId GraphBuilder::lookup(const std::string& table, const std::string& positions,
                             ValueId tokens) {
  std::vector<ParamId> params = {
      add_matrix(table, {Axis::Vocabulary}, {Axis::Width}, model_.init_stddev)};
  if (!positions.empty()) {
    params.push_back(add_matrix(positions, {Axis::Position}, {Axis::Width}, model_.init_stddev));
  }
  return add_op(OpKind::Lookup, table, {tokens}, std::move(params), {Axis::Token, Axis::Width});
}

ValueId GraphBuilder::norm(const std::string& name, ValueId x) {
  return add_norm(name, x, columns_of(dims_of(x)));
}

ValueId GraphBuilder::head_norm(const std::string& name, ValueId x) {
  return model_.qk_norm ? add_norm(name, x, {dims_of(x).back()}) : x;
}

ValueId GraphBuilder::add_norm(const std::string& name, ValueId x,
                               const std::vector<Dim>& columns) {
  std::vector<ParamId> params;
  if (model_.norm_gain) {
    params.push_back(add_param({.name = name + ".gain", .rows = columns, .init = ParamInit::One}));
  }
  if (model_.norm_gain && model_.norm == NormType::LayerNorm && model_.bias) {
    params.push_back(add_param({.name = name + ".bias", .rows = columns, .init = ParamInit::Zero}));
  }
  return add_op(OpKind::Norm, name, {x}, std::move(params), dims_of(x));
}

ValueId GraphBuilder::add_linear(const std::string& weight, ValueId x, std::vector<Dim> out,
                                 double stddev) {
  std::vector<ParamId> params = {add_matrix(weight, out, columns_of(dims_of(x)), stddev)};
  const std::string bias = bias_of(weight);
  if (model_.bias && !bias.empty()) {
    params.push_back(add_param({.name = bias, .rows = out, .init = ParamInit::Zero}));
  }
  const std::vector<Dim> dims = with_rows(dims_of(x).front(), out);
  const ValueId y = add_op(OpKind::Linear, weight, {x}, std::move(params), dims);
  if (is_target(model_, weight)) add_adapter(weight, x, out);
  return y;
}

// The standard deviation of `a` is that of PEFT's initial values, which are uniform up to
// 1 / sqrt(columns of x).
void GraphBuilder::add_adapter(const std::string& weight, ValueId x, const std::vector<Dim>& out) {
  const std::vector<Dim> in = columns_of(dims_of(x));
  const double width = double(part_of(in, shard_model(model_, {})).total);
  Param a{.name = weight + ".lora_a", .rows = {Axis::AdapterRank}, .columns = in};
  a.stddev = 1.0 / std::sqrt(3.0 * width);
  Param b{.name = weight + ".lora_b", .rows = out, .columns = {Axis::AdapterRank}};
  b.init = ParamInit::Zero;
  a.is_adapter = b.is_adapter = true;
  const ParamId a_id = add_param(std::move(a)), b_id = add_param(std::move(b));
  Op& op = graph_.ops.back();
  op.params.insert(op.params.end(), {a_id, b_id});
  op.adapters.push_back({0, a_id, b_id});
}

ValueId GraphBuilder::linear(const std::string& weight, ValueId x, std::vector<Dim> out) {
  return add_linear(weight, x, std::move(out), model_.init_stddev);
}

void GraphBuilder::declare_weight(const std::string& weight, ValueId x, std::vector<Dim> out) {
  add_matrix(weight, std::move(out), columns_of(dims_of(x)), model_.init_stddev);
}

ValueId GraphBuilder::project(const std::string& weight, ValueId x) {
  return add_linear(weight, x, {Axis::Width}, residual_stddev());
}

ValueId GraphBuilder::activation(ValueId x) {
  const ValueId y = add_op(OpKind::Activation, graph_.values[size_t(x)].name + ".activation", {x},
                           {}, dims_of(x));
  graph_.values.back().num_row_dims = value(x).num_row_dims;
  return y;
}

ValueId GraphBuilder::swiglu(ValueId gate, ValueId up) {
  return add_op(OpKind::Activation, graph_.values[size_t(up)].name + ".swiglu", {gate, up}, {},
                dims_of(gate));
}

ValueId GraphBuilder::layer_scale(const std::string& name, ValueId x) {
  if (model_.layer_scale == 0.0) return x;
  const ParamId gain = add_param({.name = name + ".gain",
                                  .rows = columns_of(dims_of(x)),
                                  .init = ParamInit::Constant,
                                  .value = model_.layer_scale});
  return add_op(OpKind::Scale, name, {x}, {gain}, dims_of(x));
}

ValueId GraphBuilder::dropout(const std::string& site, ValueId x) {
  if (model_.dropout == 0.0) return x;
  return add_op(OpKind::Dropout, site, {x}, {}, dims_of(x));
}

ValueId GraphBuilder::add(const std::string& name, ValueId x, ValueId y) {
  const ValueId sum = add_op(OpKind::Add, name, {x, y}, {}, dims_of(x));
  graph_.values.back().num_row_dims = value(x).num_row_dims;
  return sum;
}

ValueId GraphBuilder::softmax_parts(const std::string& weight, ValueId x, const std::string& bias) {
  std::vector<ParamId> params = {
      add_matrix(weight, {Axis::Vocabulary}, columns_of(dims_of(x)), model_.init_stddev)};
  if (!bias.empty()) {
    params.push_back(
        add_param({.name = bias, .rows = {Axis::Vocabulary}, .init = ParamInit::Zero}));
  }
  return add_op(OpKind::SoftmaxParts, weight, {x}, std::move(params),
                {Axis::SoftmaxPart, dims_of(x).front()}, Numbers::F32);
}

ValueId GraphBuilder::cross_entropy(ValueId parts) {
  return add_op(OpKind::CrossEntropy, "loss", {parts}, {}, {dims_of(parts).back()}, Numbers::F32);
}

ValueId GraphBuilder::lookup_ahead(const std::string& name, int64_t ahead) {
  const ParamId table =
      add_matrix(std::string(kTokenTable), {Axis::Vocabulary}, {Axis::Width}, model_.init_stddev);
  const ValueId e = add_op(OpKind::Lookup, name, {}, {table}, {Axis::Token, Axis::Width});
  graph_.ops.back().ahead = ahead;
  return e;
}

void GraphBuilder::cross_entropy_ahead(const std::string& name, ValueId parts, int64_t ahead) {
  graph_.losses_ahead.push_back(
      add_op(OpKind::CrossEntropy, name, {parts}, {}, {dims_of(parts).back()}, Numbers::F32));
  graph_.ops.back().ahead = ahead;
}

ValueId GraphBuilder::unit(const Graph& unit, const std::string& prefix, ValueId x) {
  std::vector<ValueId> value_of;  // [value of the unit]
  for (ValueId id = 0; id < ValueId(unit.values.size()); ++id) {
    if (id == unit.input) {
      value_of.push_back(x);
      continue;
    }
    Value& copied = graph_.values.emplace_back(unit.values[size_t(id)]);
    copied.name = prefix + copied.name;
    value_of.push_back(ValueId(graph_.values.size()) - 1);
  }
  const ParamId first_param = ParamId(graph_.params.size());
  for (Param param : unit.params) {
    param.name = prefix + param.name;
    param.is_trained = model_.trains(full_name(graph_, param));
    param_named_.emplace(param.name, ParamId(graph_.params.size()));
    graph_.params.push_back(std::move(param));
  }
  for (Op op : unit.ops) {
    op.name = prefix + op.name;
    for (ValueId& id : op.inputs) id = value_of[size_t(id)];
    for (ValueId& id : op.outputs) id = value_of[size_t(id)];
    for (ParamId& id : op.params) id += first_param;
    TRIREME_CHECK(op.adapters.empty(), "a module has no adapters");
    graph_.ops.push_back(std::move(op));
  }
  return value_of[size_t(unit.output)];
}

}  // namespace trireme
