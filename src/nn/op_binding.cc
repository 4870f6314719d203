#include "nn/op_binding.h"

#include "base/check.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

const TensorTable& table_of(const StageTables& tables, Base base) {
  return base == Base::Saved        ? tables.saved
         : base == Base::WeightGrad ? tables.weight_grad
                                    : tables.scratch;
}

Base base_of(Space space) {
  return space == Space::Saved        ? Base::Saved
         : space == Space::WeightGrad ? Base::WeightGrad
                                      : Base::Scratch;
}

const std::string kSecondUse = std::string(kTokenTable) + "@head";

}  // namespace

MatrixAt OpBinding::at(const Stored& matrix) const {
  if (!matrix) return {};
  const TensorPlace place = unit_.place(matrix);
  const Base base = base_of(place.space);
  const TensorTable& table = table_of(stage_.tables, base);
  if (!stage_.trains && !table.contains(place.name)) return {};
  const TensorSpec& tensor = table.at(place.name);
  const int64_t tokens = TokenCounts(stage_.model, stage_.shape).all;
  return {base,
          tensor.dtype,
          tensor.offset + matrix.column * size_of(tensor.dtype),
          matrix.rows,
          matrix.cols,
          matrix.stride,
          matrix.rows == tokens,
          matrix.rows % tokens == 0};
}

TensorAt OpBinding::tensor(const std::string& name_inside) const {
  for (const UnitTensor& stored : kind_.memory.tensors) {
    if (stored.name != name_inside) continue;
    const TensorPlace place = unit_.place(stored.space, stored.name);
    const Base base = base_of(place.space);
    const TensorTable& table = table_of(stage_.tables, base);
    if (!stage_.trains && !table.contains(place.name)) return {};
    const TensorSpec& tensor = table.at(place.name);
    // Other tensors may have as many numbers as there are tokens by chance.
    const int64_t tokens = TokenCounts(stage_.model, stage_.shape).all;
    const bool is_by_token = name_inside.ends_with("_T") && tensor.shape == Shape{tokens};
    return {base, tensor.dtype, tensor.offset, tensor.shape, is_by_token};
  }
  return {};
}

TensorAt OpBinding::tokens() const {
  const MatrixAt found = input();
  return {found.base, found.dtype, found.offset, Shape{found.rows}, found.is_by_token};
}

bool OpBinding::adds_to_grad(ParamId id) const {
  for (size_t later = op_ + 1; later < graph().ops.size(); ++later) {
    const std::vector<ParamId>& params = graph().ops[later].params;
    if (std::find(params.begin(), params.end(), id) != params.end()) return true;
  }
  return param(id).name == kTokenTable && unit_.name != "head" && stage_.has_head &&
         stage_.model.head_reads_table() && !stage_.tables.grads.contains(kSecondUse);
}

MatrixAt OpBinding::matrix_of(const std::string& name_inside) const {
  const TensorAt found = tensor(name_inside);
  if (!found) return {};
  const int64_t rows = found.shape[0], cols = found.shape[1];
  const int64_t tokens = TokenCounts(stage_.model, stage_.shape).all;
  const bool is_by_token = rows == tokens;
  return {found.base, found.dtype, found.offset, rows, cols, cols, is_by_token, is_by_token};
}

ParamId OpBinding::first_param(bool is_matrix, const std::string& ending) const {
  for (const ParamId id : op().params) {
    if (param(id).is_matrix() == is_matrix && param(id).name.ends_with(ending)) return id;
  }
  return -1;
}

int64_t OpBinding::rows_of(ParamId id) const {
  const Frame& frame = frame_of(id);
  const TensorRef quantized = frame.find(name_of(id) + kQuantized);
  return quantized ? quantized.shape[0] : frame.at(name_of(id)).shape[0];
}

int64_t OpBinding::adjoining_rows(ParamId first) const {
  int64_t rows = rows_of(first);
  for (ParamId id = first + 1; id < ParamId(graph().params.size()); ++id) {
    if (!param(id).adjoins_previous) break;
    rows += rows_of(id);
  }
  return rows;
}

template <typename Visit>
void OpBinding::for_each_trained_run(ParamId first, Visit&& visit) const {
  if (first < 0 || !stage_.trains) return;
  int64_t row = 0, begin = 0;
  ParamId run = -1;
  const auto end_run = [&] {
    if (run >= 0) visit(begin, row - begin, run);
    run = -1;
  };
  for (ParamId id = first; id < ParamId(graph().params.size()); ++id) {
    if (id > first && !param(id).adjoins_previous) break;
    if (!is_trained(id)) end_run();
    if (is_trained(id) && run < 0) {
      run = id;
      begin = row;
    }
    row += params_.at(name_of(id)).shape[0];
  }
  end_run();
}

std::vector<MatrixGradPart> OpBinding::matrix_grad_parts(ParamId first) const {
  std::vector<MatrixGradPart> parts;
  for_each_trained_run(first, [&](int64_t row, int64_t rows, ParamId run) {
    const TensorSpec& grad = stage_.tables.grads.at(name_of(run));
    const int64_t cols = grad.shape[1];
    parts.push_back({row, {Base::Grads, grad.dtype, grad.offset, rows, cols, cols}});
  });
  return parts;
}

std::vector<VectorGradPart> OpBinding::vector_grad_parts() const {
  std::vector<VectorGradPart> parts;
  for_each_trained_run(first_param(false), [&](int64_t row, int64_t rows, ParamId run) {
    const TensorSpec& grad = stage_.tables.grads.at(name_of(run));
    parts.push_back({row, {Base::Grads, grad.dtype, grad.offset, Shape{rows}}});
  });
  return parts;
}

bool OpBinding::is_tied(ParamId id) const {
  return param(id).name == kTokenTable && unit_.name == "head" && tied_.contains(name_of(id));
}

MatrixRef OpBinding::weight(ParamId first) const {
  return frame_of(first).stacked_rows(name_of(first), adjoining_rows(first));
}

QuantizedWeight OpBinding::quantized_weight() const {
  const ParamId first = first_param(true);
  return trireme::quantized_weight(params_, name_of(first), adjoining_rows(first));
}

MatrixAt OpBinding::weight_grad(ParamId first) const {
  if (!stage_.trains || !is_trained(first)) return {};
  const bool is_apart = is_tied(first) && stage_.tables.grads.contains(kSecondUse);
  const TensorSpec& grad = stage_.tables.grads.at(is_apart ? kSecondUse : name_of(first));
  const Base base = is_tied(first) && !is_apart ? Base::TiedGrads : Base::Grads;
  const int64_t cols = grad.shape[1];
  return {base, grad.dtype, grad.offset, adjoining_rows(first), cols, cols};
}

TensorRef OpBinding::vector(const std::string& ending) const {
  const ParamId first = first_param(false, ending);
  if (first < 0) return {};
  return params_.stacked(name_of(first), adjoining_rows(first));
}

TensorAt OpBinding::vector_grad(const std::string& ending) const {
  const ParamId first = first_param(false, ending);
  if (first < 0 || !stage_.trains || !is_trained(first)) return {};
  const TensorSpec& grad = stage_.tables.grads.at(name_of(first));
  return {Base::Grads, grad.dtype, grad.offset, Shape{adjoining_rows(first)}};
}

}  // namespace trireme
