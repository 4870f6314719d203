#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "schema/model_spec.h"

namespace trireme {

// Writes a graph line by line, so that the function of a block reads like its formula. Each call
// adds one op and returns what it writes. Norms, biases and initial values follow the model.
class GraphBuilder {
 public:
  GraphBuilder(const ModelSpec& model, std::string unit);

  ValueId input(const std::string& name, std::vector<Dim> dims, Numbers numbers = Numbers::Compute,
                size_t num_row_dims = 1);
  // Graph::image_layer and Graph::input_image_layer.
  void set_image_layer(std::string layer) { graph_.image_layer = std::move(layer); }
  void set_input_image_layer(std::string layer) { graph_.input_image_layer = std::move(layer); }
  // Returns the graph; the builder is empty then.
  Graph output(ValueId value);

  ValueId lookup(const std::string& table, const std::string& positions, ValueId tokens);
  ValueId norm(const std::string& name, ValueId x);
  // The norm of every head by itself, with one gain for all heads. Returns x without model.qk_norm.
  ValueId head_norm(const std::string& name, ValueId x);
  // Parameters "attn.wq" and, where the model has biases, "attn.bq". With an adapter
  // (model.lora_targets) also "attn.wq.lora_a" and "attn.wq.lora_b".
  ValueId linear(const std::string& weight, ValueId x, std::vector<Dim> out);
  // Declares the weight of a linear op that follows later. The parameters of a unit are in the
  // order of their declaration, which is also that of random initial values and of gradient norms.
  void declare_weight(const std::string& weight, ValueId x, std::vector<Dim> out);
  // A linear op whose initial values suit a ReLU behind it (He et al. 2015).
  ValueId relu_linear(const std::string& weight, ValueId x, const Dim& out);
  // A linear op that ends on the residual stream: its initial values may be scaled by depth.
  ValueId project(const std::string& weight, ValueId x);
  ValueId rope(ValueId x);
  // A head of the result has the columns of x's head, then those of y.
  ValueId concat(const std::string& name, ValueId x, ValueId y, Axis columns);
  // The keys that a query sees: those with the greatest sum over heads j of weight_j relu(q_j k).
  ValueId choose_keys(const std::string& name, ValueId q, ValueId k, ValueId weights);
  // `chosen`: from choose_keys; -1: every query sees all keys before it.
  ValueId attention(const std::string& name, ValueId q, ValueId k, ValueId v, ValueId chosen = -1);
  ValueId activation(ValueId x);
  ValueId swiglu(ValueId gate, ValueId up);
  // x itself where the model has no layer scale.
  ValueId layer_scale(const std::string& name, ValueId x);
  ValueId dropout(const std::string& site, ValueId x);
  ValueId add(const std::string& name, ValueId x, ValueId y);

  // Parameters stand in the order in which ops are added. These two are declared before, where an
  // op of a later line is the first to read them.
  void declare_router(const std::string& router, const std::string& bias);
  ValueId route(const std::string& router, ValueId x);
  ValueId count(ValueId scores);
  // `bias`: the parameter that balances the load; absent where the model has no balance rate.
  ValueId choose(const std::string& bias, ValueId scores, ValueId visits);
  struct Dispatched {
    ValueId rows, weights;
  };
  Dispatched dispatch(ValueId x, ValueId choice);
  // SwiGLU experts on rows that are sorted by expert.
  ValueId experts(const std::string& prefix, const Dispatched& visits);
  ValueId combine(const std::string& name, ValueId rows);

  // Images: values [sample row column | channel].
  ValueId pixels(ValueId bytes);
  // Filters "conv1.w" [channel x window_row window_column channel], with a bias unless a norm
  // follows.
  ValueId convolution(const std::string& name, ValueId x, int64_t filters,
                      const ImageWindow& window, bool has_bias);
  ValueId batch_norm(const std::string& name, ValueId x);
  ValueId pool(const std::string& name, ValueId x, const ImageWindow& window, bool averages);
  ValueId flatten(ValueId x);

  const Value& value(ValueId id) const { return graph_.values[size_t(id)]; }

  // `bias`: its parameter; "": none.
  ValueId softmax_parts(const std::string& weight, ValueId x, const std::string& bias = "");
  ValueId cross_entropy(ValueId parts);

  // Multi-token prediction: returns the rows of the embedding's table for the tokens `ahead`
  // positions ahead.
  ValueId lookup_ahead(const std::string& name, int64_t ahead);
  // Adds the loss of the targets `ahead` positions ahead. The names of its tensors begin with the
  // prefix of its own name (ahead_prefix).
  void cross_entropy_ahead(const std::string& name, ValueId parts, int64_t ahead);
  // Adds all ops of a unit, with x as its input, and returns its output. The names of its ops,
  // values and parameters get the prefix.
  ValueId unit(const Graph& unit, const std::string& prefix, ValueId x);

 private:
  ValueId add_norm(const std::string& name, ValueId x, const std::vector<Dim>& columns);
  ValueId add_value(std::string name, std::vector<Dim> dims, Numbers numbers = Numbers::Compute);
  ParamId add_param(Param param);  // or finds the one of this name
  ParamId add_matrix(const std::string& name, std::vector<Dim> rows, std::vector<Dim> columns,
                     double stddev);
  // Marks the parameters of the product that makes q or k.
  void mark_logit_side(ValueId value, LogitSide side);
  ValueId add_op(OpKind kind, std::string name, std::vector<ValueId> inputs,
                 std::vector<ParamId> params, std::vector<Dim> dims,
                 Numbers numbers = Numbers::Compute);
  ValueId add_linear(const std::string& weight, ValueId x, std::vector<Dim> out, double stddev);
  // Beside the linear op that was added last.
  void add_adapter(const std::string& weight, ValueId x, const std::vector<Dim>& out);
  const std::vector<Dim>& dims_of(ValueId value) const;
  // An op of images whose output has other rows, columns or channels than x.
  ValueId add_image_op(OpKind kind, const std::string& name, ValueId x, std::vector<ParamId> params,
                       const ImageWindow& window, int64_t channels);
  // Dims that say no extent have that of the model.
  std::vector<Dim> whole(std::vector<Dim> dims) const;
  ParamId router_weight(const std::string& router);
  std::vector<ParamId> balancing_bias(const std::string& bias);
  double residual_stddev() const;

  const ModelSpec& model_;
  Graph graph_;
  std::unordered_map<std::string, ParamId> param_named_;  // the first one with a name
};

}  // namespace trireme
