#include "models/quantized_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "base/element.h"
#include "graph/model_graphs.h"
#include "models/decoder_graph.h"
#include "nn/quantized_weight.h"

namespace trireme {
namespace {

constexpr double kGreatestInBytes = 127.0 * 65504.0;  // with the greatest scale in fp16

// The matrices that whole products multiply, by their names in the model.
std::set<std::string> multiplied_params(const ModelSpec& model, DType compute) {
  std::set<std::string> names;
  const ModelSpec generating = generating_model(model);
  const auto pass = [&](Graph unit) {
    return decoder_graph(std::move(unit), {.compute = compute});
  };
  for_each_unit(generating, whole_model(generating), pass, [&](const Graph& graph, bool) {
    for (const Op& op : graph.ops) {
      if (op.kind != OpKind::Linear) continue;
      for (size_t id = size_t(op.params.front()); id < graph.params.size(); ++id) {
        const Param& param = graph.params[id];
        if (int(id) != op.params.front() && !param.adjoins_previous) break;
        if (param.is_matrix()) names.insert(full_name(graph, param));
      }
    }
  });
  return names;
}

bool is_finite(const TensorRef& scale) {
  for (int64_t i = 0; i < scale.shape.num_elements(); ++i) {
    if (!std::isfinite(read_element(scale.data, scale.dtype, i))) return false;
  }
  return true;
}

}  // namespace

TensorTable quantized_table(const ModelSpec& model, DType compute) {
  const std::vector<ParamSpec> params = param_table(model, whole_model(model));
  const std::set<std::string> multiplied = multiplied_params(model, compute);
  const std::string head = head_param(model);
  const auto has_blocks = [](const ParamSpec& param) {
    return param.shape.rank() == 2 && param.shape[1] % kScaleBlock == 0;
  };
  const auto is_quantized = [&](const ParamSpec& param) {
    return has_blocks(param) && (multiplied.contains(param.name) || param.name == head);
  };
  TensorTable table;
  for (const ParamSpec& param : params) {
    const bool is_looked_up = param.is_table;
    if (is_quantized(param) && !is_looked_up) continue;
    table.add(param.name, param.shape, compute, param.adjoins_previous);
  }
  const auto add = [&](const char* suffix, DType dtype, int64_t cols_of_one) {
    for (const ParamSpec& param : params) {
      if (!is_quantized(param)) continue;
      const Shape shape{param.shape[0], param.shape[1] / cols_of_one};
      table.add(param.name + suffix, shape, dtype, param.adjoins_previous);
    }
  };
  add(kQuantized, DType::U8, 1);
  add(kQuantizedScale, DType::F16, kScaleBlock);
  int64_t largest = 0, product = 0;
  for (const ParamSpec& param : params) {
    if (!is_quantized(param) || param.name == head) continue;
    product = (param.adjoins_previous ? product : 0) + param.shape.num_elements();
    largest = std::max(largest, product);
  }
  if (largest > 0) table.add(kUnpackedWeight, Shape{largest}, compute);
  return table;
}

int64_t num_in_bytes(const TensorTable& table) {
  int64_t weights = 0;
  for (const TensorSpec& tensor : table.tensors()) {
    if (tensor.name.ends_with(kQuantized)) weights += tensor.shape.num_elements();
  }
  return weights;
}

Status quantize_params(const Frame& params, const TensorTable& table, const Frame& quantized,
                       Stream& stream) {
  const std::vector<TensorSpec>& tensors = table.tensors();
  stream.team().parallel_for(int64_t(tensors.size()), [&](int64_t i, int) {
    const std::string& name = tensors[size_t(i)].name;
    if (name.ends_with(kQuantizedScale) || name == kUnpackedWeight) return;
    if (name.ends_with(kQuantized)) {
      quantize_weight(params, name.substr(0, name.size() - std::strlen(kQuantized)), quantized);
    } else {
      const TensorRef to = quantized.at(name);
      std::memcpy(to.data, params.at(name).data, size_t(to.bytes()));
    }
  });
  for (const TensorSpec& tensor : tensors) {
    const std::string& name = tensor.name;
    if (!name.ends_with(kQuantizedScale) || is_finite(quantized.at(name))) continue;
    return damaged(fmt::format(
        "{} has a weight that is not finite, or larger than the {:g} that bytes with a scale in "
        "fp16 can say; load it in another precision, or use another checkpoint",
        name.substr(0, name.size() - std::strlen(kQuantizedScale)), kGreatestInBytes));
  }
  return Done{};
}

}  // namespace trireme
