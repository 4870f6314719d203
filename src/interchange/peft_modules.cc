#include "interchange/peft_modules.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "graph/param_table.h"
#include "interchange/hugging_face_tensors.h"

namespace trireme {
namespace {

// Returns the target that a parameter such as "layers.0.attn.wq" is. Matrices of experts have no
// adapters, so they are none.
std::optional<LoraTarget> target_of(const std::string& param) {
  const bool is_of_experts = param.find(".mlp.experts.") != std::string::npos ||
                             param.find(".mlp.shared.") != std::string::npos;
  if (!param.starts_with("layers.") || is_of_experts) return std::nullopt;
  return lora_target_of(param);
}

}  // namespace

int64_t PeftModule::num_rows() const {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

// The rows of a head lie together. Within a head, the rows of each matrix follow those of the one
// before.
size_t PeftModule::matrix_of_row(int64_t row) const {
  const int64_t heads = std::max<int64_t>(1, tensor.heads);
  int64_t place = row % (num_rows() / heads);
  size_t matrix = 0;
  while (place >= rows[matrix] / heads) place -= rows[matrix++] / heads;
  return matrix;
}

ForeignTensor PeftModule::tensor_of_b(int64_t rank) const {
  ForeignTensor b = tensor;
  b.name = b_name();
  b.shape = Shape{num_rows(), rank};
  b.transposed = false;
  for (std::string& param : b.params) param += ".lora_b";
  return b;
}

std::string PeftModule::short_name() const {
  const size_t last = name.rfind('.');
  const bool is_gpt2 = name.starts_with("transformer.");
  return name.substr((is_gpt2 ? name.rfind('.', last - 1) : last) + 1);
}

std::vector<PeftModule> peft_modules(const ModelSpec& base, ForeignFamily family) {
  std::map<std::string, Shape> shapes;
  for (const ParamSpec& param : param_table(base, whole_model(base))) {
    shapes.emplace(param.name, param.shape);
  }
  std::vector<PeftModule> modules;
  for (const ForeignTensor& tensor : hugging_face_tensors(base, family)) {
    constexpr std::string_view kEnd = ".weight";
    if (tensor.params.empty() || !tensor.name.ends_with(kEnd)) continue;
    if (!target_of(tensor.params.front())) continue;
    PeftModule module{.name = tensor.name.substr(0, tensor.name.size() - kEnd.size())};
    for (const std::string& param : tensor.params) {
      const Shape shape = shapes.at(param);
      module.matrices.push_back(param);
      module.targets.push_back(*target_of(param));
      module.rows.push_back(shape[0]);
      module.columns = shape[1];
    }
    module.tensor = tensor;
    modules.push_back(std::move(module));
  }
  return modules;
}

}  // namespace trireme
